"""Sparse rows in HDF5: anndata's csr_matrix encoding, or 10x (CSC over features is CSR over barcodes)."""

from __future__ import annotations

import bisect
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError
from streammargin.rows.blocks import Block, CSRBlock
from streammargin.sources.arrays import bounds_by_nnz, check_filled, check_wide, first_fall, value_dtype
from streammargin.sources.base import Buffer
from streammargin.sources.hdf5.base import HDF5Source, storage_layout
from streammargin.sources.hdf5.nodes import attribute, look_up
from streammargin.sources.hdf5.reader import RowReader, stored_dtype

_PIECE = 1 << 18  # entries of indptr read at a time while planning


class CSRHDF5Source(HDF5Source):
    """A group with data, indices, indptr; its shape is the attribute (n, d), or 10x's dataset (d, n)."""

    features: int
    rows: int

    sparse = True

    def __init__(self, file: h5py.File, path: str, x: str, y: Any, sample_weight: Any) -> None:
        super().__init__(file, path, x, y, sample_weight)
        home = look_up(file, x, path, self._files)
        group = {part: look_up(home, part, path, self._files) for part in ("data", "indices", "indptr", "shape")}
        for part in ("data", "indices", "indptr"):
            if not isinstance(group[part], h5py.Dataset) or group[part].ndim != 1:
                raise DataError(
                    f"{path}: group {x} has no 1-dimensional dataset {part}; sparse rows need data, indices and indptr"
                )
        self.rows, self.features = _shape(home, group["shape"], f"{path}: group {x}")
        if self.features >= 2**31:
            raise DataError(f"{path} has {self.features} columns; at most {2**31 - 1} are supported")
        check_filled(path, self.rows, self.features)
        self.nnz: int = int(group["data"].shape[0])
        if group["indices"].shape != group["data"].shape:
            raise DataError(f"{path}: {x}/indices and {x}/data have different lengths; convert the file again")
        if group["indptr"].shape != (self.rows + 1,):
            raise DataError(
                f"{path}: {x}/indptr has {group['indptr'].shape[0]} entries for {self.rows} rows; it needs rows + 1"
            )
        for part in ("indices", "indptr"):
            kind = stored_dtype(group[part], f"{path}: {x}/{part}")
            if kind.kind not in "iu":
                raise DataError(f"{path}: {x}/{part} holds {kind} but must hold integers; convert the file again")
        self.dtype: np.dtype = value_dtype(stored_dtype(group["data"], f"{path}: {x}/data"), f"{path}: {x}/data")
        self._indptr = RowReader(group["indptr"], np.dtype(np.int64), path)
        self._data = RowReader(group["data"], self.dtype, path, place=self._place)
        narrow = np.dtype(np.uint32) if group["indices"].dtype == np.uint32 else np.dtype(np.int32)
        self._indices = RowReader(group["indices"], narrow, path, place=self._place)
        self._check_ends()

    def _place(self, entry: int) -> str:
        """The row that has this entry of data and indices, for messages."""
        ends = range(1, self.rows)  # of all rows but the last
        return f"row {bisect.bisect_right(ends, entry, key=lambda end: int(self._stored_pointers(end, end)[0]))}"

    def _stored_pointers(self, start: int, stop: int) -> np.ndarray:
        """indptr[start : stop + 1] as stored, unchecked, int64."""
        out = np.empty(stop - start + 1, np.int64)
        self._indptr.read(start, stop + 1, out, np.empty(len(out) * self._indptr.extra, np.uint8))
        return out

    def _pointers(self, start: int, stop: int) -> np.ndarray:
        """indptr[start : stop + 1], int64; DataError if it decreases or exceeds the number of values."""
        out = self._stored_pointers(start, stop)
        fall = first_fall(out)
        if fall >= 0:
            raise DataError(f"{self.path}: {self.x}/indptr decreases at row {start + fall}; convert the file again")
        if out[0] < 0 or out[-1] > self.nnz:
            raise DataError(
                f"{self.path}: {self.x}/indptr of the rows {start}..{stop} exceeds the {self.nnz} stored values; "
                "convert the file again"
            )
        return out

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        found = [np.zeros(0, np.int64)]
        for start in range(0, self.rows, _PIECE):
            low, high = np.searchsorted(rows, (start, start + _PIECE))
            if low < high:
                found.append(np.diff(self._pointers(start, min(self.rows, start + _PIECE)))[rows[low:high] - start])
        return np.concatenate(found)

    def _check_ends(self) -> None:
        first, last = (int(self._stored_pointers(end, end)[0]) for end in (0, self.rows))
        if first != 0 or last != self.nnz:
            raise DataError(
                f"{self.path}: {self.x}/indptr runs from {first} to {last} but there are {self.nnz} values; "
                "it must run from 0 to their number; convert the file again"
            )

    def _nnz_bytes(self) -> int:
        return self.dtype.itemsize + 4 + self._data.extra + self._indices.extra

    def _row_bytes(self) -> int:
        return 16 + self._indptr.extra  # indptr and its differences

    def held_bytes(self) -> int:
        return self._data.held_bytes + self._indices.held_bytes + self._indptr.held_bytes

    def bounds(self, max_bytes: int) -> np.ndarray:
        # the buffer fits both the block with most values and the block with most rows
        left = max_bytes * 15 // 16
        # with blocks of single rows each would decompress its chunk again
        left = max(left, max(self._data.least_entries, self._indices.least_entries) * self._nnz_bytes())
        bounds = [0]
        while bounds[-1] < self.rows:
            start = bounds[-1]
            part = self._pointers(start, min(self.rows, start + _PIECE))
            found = bounds_by_nnz(part - part[0], self._nnz_bytes(), self._row_bytes(), left) + start
            # the last block of a piece may continue in the next piece
            whole = found[1:] if found[-1] == self.rows or len(found) == 2 else found[1:-1]
            bounds.extend(int(b) for b in whole)
        return np.array(bounds, np.int64)

    def _largest(self, bounds: np.ndarray) -> int:
        ends = np.array([int(self._pointers(int(b), int(b))[0]) for b in bounds], np.int64)
        return int(np.diff(ends).max())

    def buffer_bytes(self, bounds: np.ndarray) -> int:
        rows = int(np.diff(bounds).max())
        return self._largest(bounds) * self._nnz_bytes() + (rows + 1) * self._row_bytes()

    def allocate(self, bounds: np.ndarray) -> Buffer:
        nnz = self._largest(bounds)
        scratch = np.empty(nnz * max(self._data.extra, self._indices.extra), np.uint8)
        return Buffer(np.empty(nnz, self.dtype), np.empty(nnz, np.uint32), scratch=scratch)

    def announce(self, start: int, stop: int) -> None:
        low, high = (int(self._stored_pointers(end, end)[0]) for end in (start, stop))
        self._data.announce(low, high)
        self._indices.announce(low, high)

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        indptr = self._pointers(start, stop)
        low, high = int(indptr[0]), int(indptr[-1])
        data, scratch = buffer.data, buffer.scratch
        assert buffer.indices is not None
        if high - low > len(data):
            raise DataError(f"{self.path}: {self.x}/indptr changed while it was being read; do not write to the file")
        self._data.read(low, high, data, scratch)
        self._indices.read(low, high, buffer.indices.view(self._indices.dtype), scratch)
        indptr -= low
        size = high - low
        if self._indices.stored.itemsize > 4:
            assert scratch is not None
            wide = scratch[: size * self._indices.item].view(self._indices.stored)  # as stored
            check_wide(wide, indptr, start, self.features, self.path)
        return CSRBlock(data[:size], buffer.indices[:size], indptr, self.features, 0.0)

    def layout(self) -> dict[str, Any]:
        found = storage_layout(self._data.dataset, self._data.direct and self._indices.direct)
        return {"format": "hdf5", "sparse": True, "x": self.x, "indices": str(self._indices.stored), **found}

    def close(self) -> None:
        for reader in (self._data, self._indices, self._indptr):
            reader.close()
        super().close()


def _shape(group: h5py.Group, stored: Any, name: str) -> tuple[int, int]:
    """(rows, columns): from the attribute, of new or old anndata, or from 10x's dataset, transposed."""
    shape = attribute(group, "shape", "h5sparse_shape")
    if shape is None and isinstance(stored, h5py.Dataset) and stored.size == 2:
        shape = np.atleast_1d(stored[()])[::-1]
    if np.shape(shape) != (2,):
        raise DataError(f"{name} has no shape; write it as the attribute shape = (rows, columns)")
    sizes = np.asarray(shape)
    # sizes below 2^62 fit into int64
    if sizes.dtype.kind not in "iuf" or not np.all((sizes >= 0) & (sizes < 2**62) & (sizes == np.floor(sizes))):
        raise DataError(f"{name} has the shape {sizes.tolist()}; it must be two whole numbers, rows and columns")
    return int(sizes[0]), int(sizes[1])
