"""Dense rows in HDF5: dataset X (n, d)."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError
from streammargin.rows.blocks import Block, DenseBlock
from streammargin.sources.arrays import check_filled, value_dtype
from streammargin.sources.base import Buffer
from streammargin.sources.hdf5.base import HDF5Source, storage_layout
from streammargin.sources.hdf5.nodes import look_up
from streammargin.sources.hdf5.reader import RowReader, stored_dtype


class DenseHDF5Source(HDF5Source):
    """Dataset X (n, d) of floats or integers; other types than float32/64 are converted block by block."""

    sparse = False

    def __init__(self, file: h5py.File, path: str, x: str, y: Any, sample_weight: Any) -> None:
        super().__init__(file, path, x, y, sample_weight)
        dataset = look_up(file, x, path, self._files)
        if dataset.shape is None or dataset.ndim != 2:
            raise DataError(f"{path}: {x} has the shape {dataset.shape}; rows must be a 2-dimensional dataset")
        self.rows: int = int(dataset.shape[0])
        self.features: int = int(dataset.shape[1])
        self.nnz: int = self.rows * self.features
        check_filled(path, self.rows, self.features)
        self.dtype: np.dtype = value_dtype(stored_dtype(dataset, f"{path}: {x}"), f"{path}: {x}")
        self._reader = RowReader(dataset, self.dtype, path)

    def _row_bytes(self) -> int:
        return self.features * self.dtype.itemsize + self._reader.extra

    def held_bytes(self) -> int:
        return self._reader.held_bytes

    def bounds(self, max_bytes: int) -> np.ndarray:
        # with blocks of single rows each would decompress its chunk again
        rows = max(max_bytes // self._row_bytes(), min(self._reader.least_entries, self.rows))
        chunk = self._reader.chunk_rows
        if rows > chunk:
            rows -= rows % chunk
        return np.append(np.arange(0, self.rows, rows, dtype=np.int64), self.rows)

    def buffer_bytes(self, bounds: np.ndarray) -> int:
        rows = int(np.diff(bounds).max())
        return rows * self._row_bytes()

    def allocate(self, bounds: np.ndarray) -> Buffer:
        rows = int(np.diff(bounds).max())
        scratch = np.empty(rows * self._reader.extra, np.uint8)
        return Buffer(np.empty((rows, self.features), self.dtype), scratch=scratch)

    def announce(self, start: int, stop: int) -> None:
        self._reader.announce(start, stop)

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        self._reader.read(start, stop, buffer.data, buffer.scratch)
        return DenseBlock(buffer.data[: stop - start], 0.0)

    def layout(self) -> dict[str, Any]:
        found = storage_layout(self._reader.dataset, self._reader.direct)
        return {"format": "hdf5", "sparse": False, "x": self.x, **found}

    def close(self) -> None:
        self._reader.close()
        super().close()
