"""Recognise HDF5 files, and open their rows: sparse ones, and dense ones of a dataset X (n, d)."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError
from streammargin.packages import register_filters
from streammargin.rows.blocks import Block, DenseBlock
from streammargin.sources.arrays import check_filled, value_dtype
from streammargin.sources.base import Buffer, Source
from streammargin.sources.hdf5.base import HDF5Source, storage_layout
from streammargin.sources.hdf5.csr import CSRHDF5Source
from streammargin.sources.hdf5.nodes import attribute, children, decoding, look_up
from streammargin.sources.hdf5.reader import RowReader, stored_dtype
from streammargin.sources.hdf5.storage import has_link, opened

_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def sniff(path: str, start: bytes) -> bool:
    """Whether this is an HDF5 file; a user block may precede the signature."""
    return start.startswith(_SIGNATURE) or h5py.is_hdf5(path)


def open_file(path: str, x: str | None, y: Any, sample_weight: Any) -> Source:
    """The rows called x (default X, or matrix, 10x's name) with their labels and weights."""
    register_filters()
    file = opened(path)
    try:
        with decoding(path):
            source = _open_rows(file, path, x, y, sample_weight)
            source.remember(open_file)
            return source
    except BaseException:
        file.close()
        raise


def encoding_of(group: Any) -> str:
    """The encoding that an HDF5 group declares: csr (the default), csc, or another word."""
    encoding = attribute(group, "encoding-type", "h5sparse_format")
    return "csr" if encoding is None else str(encoding).removesuffix("_matrix")


def _open_rows(file: h5py.File, path: str, x: str | None, y: Any, sample_weight: Any) -> HDF5Source:
    if x is None:
        x = "X" if has_link(file, "X") or not has_link(file, "matrix") else "matrix"
    node = look_up(file, x, path)
    if node is None:
        raise DataError(f"{path} has no dataset {x} of rows; it has {children(file)}; name the rows with `x=NAME`")
    if isinstance(node, h5py.Dataset):
        return DenseHDF5Source(file, path, x, y, sample_weight)
    if not isinstance(node, h5py.Group):
        raise DataError(f"{path}: {x} is a named type; rows must be a dataset or a csr_matrix group; use `x=NAME`")
    encoding = encoding_of(node)
    if encoding == "csc":
        raise DataError(
            f"{path}: {x} is a csc_matrix, which cannot be streamed by row; "
            f"convert it with: streammargin-data convert {path} OUT.h5"
        )
    if encoding != "csr":
        raise DataError(
            f"{path}: {x} is a group of encoding {encoding!r}; name a dataset or a csr_matrix with `x=NAME`"
        )
    return CSRHDF5Source(file, path, x, y, sample_weight)


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
