"""Write rows to the project's HDF5 layouts, batch by batch, in whole chunks; never leaves half a file.

HDF5 writes through Python, as it does not survive a disk that is full. Labels have the narrowest type that holds all of
them, which is known after the last one.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

import h5py
import numpy as np

from streammargin.errors import DataError
from streammargin.files import replacing, writes
from streammargin.matching import EXACT_BELOW, MAX_CLASSES, number_in
from streammargin.sources.batch import Batch
from streammargin.sources.hdf5.columns import OUTPUTS, write_names
from streammargin.sources.labels import ATTRIBUTE, TASKS, LabelColumn, output_names, values_of
from streammargin.wording import how_far, shown

CHUNK_BYTES = 4 << 20
TEXT_BYTES = 64  # of a text: the object, and what HDF5 makes of it


class Disk(io.RawIOBase):
    """What HDF5 takes for its file. A failed write is kept for `check`, and HDF5 goes on as if it had not failed.

    HDF5 tries a write that failed once more for each object that is closed, prints a traceback for each, and may end
    the process.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.error: OSError | None = None
        self._end = os.fstat(file.fileno()).st_size  # as HDF5 knows it

    def check(self) -> None:
        """Raise the OSError of the first write that failed."""
        if self.error is not None:
            raise self.error

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """The position; from the end it is the end that HDF5 knows."""
        self._at = self._end + offset if whence == os.SEEK_END else offset
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at

    def write(self, data: Any) -> int:
        """All of the bytes, unless a write failed."""
        view, start = memoryview(data).cast("B"), self._at
        self._at += len(view)
        self._end = max(self._end, self._at)
        try:
            while self.error is None and start < self._at:
                start += os.pwrite(self.file.fileno(), view[len(view) - (self._at - start) :], start)
        except OSError as error:
            self.error = error
        return len(view)

    def readinto(self, buffer: Any) -> int:
        """The bytes at the position; zeros in place of bytes that could not be written."""
        view = memoryview(buffer).cast("B")
        found = os.pread(self.file.fileno(), len(view), self._at)
        view[: len(found)] = found
        view[len(found) :] = bytes(len(view) - len(found))
        self._at += len(view)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Cut the file, or make it longer."""
        self._end = self._at if size is None else size
        try:
            if self.error is None:
                os.ftruncate(self.file.fileno(), self._end)
        except OSError as error:
            self.error = error
        return self._end

    def flush(self) -> None:
        """Nothing is held back."""


@contextlib.contextmanager
def writable(path: str, mode: str = "w", **options: Any) -> Iterator[tuple[h5py.File, Disk]]:
    """An HDF5 file to write, of mode "w" or "r+"; it is closed, and on disk, when the block ends.

    Raises the OSError of a write that failed, also in place of what came of it. `Disk.check` raises it earlier.
    """
    with open(path, "r+b" if mode == "r+" else "w+b", buffering=0) as raw:
        disk = Disk(raw)
        try:
            with h5py.File(disk, mode, **options) as file:
                yield file, disk
        except Exception as error:
            if disk.error is not None:
                raise disk.error from error
            raise
        disk.check()
        os.fsync(raw.fileno())


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
        for part in _parts(values):
            self._dataset[start + part.start : start + part.stop] = values[part]

    def _create(self, shape: tuple[int, ...], **options: Any) -> h5py.Dataset:
        return self.group.create_dataset(self.name, shape, self.dtype, **options)

    def close(self) -> None:
        """Write the rest."""
        if self._dataset is None:
            rest = np.empty((0, *self.tail), self.dtype) if self._buffer is None else self._buffer[: self._held]
            dataset = self._create(rest.shape)
            for part in _parts(rest):
                dataset[part] = rest[part]
        elif self._buffer is not None and self._held:
            self._write(self._buffer[: self._held])
        self._buffer, self._held = None, 0


def _parts(values: np.ndarray) -> Iterator[slice]:
    """All values; texts a few at a time, as HDF5 copies each of them, and a long one may stand in many rows."""
    if not values.dtype.hasobject:
        yield slice(0, len(values))
        return
    start = size = 0
    for place, text in enumerate(values.tolist()):
        size += len(text)
        if size > CHUNK_BYTES:
            yield slice(start, place + 1)
            start, size = place + 1, 0
    if start < len(values):
        yield slice(start, len(values))


TEXT_DTYPE = h5py.string_dtype()
_NUMBERS = [np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.float64)]  # the narrowest first


class LabelWriter:
    """Labels of a dataset: text to the byte; numbers as integers if all are.

    width: of numbers (n, width), else None.
    """

    def __init__(self, group: h5py.Group, name: str, width: int | None = None) -> None:
        self.group: Any = group
        self.name: str = name
        self.width: int | None = width
        self._inner: Appender | None = None

    def append(self, labels: np.ndarray) -> None:
        """Add labels. Raises DataError for numbers that no type holds, and for numbers and text."""
        labels = np.asarray(labels)
        kind = _narrowest(labels)
        if self.width is not None:
            labels = labels.reshape(-1, self.width)
        if self._inner is None:
            self._inner = Appender(self.group, self.name, kind, self.width)
        elif (kind == TEXT_DTYPE) != (self._inner.dtype == TEXT_DTYPE):
            raise _both_kinds()
        elif kind != TEXT_DTYPE and _NUMBERS.index(kind) > _NUMBERS.index(self._inner.dtype):
            self._inner = replaced(self._inner, kind, lambda part: _converted(part, kind))
        self._inner.append(labels if kind == TEXT_DTYPE else _converted(labels, self._inner.dtype))

    def close(self) -> None:
        """Write the rest."""
        if self._inner is not None:
            self._inner.close()


class SpeltWriter:
    """Labels as a text file spells them: `values_of` says what they are, after the last one.

    Until then codes of the spellings are written. A text that is no number, or more than MAX_CLASSES spellings, decide
    at once.
    """

    def __init__(self, group: h5py.Group, name: str) -> None:
        self._codes: dict[str, int] = {}  # of each spelling, in order of appearance
        self._coded: Appender | None = Appender(group, name, np.int16)
        self._inner = self._coded
        self._rows = 0

    def append(self, labels: np.ndarray) -> None:
        """Add spellings (m,). Raises DataError for a text after too many different numbers to be classes."""
        spellings = labels.tolist()
        if self._coded is not None:
            before = len(self._codes)
            for text in spellings:
                self._codes.setdefault(text, len(self._codes))
            new = islice(self._codes, before, None)
            if len(self._codes) > MAX_CLASSES or any(number_in(text) is None for text in new):
                self._decide(list(islice(self._codes, MAX_CLASSES + 1)))
        if self._coded is not None:
            self._inner.append(np.array([self._codes[text] for text in spellings], np.int16))
        else:
            self._inner.append(labels if self._inner.dtype == TEXT_DTYPE else self._numbers(spellings))
        self._rows += len(spellings)

    def _decide(self, spellings: Sequence[str]) -> None:
        """Write what the codes stand for in their place, and these spellings' kind of labels from now on."""
        assert self._coded is not None
        values = values_of(spellings)
        kind = TEXT_DTYPE if values.dtype == object else values.dtype
        if len(spellings) > MAX_CLASSES and kind != TEXT_DTYPE:
            kind = np.dtype(np.float64)  # of those to come
        self._inner = replaced(self._coded, kind, lambda codes: values[codes])
        self._coded, self._codes = None, {}

    def _numbers(self, spellings: Sequence[str]) -> np.ndarray:
        try:
            return np.array(spellings, object).astype(np.float64)
        except ValueError:
            place, text = next((k, text) for k, text in enumerate(spellings) if number_in(text) is None)
            raise DataError(
                f"row {self._rows + place} has the label {shown(text)}, after more than {MAX_CLASSES} different "
                "numbers, which are no classes; drop the row or give it a number"
            ) from None

    def close(self) -> None:
        """Write what the labels are."""
        if self._coded is not None:
            self._decide(list(self._codes))
        self._inner.close()


