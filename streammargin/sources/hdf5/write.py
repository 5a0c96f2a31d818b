"""Write rows to the project's HDF5 layouts, batch by batch, in whole chunks; never leaves half a file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError, ReadWriteError, StreamMarginError
from streammargin.files import replacing
from streammargin.sources.batch import Batch
from streammargin.sources.hdf5.names import write_names
from streammargin.sources.labels import EXACT, strict_number

CHUNK_BYTES = 4 << 20


class Appender:
    """A dataset of unknown length: written in whole chunks, or contiguous if it stays shorter than one chunk."""

    def __init__(self, group: h5py.Group, name: str, dtype: Any, width: int | None = None) -> None:
        self.group, self.name, self.dtype = group, name, np.dtype(dtype)
        self.tail = () if width is None else (width,)
        row_bytes = max(1, self.dtype.itemsize * (1 if width is None else width))
        self.chunk = max(1, CHUNK_BYTES // row_bytes)
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


class LabelAppender:
    """Labels stored as integers, widened to real numbers, then to text, as later labels require."""

    def __init__(self, group: h5py.Group, name: str) -> None:
        self.group, self.name = group, name
        self._inner: Appender | None = None
        self._kind = ""

    def append(self, labels: np.ndarray) -> None:
        """Add labels; integral real numbers are stored as integers."""
        kind, values = _narrowest(np.asarray(labels))
        if self._inner is None:
            self._kind, self._inner = kind, self._start(kind)
        elif _RANK[kind] > _RANK[self._kind]:
            self._widen(kind)
        self._inner.append(_as_kind(values, self._kind))

    def _start(self, kind: str) -> Appender:
        return Appender(self.group, self.name, _STORED[kind])

    def _widen(self, kind: str) -> None:
        assert self._inner is not None
        self._inner.close()
        old = f"{self.name} (narrow)"
        self.group.move(self.name, old)
        wide = self._start(kind)
        source = self.group[old]
        for start in range(0, source.shape[0], wide.chunk):
            wide.append(_as_kind(source[start : start + wide.chunk], kind))
        del self.group[old]
        self._kind, self._inner = kind, wide

    def close(self) -> None:
        """Write the rest."""
        if self._inner is not None:
            self._inner.close()


_RANK = {"integer": 0, "real": 1, "text": 2}
_STORED = {"integer": np.dtype(np.int64), "real": np.dtype(np.float64), "text": h5py.string_dtype()}


def _narrowest(labels: np.ndarray) -> tuple[str, np.ndarray]:
    if labels.dtype.kind == "u" and labels.size and int(labels.max()) >= 2**63:
        return "text", labels  # exact; a number in text is read as that number
    if labels.dtype.kind in "biu":
        return "integer", labels.astype(np.int64)
    if labels.dtype.kind == "f":
        integral = np.all(labels == np.trunc(labels)) and np.all(np.abs(labels) < 2.0**53)
        return ("integer" if integral else "real"), labels
    if labels.dtype.kind not in "OSU":
        raise DataError(f"labels must be numbers or text, not {labels.dtype}; write them differently")
    return "text", labels


def _as_kind(values: np.ndarray, kind: str) -> np.ndarray:
    if kind != "text":
        return values.astype(np.int64 if kind == "integer" else np.float64)
    return np.array([_as_text(value) for value in values.tolist()], object)


def _as_text(value: object) -> str:
    """One spelling for numbers among text: 1, 1.0 and "1.0" are one class, independent of the batch bounds."""
    text = value.decode() if isinstance(value, bytes) else str(value)
    try:
        number = strict_number(text)
        return f"{number + 0.0:.17g}" if abs(number) < EXACT else str(int(text))
    except ValueError:
        return text


class RowWriter:
    """Appends batches to one open HDF5 file: X (dense dataset or csr_matrix group), y, sample_weight, var."""

    def __init__(
        self, file: h5py.File, dtype: Any, sparse: bool, features: int | None, names: np.ndarray | None = None
    ) -> None:
        self.file, self.features, self.names = file, features, names
        self.rows, self.widest = 0, 0
        self._columns: dict[str, Any] = {}
        self.nnz = 0
        if sparse:
            group = file.create_group("X")
            self._data = Appender(group, "data", dtype)
            self._indices = Appender(group, "indices", np.int32)
            self._indptr = Appender(group, "indptr", np.int64)
            self._indptr.append(np.zeros(1, np.int64))
        else:
            assert features is not None
            self._dense = Appender(file, "X", dtype, features)
        self.sparse = sparse

    def append(self, batch: Batch) -> None:
        """Add rows; labels and weights must be in all batches or in none."""
        if self.sparse:
            assert batch.data is not None and batch.indices is not None and batch.indptr is not None
            if len(batch.indices):
                self.widest = max(self.widest, int(batch.indices.max()) + 1)
            self._data.append(batch.data)
            self._indices.append(batch.indices)
            self._indptr.append(batch.indptr[1:] + self.nnz)
            self.nnz += len(batch.data)
        else:
            assert batch.X is not None
            self._dense.append(batch.X)
        self.rows += batch.rows
        for name, values in (("y", batch.labels), ("sample_weight", batch.weights)):
            if values is not None:
                if name not in self._columns:
                    self._columns[name] = (
                        LabelAppender(self.file, name) if name == "y" else Appender(self.file, name, np.float64)
                    )
                self._columns[name].append(values)

    def close(self) -> None:
        """Write the rest, and the attributes."""
        if self.sparse:
            group = self.file["X"]
            group.attrs["encoding-type"] = "csr_matrix"
            group.attrs["encoding-version"] = "0.1.0"
            width = self.widest if self.features is None else self.features
            group.attrs["shape"] = np.array([self.rows, width], np.int64)
            for part in (self._data, self._indices, self._indptr):
                part.close()
        else:
            self._dense.close()
        for column in self._columns.values():
            column.close()
        if self.names is not None:
            write_names(self.file, self.names)


@contextlib.contextmanager
def writing(
    path: str, force: bool, dtype: Any, sparse: bool, features: int | None = None, names: np.ndarray | None = None
) -> Iterator[RowWriter]:
    """A RowWriter whose complete file appears at `path` when the block ends without an error.

    features: d; None (sparse only): the largest column index + 1. names (d,): column names, if any. Raises
    OutputError, ReadWriteError, and DataError when no row was written.
    """
    with replacing(path, force) as name, filling(name, path, dtype, sparse, features, names) as writer:
        yield writer


@contextlib.contextmanager
def filling(
    name: str, path: str, dtype: Any, sparse: bool, features: int | None, names: np.ndarray | None = None
) -> Iterator[RowWriter]:
    """A RowWriter of the file `name`, called `path` in messages; on disk when the block ends without an error."""
    file = None
    try:
        file = h5py.File(name, "w", libver=("v108", "latest"), rdcc_nbytes=0)
        writer = RowWriter(file, dtype, sparse, features, names)
        yield writer
        if writer.rows == 0:
            raise DataError(f"there are no rows to write to {path}; check the input")
        writer.close()
        file.close()
        with open(name, "rb+") as done:
            os.fsync(done.fileno())
    except (OSError, RuntimeError) as error:
        if isinstance(error, StreamMarginError):
            raise
        raise ReadWriteError(f"cannot write {path} ({_short(error)}); free some space") from error
    finally:
        if file is not None:
            with contextlib.suppress(Exception):  # on a full disk, closing fails too
                file.close()


def _short(error: Exception) -> str:
    text = str(error)
    start = text.find("error message = '")
    return text[start + 17 :].split("'")[0] if start >= 0 else text
