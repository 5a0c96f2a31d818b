"""What the dense and the sparse HDF5 source share: file, labels, weights, fingerprint."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np

from streammargin.data.base import Source
from streammargin.data.hdf5_labels import open_column
from streammargin.errors import DataError


class HDF5Source(Source):
    """An HDF5 file with labels; subclasses know how the rows are stored."""

    def __init__(self, file: h5py.File, path: str, y: Any, sample_weight: Any) -> None:
        self.file, self.path, self.name = file, path, path
        self._y, self._weight = y, sample_weight
        self._others: list[Any] = []

    def _check_shape(self) -> None:
        if self.rows == 0 or self.features == 0:
            raise DataError(f"{self.path} has {self.rows} rows and {self.features} columns; training needs both")

    def _column(self, name: str) -> Any:
        column, other = open_column(name, self.file, self.path)
        if other is not None:
            self._others.append(other)
        if column.length != self.rows:
            raise DataError(
                f"{column.name} has {column.length} entries but {self.path} has {self.rows} rows; they must agree"
            )
        return column

    def check_labels(self) -> None:
        """Raise DataError now rather than in the middle of things when labels are missing or of another length."""
        if self._y is None or isinstance(self._y, str):
            self._column(self._y or "y")
        elif len(self._y) != self.rows:
            raise DataError(f"y has {len(self._y)} labels but {self.path} has {self.rows} rows; they must agree")

    def labels(self, chunk: int = 1 << 16) -> Iterator[np.ndarray]:
        if self._y is None or isinstance(self._y, str):
            yield from self._column(self._y or "y").chunks(chunk)
            return
        self.check_labels()
        for start in range(0, self.rows, chunk):
            yield np.asarray(self._y[start : start + chunk])

    def sample_weight(self) -> np.ndarray | None:
        given = self._weight
        if given is None:
            if "sample_weight" not in self.file:
                return None
            given = "sample_weight"
        if isinstance(given, str):
            column = self._column(given)
            weights = np.empty(self.rows)
            start = 0
            for part in column.chunks(1 << 16):
                weights[start : start + len(part)] = part
                start += len(part)
            return weights
        weights = np.ascontiguousarray(given, np.float64)
        if weights.shape != (self.rows,):
            raise DataError(f"sample_weight has shape {weights.shape} but {self.path} has {self.rows} rows")
        return weights

    def fingerprint(self) -> str:
        status = os.stat(self.path)
        digest = hashlib.sha256(repr((status.st_size, status.st_mtime_ns, self.rows, self.features, self.nnz)).encode())
        with open(self.path, "rb") as file:
            for k in range(16):
                file.seek(status.st_size * k // 16)
                digest.update(file.read(4096))
        return digest.hexdigest()[:16]

    def close(self) -> None:
        for other in self._others:
            other.close()
        self._others.clear()
        self.file.close()


def storage_layout(dataset: h5py.Dataset, direct: bool) -> dict[str, Any]:
    """How a dataset is stored, as plain values."""
    return {
        "dtype": str(dataset.dtype),
        "storage": "contiguous" if dataset.chunks is None else "chunked",
        "chunks": None if dataset.chunks is None else list(dataset.chunks),
        "compression": dataset.compression,
        "read": "direct" if direct else "h5py",
    }
