"""A column of a compound dataset: obs as written by anndata before 0.7."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError
from streammargin.sources.hdf5.reader import RowReader
from streammargin.stored import check_written

Read = Callable[[int, int], np.ndarray]  # start, stop -> these entries


class Field:
    """One column (n,) of a table; the categories of its codes are in `uns`."""

    def __init__(self, table: h5py.Dataset, name: str) -> None:
        self.table: Any = table
        self.name: str = name
        self.shape: tuple[int, ...] = table.shape
        self.ndim: int = table.ndim
        self.dtype: np.dtype = table.dtype[name]

    def reading(self, path: str, stack: contextlib.ExitStack) -> Read:
        """A function (start, stop) -> entries; the stack closes what it opens."""
        table, name = self.table, self.name
        if not table.dtype.hasobject and table.chunks is None and not table.is_virtual:
            check_written(table, path)
            return lambda start, stop: table.fields(name)[start:stop]
        # HDF5 would decompress chunks unchecked, and look up the strings of all columns. So the stored bytes are
        # read: a string is a reference of 16 bytes in the file, a pointer of 8 in NumPy's dtype
        fields = (table.dtype.fields or {}).values()
        texts = [field[1] for field in fields if h5py.check_vlen_dtype(field[0]) is not None]
        own = (table.dtype.fields or {})[name][1]
        size = table.dtype.itemsize + 8 * len(texts)
        place = {"offsets": [own + 8 * sum(text < own for text in texts)], "itemsize": size}
        layout = np.dtype({"names": [name], "formats": [self.dtype], **place})  # type: ignore[call-overload]
        kind = table.id.get_type()
        number = kind.get_member_index(name.encode())
        alike = kind.get_member_type(number) == h5py.h5t.py_create(self.dtype, logical=True)
        reader = RowReader(table, np.dtype((np.void, size)), table.file.filename, raw=True, keep=True)
        stack.callback(reader.close)
        whole = table.chunks is not None or table.id.get_storage_size() == size * len(table)
        nested = any(field[0].hasobject and field[0].names for field in fields)
        if not (alike and reader.located and whole) or nested:
            raise DataError(f"{path} is a column of a table that cannot be checked; write it as a separate dataset")

        def read(start: int, stop: int) -> np.ndarray:
            raw = np.empty(stop - start, reader.dtype)
            reader.read(start, stop, raw)
            return raw.view(layout)[name]

        return read
