"""The model file: an .npz of arrays and one JSON header; never a pickle."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from streammargin.errors import DataError, InputMissingError, UsageError
from streammargin.files import check_input, declared, replacing
from streammargin.json_values import from_plain, to_plain
from streammargin.saved.fields import ENTRIES, KINDS
from streammargin.saved.header import LINEAR, known_names, parsed
from streammargin.sizes import format_size
from streammargin.wording import shown

FORMAT = "streammargin-model"
SCHEMA = 1
JOB, JOB_SEARCH_BYTES = "job", 1 << 27  # of the header: the training with a checkpoint that wrote it
HEADER_MEMORY_RATIO = 8  # memory to parse a header, in multiples of its bytes
FEATURE_NAMES = "feature_names"  # optional array
MOMENTS = ("means", "deviations")  # optional arrays of the columns' means and standard deviations
ROW_NAMES, COLUMN_NAMES = "row_names", "column_names"  # optional arrays of the names of a matrix
PROBLEM = ("caps", "center", "factor", "groups")  # optional arrays that define the objective, for `verify`


def write_model(
    path: str, kind: str, arrays: Mapping[str, np.ndarray], header: dict[str, Any], force: bool = False
) -> None:
    """Write an answer's arrays and the header to `path` (.npz), atomically; kind: that of the answer.

    Raises OutputError, ReadWriteError.
    """
    text = json.dumps({"format": FORMAT, "schema": SCHEMA, "answer": kind, **to_plain(header)})
    with replacing(path, force) as name, open(name, "wb") as file:
        np.savez(file, **arrays, header=np.array(text))  # type: ignore[arg-type]


def job_of(path: str) -> str | None:
    """The name of the training that wrote this file; None if it was another program, or a training without one."""
    try:
        with zipfile.ZipFile(path) as archive:
            if HEADER_MEMORY_RATIO * declared(archive, "header.npy")[0] > JOB_SEARCH_BYTES:
                return None
            header = json.loads(str(_array(archive, "header")))
            return header[JOB] if header["format"] == FORMAT and isinstance(header[JOB], str) else None
    except Exception:  # zip, NumPy and JSON fail in many ways on other bytes
        return None


def read_model(path: str, memory: int | None = None) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
    """(kind, arrays that a model may have by name, header as written), which are still to be checked.

    memory: bytes that loading the model may take, None: any. The declared sizes are checked before anything is
    allocated. Raises InputMissingError, DataError, UsageError.
    """
    check_input(path, "model file")
    try:
        with zipfile.ZipFile(path) as archive:
            _check_memory(path, HEADER_MEMORY_RATIO * declared(archive, "header.npy")[0], memory)
            header = parsed(str(_array(archive, "header")))
            if header.pop("format") != FORMAT:
                raise ValueError("another format")
            header.pop(JOB, None)  # what is saved again is not the training's own
            schema = header.pop("schema")
            if not isinstance(schema, int):
                raise TypeError("schema")
            if schema > SCHEMA:
                raise DataError(f"{path} was written by a newer streammargin (schema {schema}); upgrade to read it")
            name = header.pop("answer", LINEAR)
            if name not in KINDS:
                raise DataError(f"{path} is a model of the unknown kind {shown(name)}; upgrade to read it")
            there = known_names([member.removesuffix(".npy") for member in archive.namelist()])
            _check_memory(path, sum(_needed(*declared(archive, f"{each}.npy")) for each in there), memory)
            return name, {each: _array(archive, each) for each in there}, header
    except PermissionError as error:
        raise InputMissingError(f"{path} cannot be read ({error.strerror})") from error
    except (DataError, UsageError):
        raise
    except Exception as error:  # zip, NumPy and JSON fail in many ways on other bytes
        what = f"{path} is not a model, or it is truncated"
        raise DataError(f"{what}; train one with: streammargin train DATA -o MODEL") from error


def unwritten(plain: dict[str, Any]) -> dict[str, Any]:
    """The header as it was before it was written; a class, a column or a word of a table that is inf stays text."""
    known, infinite = ({line.path.split(".")[0] for line in ENTRIES if part in line.types} for part in ("", "inf"))
    return from_plain(plain) | {name: plain[name] for name in known - infinite if name in plain}


def _needed(stored: int, count: int) -> int:
    """Bytes needed to load such an array: two copies in float64, and a byte per number for checks."""
    return 2 * max(stored, 8 * count) + count


def _check_memory(path: str, needed: int, memory: int | None) -> None:
    if memory is not None and needed > memory:
        least = -(-needed >> 20)
        raise UsageError(
            f"a memory budget of {format_size(memory)} is too small for the model {path}: reading it needs {least}M; "
            f"use `memory={least}M` or more"
        )


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)
