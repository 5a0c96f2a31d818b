"""Read sparse matrices (CSR or CSC: data, indices, indptr) as batches of rows, in order.

More rows than fit in memory are put in order through numbered buckets on disk.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from streammargin.errors import DataError, OutputError, UsageError
from streammargin.files import temporary_folder, writes
from streammargin.sizes import format_size
from streammargin.sources.arrays import first_fall
from streammargin.sources.batch import Batch, sorted_rows
from streammargin.tables.matrices.base import How

_MOST = 4096  # buckets; each has a few files


class Spill:
    """Append batches to buckets, then read each bucket back whole. The files live in `folder`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._kinds: dict[str, np.dtype] = {}
        self._digits: set[str] = set()  # parts that are written as the digits of whole numbers
        self._tails: dict[str, tuple[int, ...]] = {}  # shapes of the entries of parts

    def _path(self, bucket: int, part: str) -> str:
        return os.path.join(self._folder, f"{bucket}.{part}")

    def append(self, bucket: int, batch: Batch) -> None:
        """Add the rows of a batch to a bucket. Raises ReadWriteError when the disk is full."""
        parts = batch._asdict()
        if batch.indptr is not None:
            parts["indptr"] = np.diff(batch.indptr)  # row lengths, which can be appended
        for name, values in parts.items():
            if values is None or name == "ids":
                continue
            self._tails[name] = values.shape[1:]
            if values.dtype.kind in "OU":
                texts = [str(text).encode() for text in values.tolist()]
                self._write(bucket, f"{name}.lengths", np.array(list(map(len, texts)), np.int64))
                values = np.frombuffer(b"".join(texts), np.uint8)
            self._write(bucket, name, values)

    def _write(self, bucket: int, part: str, values: np.ndarray) -> None:
        with writes(self._folder):
            values = values.astype(self._widen(part, values.dtype), copy=False)
            with open(self._path(bucket, part), "ab") as file:
                file.write(np.ascontiguousarray(values).view(np.uint8).data)

    def _widen(self, name: str, kind: np.dtype) -> np.dtype:
        """The type that holds both the values already written and these. Converts the written ones."""
        old = self._kinds.setdefault(name, kind)
        wide = np.result_type(old, kind)
        if wide.kind == "f" and old.kind in "iu" and kind.kind in "iu":
            wide = np.dtype("S20")  # int64 beside uint64: no number type holds both
            self._digits.add(name)
        if wide != old:
            for entry in os.scandir(self._folder):
                if entry.name.endswith(f".{name}"):
                    np.fromfile(entry.path, old).astype(wide).tofile(entry.path)
            self._kinds[name] = wide
        return wide

    def read(self, bucket: int) -> Batch | None:
        """All rows of a bucket in order of arrival, or None if it is empty. Deletes the bucket."""
        found: dict[str, Any] = {}
        for name, kind in self._kinds.items():
            path = self._path(bucket, name)
            if os.path.exists(path):
                found[name] = np.fromfile(path, kind).reshape(-1, *self._tails.get(name, ()))
                os.unlink(path)
        for name in [name for name in found if name.endswith(".lengths")]:
            ends = np.cumsum(found.pop(name)).tolist()
            of = name.removesuffix(".lengths")
            found[of] = _texts(found[of].tobytes(), ends)
        found = dict.fromkeys(Batch._fields[:-1]) | found
        if found["indptr"] is not None:
            found["indptr"] = np.concatenate([[0], np.cumsum(found["indptr"])]).astype(np.int64)
        labels = found["labels"]
        if labels is not None and "labels" in self._digits:
            found["labels"] = _whole(labels)
        batch = Batch(**found)
        return None if batch.X is None and batch.indptr is None else batch


def by_bucket(bucket: np.ndarray, count: int) -> Iterator[tuple[int, np.ndarray]]:
    """(number, the rows that are for it, in their order) of each bucket that some of these rows (m,) are for."""
    order = np.argsort(bucket, kind="stable")
    ends = np.searchsorted(bucket[order], np.arange(count + 1)).tolist()
    for k, (low, high) in enumerate(itertools.pairwise(ends)):
        if low < high:
            yield k, order[low:high]


def _texts(raw: bytes, ends: list[int]) -> np.ndarray:
    """The texts (m,) of these bytes that end there, as objects; those that are the same are one."""
    same: dict[bytes, str] = {}
    found = np.empty(len(ends), object)
    for row, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        part = raw[start:end]
        found[row] = same.get(part) or same.setdefault(part, part.decode())
    return found


