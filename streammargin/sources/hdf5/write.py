"""Write rows to the project's HDF5 layouts, batch by batch, in whole chunks; never leaves half a file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError
from streammargin.files import replacing, writes
from streammargin.sources.batch import Batch
from streammargin.sources.hdf5.disk import Appender, Disk, writable
from streammargin.sources.hdf5.label_writers import LabelWriter, SpeltWriter
from streammargin.sources.hdf5.labels import OUTPUTS
from streammargin.sources.hdf5.names import write_names
from streammargin.sources.label_column import ATTRIBUTE, TASKS, LabelColumn
from streammargin.sources.labels import output_names


@dataclass
class RowWriter:
    """Appends batches to one open HDF5 file: X (dense dataset or csr_matrix group), y, sample_weight, qid, tasks,
    var.
    """

    file: Any
    disk: Disk
    dtype: Any
    sparse: bool
    features: int | None
    names: np.ndarray | None = None
    label: LabelColumn | None = None
    rows: int = 0
    nnz: int = 0
    widest: int = 0

    def __post_init__(self) -> None:
        self._columns: dict[str, Any] = {}
        if self.sparse:
            group = self.file.create_group("X")
            self._data = Appender(group, "data", self.dtype)
            self._indices = Appender(group, "indices", np.int32)
            self._indptr = Appender(group, "indptr", np.int64)
            self._indptr.append(np.zeros(1, np.int64))
        else:
            self._dense = Appender(self.file, "X", self.dtype, self.features)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns, and stored values."""
        width = self.widest if self.features is None else self.features
        return self.rows, width, self.nnz if self.sparse else self.rows * width

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
        for name, values in zip(("y", "sample_weight", "qid", TASKS), batch[4:], strict=True):
            if values is not None:
                if name not in self._columns:
                    kind = np.int64 if name == "qid" else np.float64
                    of_labels = name in ("y", TASKS)
                    self._columns[name] = self._labels(name, values) if of_labels else Appender(self.file, name, kind)
                self._columns[name].append(values)
        self.disk.check()

    def _labels(self, name: str, first: np.ndarray) -> LabelWriter | SpeltWriter:
        """Writes labels, or tasks, as the first ones are: (m,), or (m, outputs)."""
        if self.label is not None and self.label.spelt:
            return SpeltWriter(self.file, name)
        return LabelWriter(self.file, name, first.shape[1] if np.ndim(first) == 2 else None)

    def close(self) -> None:
        """Write the rest, and the attributes."""
        if self.sparse:
            group = self.file["X"]
            group.attrs["encoding-type"] = "csr_matrix"
            group.attrs["encoding-version"] = "0.1.0"
            group.attrs["shape"] = np.array(self.sizes[:2], np.int64)
            for part in (self._data, self._indices, self._indptr):
                part.close()
        else:
            self._dense.close()
        for column in self._columns.values():
            column.close()
        if self.label is not None and "y" in self._columns:
            self._describe(self.label)
        if self.names is not None:
            write_names(self.file, self.names)

    def _describe(self, label: LabelColumn) -> None:
        """Write where the labels are from, and the names of their columns."""
        if label.name is not None:
            self.file["y"].attrs[ATTRIBUTE] = label.name
        if label.tasks:
            self.file[TASKS].attrs[ATTRIBUTE] = label.tasks
        if label.outputs is not None and list(label.outputs) != output_names(len(label.outputs)):
            self.file.create_dataset(OUTPUTS, data=np.array(label.outputs, object), dtype=h5py.string_dtype())


@contextlib.contextmanager
def writing(
    path: str, force: bool, dtype: Any, sparse: bool, features: int | None = None, names: np.ndarray | None = None,
    label: LabelColumn | None = None, hidden: str = "",
) -> Iterator[RowWriter]:  # fmt: skip
    """A RowWriter whose complete file appears at `path` when the block ends without an error.

    features: d; None (sparse only): the largest column index + 1. names (d,): column names, if any. label: where the
    labels are from, if known. hidden: a file that the caller renames. Raises OutputError, ReadWriteError, and DataError
    when no row was written.
    """
    with (
        contextlib.nullcontext(hidden) if hidden else replacing(path, force) as name,
        writes(path, (OSError, RuntimeError)),
        writable(name, libver=("v108", "latest"), rdcc_nbytes=0) as (file, disk),
    ):
        writer = RowWriter(file, disk, dtype, sparse, features, names, label)
        yield writer
        if writer.rows == 0:
            raise DataError(f"there are no rows to write to {path}; check the input")
        writer.close()
