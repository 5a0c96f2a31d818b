"""Arrays of numpy.save: dense rows (n, d), a piece at a time."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from streammargin.errors import DataError
from streammargin.sources.arrays import check_filled, value_dtype
from streammargin.sources.batch import Batch, finite_rows
from streammargin.sources.npy import read_header
from streammargin.tables.matrices.base import How, Matrix, beside
from streammargin.tables.textfile import Text

TEXT = False
PIECE = 4 << 20  # bytes of rows at a time


def read(text: Text, how: How) -> Matrix:
    """The rows of the array, with the labels of another file."""
    path = text.name
    file = how.opened.enter_context(open(path, "rb"))  # noqa: SIM115  # closed by the stack
    try:
        shape, dtype = read_header(file)
    except ValueError as error:
        raise DataError(f"{path} is not an array of numpy.save ({error}); write it again") from error
    rows, columns = check_rows(shape, dtype, path)
    check_stored(shape, dtype, os.fstat(file.fileno()).st_size - file.tell(), path)
    found = dense_rows(file.read, rows, columns, dtype, path)
    return Matrix(beside(found, path, how), False, columns, value_dtype(dtype, f"{path}: X"), count=rows)


def check_rows(shape: tuple[int, ...], dtype: Any, path: str) -> tuple[int, int]:
    """(rows, columns) of an array of rows. Raises DataError for another one."""
    if len(shape) != 2:
        raise DataError(f"{path} has the shape {shape}; rows must be a 2-dimensional array, one row each")
    value_dtype(dtype, f"{path}: X")
    check_filled(path, *shape)
    return shape


def dense_rows(take: Callable[[int], bytes], rows: int, columns: int, dtype: np.dtype, path: str) -> Iterator[Batch]:
    """Rows of the bytes that `take` returns, in order. Raises DataError if they end early, or are not finite."""
    size = columns * dtype.itemsize
    step = max(1, PIECE // size)
    for start in range(0, rows, step):
        count = min(step, rows - start)
        raw = take(count * size)
        if len(raw) != count * size:
            raise DataError(f"{path} is cut short: it has {rows} rows by its header, and ends in row "
                            f"{start + len(raw) // size}; write it again")  # fmt: skip
        X = np.frombuffer(raw, dtype).reshape(count, columns)
        yield finite_rows(X.astype(value_dtype(dtype, f"{path}: X"), copy=False), path, start)


def check_stored(shape: tuple[int, ...], dtype: np.dtype, stored: int, path: str) -> None:
    """Raises DataError unless so many bytes are stored as the header says."""
    if math.prod(shape) * dtype.itemsize != stored:
        raise DataError(f"{path} is damaged: it is said to be {shape} of {dtype}, but {stored} bytes are stored; "
                        "write it again")  # fmt: skip