def _whole(digits: np.ndarray) -> np.ndarray:
    """Whole numbers (m,) of their digits. Raises DataError if no type of numbers holds them."""
    numbers = [int(each) for each in digits.tolist()]
    try:
        return np.array(numbers, np.int64 if max(numbers, default=0) < 2**63 else np.uint64)
    except OverflowError:
        raise DataError(
            f"no type of numbers holds the labels {min(numbers)} and {max(numbers)}; give labels as text"
        ) from None


def buckets_for(nbytes: int, memory: int, least: int = 1 << 20, held: int = 0) -> int:
    """The number of buckets, such that one of them and its reordered copy fit in memory with a margin.

    held: bytes of the memory in other use.

    Raises UsageError if memory is below `least`, or would need too many buckets.
    """
    least = max(least, -(-4 * nbytes // _MOST)) + held
    if memory < least:
        need = -(-least // (1 << 20))
        raise UsageError(f"a memory budget of {format_size(memory)} is too small here; use `memory={need}M` or more")
    return max(1, -(-4 * nbytes // (memory - held)))


def check_space(path: str, nbytes: int) -> None:
    """Raises OutputError if the disk of `path` has fewer than nbytes free."""
    folder = os.path.dirname(os.path.realpath(path))
    free = shutil.disk_usage(folder).free
    if nbytes > free:
        raise OutputError(
            f"{path} would take {format_size(nbytes)} and {folder} has {format_size(free)} free; free some space"
        )


Entries = Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]  # rows and columns from 0, values
_ENTRIES = 1 << 19
_KINDS = {"data": ("biuf", "real numbers"), "format": ("SU", "text")}


def check_kind(name: str, dtype: np.dtype, path: str) -> None:
    """Raises DataError unless an array of this name may hold this type."""
    kinds, words = _KINDS.get(name, ("iu", "integers"))
    if dtype.kind not in kinds:
        raise DataError(f"{path}: the array {name} holds {dtype} but must hold {words}; write the file again")


def check_shape(shape: Any, path: str) -> tuple[int, int]:
    """(rows, columns). Raises DataError unless the shape is two whole numbers in the supported range."""
    found = np.asarray(shape)
    if found.shape != (2,) or found.dtype.kind not in "iu" or not 0 <= found[0] < 2**48 or not 0 < found[1] < 2**31:
        raise DataError(
            f"{path}: the shape of the matrix is {found.tolist()!r}; it must be two numbers, rows (below 2^48) and "
            "columns (below 2^31)"
        )
    return int(found[0]), int(found[1])


class MatrixArray(Protocol):
    """One of the arrays data, indices and indptr, which is read front to back."""

    @property
    def length(self) -> int:
        """Of all entries."""

    def take(self, count: int) -> np.ndarray:
        """The next entries. Raises DataError if there are fewer."""


def in_rows(
    parts: Mapping[str, MatrixArray], csr: bool, shape: tuple[int, int], path: str, how: How, held: int = 0
) -> Iterator[Batch]:  # fmt: skip
    """The arrays of a CSR or CSC matrix as batches of rows. held: bytes of the memory that are in use.

    Raises DataError unless data and indices have the same length, and indptr has an entry more than rows or columns.
    """
    data, indices, indptr = (parts[name].length for name in ("data", "indices", "indptr"))
    count = shape[0] if csr else shape[1]
    if data != indices or indptr != count + 1:
        raise DataError(
            f"{path}: data, indices and indptr have {data}, {indices} and {indptr} entries; indptr must have "
            f"{count + 1}, and the others as many as there are values; write the file again"
        )
    if csr:
        return _by_rows(parts, shape, path)
    return deal(_of_columns(parts, shape, path), shape, data, path, how, held)


def spans(indptr: MatrixArray, entries: int, path: str) -> Iterator[tuple[int, np.ndarray]]:
    """(first row, its part of indptr) of all rows or columns, in pieces of a few rows and entries.

    Raises DataError unless indptr starts at 0, never decreases, and ends within `entries`.
    """
    last, count = int(indptr.take(1)[0]), indptr.length - 1
    if last != 0:
        raise DataError(f"{path}: indptr starts at {last}, not at 0; write the file again")
    for start in range(0, count, _ENTRIES):
        size = min(count - start, _ENTRIES)
        part = np.append(last, indptr.take(size).astype(np.int64))
        if first_fall(part) >= 0 or part[-1] > entries:
            raise DataError(
                f"{path}: indptr must not decrease or exceed the {entries} stored values, but does so between its "
                f"entries {start} and {start + size}; write the file again"
            )
        low = 0
        while low < size:
            high = int(np.searchsorted(part, part[low] + _ENTRIES, side="right")) - 1
            high = min(size, max(high, low + 1))
            yield start + low, part[low : high + 1]
            low = high
        last = int(part[-1])
    if last == 0 < entries:
        raise DataError(f"{path}: indptr ends at 0, and there are {entries} stored values; write the file again")


def _by_rows(parts: Mapping[str, MatrixArray], shape: tuple[int, int], path: str) -> Iterator[Batch]:
    """CSR arrays as batches; sorts unsorted rows. Raises DataError for indices out of range or repeated in a row."""
    data, columns = parts["data"], shape[1]
    for start, part in spans(parts["indptr"], data.length, path):
        size = int(part[-1] - part[0])
        if len(part) == 2 and size > columns:
            raise DataError(f"{path}: row {start} has {size} values in {columns} columns; sum the duplicates first")
        yield sorted_rows(data.take(size), parts["indices"].take(size), part - part[0], columns, path, start)


def _of_columns(parts: Mapping[str, MatrixArray], shape: tuple[int, int], path: str) -> Entries:
    """The entries of CSC arrays. Raises DataError for a row index out of range."""
    rows, data = shape[0], parts["data"]
    for first, indptr in spans(parts["indptr"], data.length, path):
        sizes = np.diff(indptr)
        if sizes.max() > rows:  # check before writing: a damaged file may declare very many
            number = int(sizes.argmax())
            what = f"column {first + number} has {sizes[number]} values in {rows} rows"
            raise DataError(f"{path}: {what}; sum the duplicates first")
        for start in range(int(indptr[0]), int(indptr[-1]), _ENTRIES):
            size = min(_ENTRIES, int(indptr[-1]) - start)
            values, row = data.take(size), parts["indices"].take(size).astype(np.int64)
            bad = np.flatnonzero((row < 0) | (row >= rows))
            if bad.size:
                raise DataError(f"{path}: the row index {row[bad[0]]} is outside 0..{rows - 1}")
            yield row, first + np.searchsorted(indptr, np.arange(start, start + size), side="right") - 1, values


def deal(
    found: Entries, shape: tuple[int, int], entries: int, path: str, how: How, held: int = 0
) -> Iterator[Batch]:  # fmt: skip
    """Entries in any order as batches of rows: on disk by range of rows, then sorted range by range."""
    rows, columns = shape
    check_space(how.near, 8 * rows)  # a small file may declare very many empty rows
    # an entry is written as (row, column, value); ranges have equally many rows, and fit in memory on average
    count = min(rows, buckets_for(24 * entries, how.memory, held=held))
    empty = np.empty(0, np.int64)
    edge = np.linspace(0, rows, count + 1).astype(np.int64)
    with temporary_folder(how.near) as folder:
        spill = Spill(folder)
        for row, column, data in found:
            bucket = np.searchsorted(edge, row, side="right") - 1
            for k, here in by_bucket(bucket, count):  # as one sparse row of entries, their row numbers as labels
                spill.append(k, Batch(None, data[here], column[here].astype(np.int32),
                                      np.array([0, here.size]), row[here], None))  # fmt: skip
        for k in range(count):
            part: Any = spill.read(k)
            part = (empty, empty, np.empty(0, np.float32)) if part is None else (part.labels, part.indices, part.data)
            order = np.argsort(part[0], kind="stable")
            row, column, data = (each[order] for each in part)
            yield from between(row, column, data, int(edge[k]), int(edge[k + 1]), columns, path)


def between(
    row: np.ndarray, column: np.ndarray, value: np.ndarray, start: int, stop: int, columns: int, path: str
) -> Iterator[Batch]:
    """The rows start..stop of entries that are sorted by row, a few at a time: most rows may be empty."""
    for low in range(start, stop, _ENTRIES):
        high = min(stop, low + _ENTRIES)
        ends = np.searchsorted(row, np.arange(low, high + 1))
        here = slice(int(ends[0]), int(ends[-1]))
        yield sorted_rows(value[here], column[here], ends - ends[0], columns, path, low)
