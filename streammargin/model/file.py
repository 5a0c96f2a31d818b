"""The model file: an .npz of arrays and one JSON header; never a pickle."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from streammargin.errors import DataError, InputMissingError
from streammargin.files import check_input, replacing
from streammargin.json_values import from_plain, to_plain

FORMAT = "streammargin-model"
SCHEMA = 1


def write_model(path: str, arrays: Mapping[str, np.ndarray], header: dict[str, Any], force: bool = False) -> None:
    """Write the arrays and the header to `path` (.npz), atomically. Raises OutputError, ReadWriteError."""
    text = json.dumps({"format": FORMAT, "schema": SCHEMA, **to_plain(header)})
    with replacing(path, force) as name, open(name, "wb") as file:
        np.savez(file, **arrays, header=np.array(text))  # type: ignore[arg-type]


def read_model(path: str, names: Iterable[str]) -> tuple[list[np.ndarray], dict[str, Any]]:
    """The arrays of these names and the header that `write_model` wrote. Raises InputMissingError, DataError."""
    check_input(path, "model file")
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            header = from_plain(json.loads(str(arrays["header"])))
            if not isinstance(header, dict) or header.pop("format") != FORMAT:
                raise ValueError("another format")
            schema = header.pop("schema")
            if not isinstance(schema, int):
                raise TypeError("schema")
            if schema > SCHEMA:
                raise DataError(f"{path} was written by a newer streammargin (schema {schema}); upgrade to read it")
            found = [arrays[name] for name in names]
            if not all(isinstance(array, np.ndarray) for array in found):  # bytes that are no array are handed on
                raise TypeError("a member is no array")
            return found, header
    except PermissionError as error:
        raise InputMissingError(f"{path} cannot be read ({error.strerror})") from error
    except DataError:
        raise
    except Exception as error:  # zip, NumPy and JSON fail in many ways on bytes that are none of theirs
        raise DataError(f"{path} is not a model; train one with: streammargin train DATA -o MODEL") from error