def replaced(old: Appender, kind: Any, change: Callable[[np.ndarray], np.ndarray]) -> Appender:
    """An Appender of another type in place of this one, with its values changed."""
    old.close()
    aside = f"{old.name} (narrow)"
    old.group.move(old.name, aside)
    new, source = Appender(old.group, old.name, kind, *old.tail), old.group[aside]
    for start in range(0, source.shape[0], new.chunk):
        part = source[start : start + new.chunk]
        new.append(change(part))
    del old.group[aside]
    return new


def _narrowest(labels: np.ndarray) -> np.dtype:
    """The narrowest type of a dataset for these labels. Raises DataError for other than numbers and text."""
    if labels.dtype.kind == "u" and labels.size and int(labels.max()) >= 2**63:
        return _NUMBERS[1]
    if labels.dtype.kind in "biu":
        return _NUMBERS[0]
    if labels.dtype.kind == "f":
        integral = np.all(labels == np.trunc(labels)) and np.all(np.abs(labels) < EXACT_BELOW)
        return _NUMBERS[0] if integral else _NUMBERS[2]
    if labels.dtype.kind not in "OSU":
        raise DataError(f"labels must be numbers or text, not {labels.dtype}; write them differently")
    texts = sum(isinstance(label, (str, bytes)) for label in labels.tolist())
    if not texts:
        raise DataError("no type of numbers holds all of the labels as they are; give them as text")
    if texts < labels.size:
        raise _both_kinds()
    return TEXT_DTYPE


