"""Groups of columns for penalties: an integer per column, from an array, a dataset beside the rows, or a file."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError, InputMissingError, UsageError
from streammargin.sources.arrays import as_array
from streammargin.sources.base import Source
from streammargin.wording import shown

NOUN = ("groups of columns", "penalty=group:")


def column_groups(groups: Any, source: Source) -> np.ndarray:
    """The group of each column of the source, (d,) int64, >= 0.

    `groups` is an array (d,), or a name. It names a dataset in the source's file, FILE:NAME, FILE.npy, or a text file
    with an integer a line. Raises DataError or UsageError for anything else, InputMissingError for a missing file.
    """
    values = _read(groups, source) if isinstance(groups, (str, os.PathLike)) else as_array(groups, "groups")
    _check_shape(values.shape, source)
    if values.dtype.kind not in "biuf":
        raise UsageError(f"the groups of a penalty must be integers >= 0, not {shown(values.flat[0])}")
    wrong = ~(np.isfinite(values) & (values >= 0) & (values == np.trunc(values)) & (values < 1 << 62))
    if wrong.any():
        column = int(np.argmax(wrong))
        raise UsageError(f"the groups of a penalty must be integers >= 0, but column {column} has {values[column]}")
    return values.astype(np.int64)


def _check_shape(shape: tuple[int, ...], source: Source) -> None:
    if shape != (source.features,):
        raise UsageError(
            f"groups has the shape {shape}, but {source.name} has {source.features} columns; give one integer each"
        )


def _read_text(name: str, source: Source) -> np.ndarray:
    """The numbers in a text file; it reads one line more than there are columns, to detect a longer file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about an empty file, which is an error below
            values = np.loadtxt(name, ndmin=1, max_rows=source.features + 1)
    except (ValueError, OSError) as error:
        raise DataError(f"{name} is not a text file of groups ({error}); write one integer per line") from error
    if len(values) > source.features:
        raise UsageError(f"{name} has more lines than the {source.features} columns of {source.name}; write one each")
    return values


def _missing(name: str) -> InputMissingError:
    return InputMissingError(f"the file {name} of groups does not exist; name one with an integer per line")


def _read(groups: Any, source: Source) -> np.ndarray:
    name = os.fspath(groups)
    if os.path.isfile(name) and not name.endswith(".npy"):
        return _read_text(name, source)
    files = [path for path in source.files() if h5py.is_hdf5(path)]  # a spool is beside files of other kinds
    if not files and not name.endswith(".npy"):
        raise _missing(name)
    from streammargin.sources.hdf5.columns import open_column
    from streammargin.stored import open_hdf5

    with contextlib.ExitStack() as stack:
        home = stack.enter_context(open_hdf5(files[0])) if files else {}
        if os.path.splitext(name)[1] not in ("", ".npy") and ":" not in name and files and name not in home:
            raise _missing(name)
        column, other = open_column(name, home, files[0] if files else source.name, NOUN)
        if other is not None:
            stack.callback(other.close)
        _check_shape((column.length,), source)  # before reading: a file may declare any length
        return np.concatenate([*column.chunks(1 << 16), np.empty(0, np.int64)])
