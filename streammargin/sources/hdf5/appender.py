"""A dataset of unknown length, written in whole chunks."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

CHUNK_BYTES = 4 << 20
TEXT_BYTES = 64  # of a text: the object, and what HDF5 makes of it


class Appender:
    """A dataset of unknown length: written in whole chunks, or contiguous if it stays shorter than one chunk."""

    def __init__(self, group: h5py.Group, name: str, dtype: Any, width: int | None = None) -> None:
        self.group: Any = group
        self.name: str = name
        self.dtype: np.dtype = np.dtype(dtype)
        self.tail: tuple[int, ...] = () if width is None else (width,)
        item = TEXT_BYTES if self.dtype.hasobject else self.dtype.itemsize
        row_bytes = max(1, item * (1 if width is None else width))
        self.chunk: int = max(1, CHUNK_BYTES // row_bytes)
        self.length: int = 0
        self._dataset: h5py.Dataset | None = None
        self._buffer: np.ndarray | None = None  # rows that are no whole chunk yet
        self._held = 0

    def append(self, values: np.ndarray) -> None:
        """Add values at the end; the caller may reuse the array."""
        values = np.asarray(values, self.dtype)
        self.length += len(values)
        while len(values):
            if not self._held and len(values) >= self.chunk:
                self._write(values[: self.chunk])
                values = values[self.chunk :]
                continue
            if self._buffer is None:
                self._buffer = np.empty((self.chunk, *self.tail), self.dtype)
            taken = values[: self.chunk - self._held]
            self._buffer[self._held : self._held + len(taken)] = taken
            self._held, values = self._held + len(taken), values[len(taken) :]
            if self._held == self.chunk:
                self._write(self._buffer)
                self._held = 0

    def _write(self, values: np.ndarray) -> None:
        if self._dataset is None:
            self._dataset = self._create((0, *self.tail), chunks=(self.chunk, *self.tail), maxshape=(None, *self.tail))
        start = self._dataset.shape[0]
        self._dataset.resize(start + len(values), axis=0)
        self._dataset[start:] = values

    def _create(self, shape: tuple[int, ...], **options: Any) -> h5py.Dataset:
        return self.group.create_dataset(self.name, shape, self.dtype, **options)

    def close(self) -> None:
        """Write the rest."""
        if self._dataset is None:
            rest = np.empty((0, *self.tail), self.dtype) if self._buffer is None else self._buffer[: self._held]
            self._create(rest.shape)[:] = rest
        elif self._buffer is not None and self._held:
            self._write(self._buffer[: self._held])
        self._buffer, self._held = None, 0