def _both_kinds() -> DataError:
    return DataError("some labels are numbers and others are text; give all as text, or all as numbers")


def _converted(labels: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Numbers as a wider type. Raises DataError if it does not hold them exactly."""
    wide = labels.astype(kind)
    if kind.kind == "u" and labels.dtype.kind != "u" and np.any(labels < 0):
        raise DataError(f"no type of numbers holds the label {labels.min()} beside 2^63 or more; give labels as text")
    if kind.kind == "f" and labels.dtype.kind in "iu" and labels.size and np.abs(wide).max() > EXACT_BELOW:
        raise DataError(f"no type of numbers holds labels as {labels.max()} beside fractions; give labels as text")
    return wide


@dataclass
class RowWriter:
    """Appends batches to one open HDF5 file: x (dense dataset or csr_matrix group), y, sample_weight, tasks, var."""

    file: Any
    disk: Disk
    dtype: Any
    sparse: bool
    features: int | None
    names: np.ndarray | None = None
    label: LabelColumn | None = None
    x: str = "X"
    of: int = 0  # rows that there will be; 0: unknown
    rows: int = 0
    nnz: int = 0
    widest: int = 0

    def __post_init__(self) -> None:
        self._columns: dict[str, Any] = {}
        if self.sparse:
            group = self.file.create_group(self.x)
            self._data = Appender(group, "data", self.dtype)
            self._indices = Appender(group, "indices", np.int32)
            self._indptr = Appender(group, "indptr", np.int64)
            self._indptr.append(np.zeros(1, np.int64))
        else:
            self._dense = Appender(self.file, self.x, self.dtype, self.features)

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
        for name, values in zip(("y", "sample_weight", TASKS), batch.columns, strict=True):
            if values is not None:
                if name not in self._columns:
                    weights = name == "sample_weight"
                    self._columns[name] = (
                        Appender(self.file, name, np.float64) if weights else self._labels(name, values)
                    )
                self._columns[name].append(values)
        self.disk.check()
        how_far(f"{self.rows:,} {f'of {self.of:,} ' if self.of else ''}rows written")

    def _labels(self, name: str, first: np.ndarray) -> LabelWriter | SpeltWriter:
        """Writes labels, or tasks, as the first ones are: (m,), or (m, outputs)."""
        if self.label is not None and self.label.spelt:
            return SpeltWriter(self.file, name)
        return LabelWriter(self.file, name, first.shape[1] if np.ndim(first) == 2 else None)

    def close(self) -> None:
        """Write the rest, and the attributes."""
        if self.sparse:
            group = self.file[self.x]
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
            write_names(self.file["raw" if self.x == "raw/X" else "/"], self.names)

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
    label: LabelColumn | None = None, x: str = "X", hidden: str = "",
) -> Iterator[RowWriter]:  # fmt: skip
    """A RowWriter whose complete file appears at `path` when the block ends without an error.

    `features`  d; None (sparse only): the largest column index + 1.
    `names`     (d,): column names, if any.
    `label`     where the labels are from, if known.
    `x`         the name of the rows.
    `hidden`    a file that the caller renames.

    Raises OutputError, ReadWriteError, and DataError when no row was written.
    """
    with (
        contextlib.nullcontext(hidden) if hidden else replacing(path, force) as name,
        writes(path, (OSError, RuntimeError)),
        writable(name, libver=("v108", "latest"), rdcc_nbytes=0) as (file, disk),
    ):
        writer = RowWriter(file, disk, dtype, sparse, features, names, label, x)
        yield writer
        if writer.rows == 0:
            raise DataError(f"there are no rows to write to {path}; check the input")
        writer.close()
