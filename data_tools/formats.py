"""Which formats `convert` reads, and which options each of them uses."""

from __future__ import annotations

import os
from typing import Any

from streammargin.errors import DataError, UsageError
from streammargin.sources.kinds import kind_of
from streammargin.sources.open import check_file, is_source
from streammargin.tables.formats import (
    ARROW,
    CSV,
    FOLDERS,
    MATRICES,
    NPZ,
    PARQUET,
    STREAM,
    SVMLIGHT,
    format_of,
    is_pipe,
    start_of,
)  # fmt: skip
from streammargin.wording import shown

HDF5 = "hdf5"
FORMATS = (HDF5, CSV, PARQUET, ARROW, *MATRICES)  # that `format` may name
_TABLE = ("y", "label", "like", "columns", "drop", "categorical", "text", "decimal", "dates", "missing",
          "sample_weight", "unknown")  # fmt: skip
USED = {
    HDF5: ("x", "y"),
    CSV: (*_TABLE, "separator"),
    **dict.fromkeys((PARQUET, ARROW, STREAM, *FOLDERS.values()), _TABLE),
    FOLDERS[CSV]: (*_TABLE, "separator"),
    SVMLIGHT: ("zero_based",),
    NPZ: ("x", "y"),
}
OTHERS = ("y",)  # of other files of numbers
DEFAULTS: dict[str, Any] = {"label": True, "zero_based": False, "unknown": "error"}


def format_for(path: str, named: str | None, separator: str | None) -> str:
    """The format of an input, by its name and content; text that looks like nothing else is svmlight.

    Raises DataError for other binary files, and if a pipe cannot be read.
    """
    if named is not None and named not in FORMATS:
        raise UsageError(f"`format` must be one of {', '.join(FORMATS)}, not {shown(named)}")
    folder = os.path.isdir(path)
    if named is not None and not folder and not (is_pipe(path) and named == HDF5):
        return named
    found = format_of(path)
    if named is not None and folder and found not in (named, FOLDERS.get(named)):
        raise UsageError(f"{path} is a folder, and none of {named}; leave out `format`, or name a file of it")
    if found == SVMLIGHT and separator is not None:
        return CSV  # any character may be a separator, so the content cannot tell
    if found is not None:
        return found
    if folder and not is_source(path):
        check_file(path)
    start = start_of(path)
    if not is_pipe(path) and is_source(path):
        return HDF5
    if b"\x89HDF\r\n\x1a\n" in start:
        raise DataError(f"{path} is a pipe, and HDF5 cannot be read from a pipe; name a file")
    if not start:
        raise DataError(f"{path} is empty")
    kind = kind_of(path, start)
    if kind is None and b"\0" in start:
        kind = "binary", "write its rows as CSV or svmlight text, or as HDF5"
    if kind is not None:
        raise DataError(f"{path} is {kind[0]}, not text; {kind[1]}")
    return CSV if separator is not None else SVMLIGHT


def check_options(given: dict[str, Any], kind: str, path: str) -> None:
    """Raises UsageError for an option that this format does not use."""
    for name, value in given.items():
        if value == DEFAULTS.get(name) or name in USED.get(kind, OTHERS):
            continue
        spelt = f"{name}={value}" if isinstance(value, bool) else name
        able = " or ".join(f"`format={other}`" for other in FORMATS if name in USED.get(other, OTHERS))
        hint = "its labels are in each line; omit it" if (kind, name) == (SVMLIGHT, "y") else "omit it"
        raise UsageError(f"{path} is read as {kind}, which does not use `{spelt}`; {hint}, or use {able}")
