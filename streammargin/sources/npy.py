"""Arrays of numpy.save: read headers, and read files in pieces."""

from __future__ import annotations

import io
import math
import os
from typing import Any

import numpy as np

from streammargin.errors import DataError, InputMissingError

NPY_HEADER_BYTES = 1 << 16


def read_header(stream: Any) -> tuple[tuple[int, ...], np.dtype]:
    """(shape, dtype) of the array that begins here. Raises ValueError if it is not an array of numpy.save."""
    try:
        version = np.lib.format.read_magic(stream)
        one = version == (1, 0)
        read = np.lib.format.read_array_header_1_0 if one else np.lib.format.read_array_header_2_0
        length = stream.read(2 if one else 4)
        size = int.from_bytes(length, "little")
        if size > NPY_HEADER_BYTES:  # NumPy would read all of it first
            raise ValueError(f"its header takes {size} bytes")
        shape, by_column, dtype = read(io.BytesIO(length + stream.read(size)))
    except OSError:
        raise
    except Exception as error:  # the header is Python source, whose parsing fails in many ways
        raise ValueError(str(error)[:80] or type(error).__name__) from error
    if any(size < 0 for size in shape):
        raise ValueError(f"its shape is {shape}")
    if by_column and len(shape) > 1:
        raise ValueError("it is stored by columns, in Fortran order; save numpy.ascontiguousarray of it")
    return shape, dtype


class NpyArray:
    """An array of numpy.save, read in pieces. Not memory-mapped: if a mapped file is truncated, the process dies."""

    dtype: np.dtype
    shape: tuple[int, ...]

    def __init__(self, path: str, noun: str) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                self.shape, self.dtype = read_header(file)
                self.start: int = file.tell()
                size = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise InputMissingError(f"{path} cannot be read ({error.strerror})") from error
        except ValueError as error:
            raise DataError(f"{path} is not an array of {noun} ({error}); write it with numpy.save") from error
        self.ndim: int = len(self.shape)
        if self.dtype.hasobject or not self.dtype.itemsize:
            raise DataError(
                f"{path} is not an array of {noun} (its type is {self.dtype}); write numbers or text with numpy.save"
            )
        if self.start + math.prod(self.shape) * self.dtype.itemsize > size:
            raise DataError(f"{path} is truncated: it has {size} bytes, too few for {self.shape} of {self.dtype}")

    def __getitem__(self, rows: slice) -> np.ndarray:
        count, width = max(0, min(rows.stop, self.shape[0]) - rows.start), math.prod(self.shape[1:])
        offset = self.start + rows.start * width * self.dtype.itemsize
        found = np.fromfile(self.path, self.dtype, count * width, offset=offset)
        if len(found) != count * width:
            raise DataError(f"{self.path} became shorter while it was read; do not write to it during a run")
        return found.reshape(count, *self.shape[1:])
