"""The model file: an .npz of arrays and one JSON header; never a pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from streammargin.answers.base import Answer
from streammargin.answers.table import KINDS
from streammargin.errors import DataError, InputMissingError
from streammargin.files import check_input, replacing
from streammargin.json_values import from_plain, to_plain

FORMAT = "streammargin-model"
SCHEMA = 1
LINEAR = "linear"  # what a file that names no kind holds


def write_model(
    path: str, kind: str, arrays: Mapping[str, np.ndarray], header: dict[str, Any], force: bool = False
) -> None:
    """Write the arrays of an answer of this kind and the header to `path` (.npz), atomically.

    Raises OutputError, ReadWriteError.
    """
    text = json.dumps({"format": FORMAT, "schema": SCHEMA, "answer": kind, **to_plain(header)})
    with replacing(path, force) as name, open(name, "wb") as file:
        np.savez(file, **arrays, header=np.array(text))  # type: ignore[arg-type]


def read_model(path: str, beside: str) -> tuple[type[Answer], list[np.ndarray], dict[str, Any]]:
    """The class of the answer, its arrays and the one called `beside`, and the header that `write_model` wrote.

    Raises InputMissingError, DataError.
    """
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
            name = header.pop("answer", LINEAR)
            if name not in KINDS:
                raise DataError(f"{path} holds an answer of the kind {name!r}, unknown here; upgrade to read it")
            found = [arrays[name] for name in (*KINDS[name].ARRAYS, beside)]
            if not all(isinstance(array, np.ndarray) for array in found):  # bytes that are no array are handed on
                raise TypeError("a member is no array")
            return KINDS[name], found, header
    except PermissionError as error:
        raise InputMissingError(f"{path} cannot be read ({error.strerror})") from error
    except DataError:
        raise
    except Exception as error:  # zip, NumPy and JSON fail in many ways on bytes that are none of theirs
        raise DataError(f"{path} is not a model; train one with: streammargin train DATA -o MODEL") from error
