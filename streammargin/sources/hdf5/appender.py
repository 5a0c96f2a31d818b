"""A dataset of unknown length, written in whole chunks."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

CHUNK_BYTES = 4 << 20
TEXT_BYTES = 64  # of a text: the object, and what HDF5 makes of it


class Appender:
    """A dataset of unknown length: written in whole chunks, or contiguous if it stays shorter than one chunk."""

    length: int
    dtype: np.dtype
    group: Any
    name: str

    def __init__(self, group: h5py.Group, name: str, dtype: Any, width: int | None = None) -> None:
        self.group, self.name, self.dtype = group, name, np.dtype(dtype)
        self.tail: tuple[int, ...] = () if width is None else (width,)
        item = TEXT_BYTES if self.dtype.hasobject else self.dtype.itemsize
        row_bytes = max(1, item * (1 if width is None else width))
        self.chunk: int = max(1, CHUNK_BYTES // row_bytes)
        self.length = 0
        self._dataset: h5py.Dataset | None = None
        self._waiting: list[np.ndarray] = []
        self._held = 0

    def append(self, values: np.ndarray) -> None:
        """Add values at the end; the caller may reuse the array."""
        values = np.asarray(values, self.dtype)
        self.length += len(values)
        while self._held + len(values) >= self.chunk:
            need = self.chunk - self._held
            self._flush([*self._waiting, values[:need]])
            self._waiting, self._held = [], 0
            values = values[need:]
        if len(values):
            self._waiting.append(values.copy())
            self._held += len(values)

    def _flush(self, parts: list[np.ndarray]) -> None:
        values = np.concatenate(parts) if len(parts) > 1 else parts[0]
        if self._dataset is None:
            self._dataset = self._create((0, *self.tail), chunks=(self.chunk, *self.tail), maxshape=(None, *self.tail))
        start = self._dataset.shape[0]
        self._dataset.resize(start + len(values), axis=0)
        self._dataset[start:] = values

    def _create(self, shape: tuple[int, ...], **options: Any) -> h5py.Dataset:
        return self.group.create_dataset(self.name, shape, self.dtype, **options)

    def close(self) -> None:
        """Write the rest."""
        if self._held:
            if self._dataset is None:
                parts = self._waiting
                self._create((self._held, *self.tail))[:] = np.concatenate(parts) if len(parts) > 1 else parts[0]
            else:
                self._flush(self._waiting)
            self._waiting, self._held = [], 0
        elif self._dataset is None:
            self._create((0, *self.tail))
