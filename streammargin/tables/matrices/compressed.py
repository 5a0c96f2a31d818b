"""Read sparse matrices (CSR or CSC: data, indices, indptr) as batches of rows, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from streammargin.errors import DataError
from streammargin.files import temporary_folder
from streammargin.sources.arrays import first_fall
from streammargin.sources.batch import Batch, sorted_rows
from streammargin.tables.matrices.spill import Spill, buckets_for, check_space

Piece = Callable[[str, int], np.ndarray]  # the next `count` entries of data or indices
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


def check_lengths(lengths: Mapping[str, int], count: int, path: str) -> None:
    """Raises DataError unless data and indices have the same length, and indptr has count + 1 entries."""
    if lengths["data"] != lengths["indices"] or lengths["indptr"] != count + 1:
        raise DataError(
            f"{path}: data, indices and indptr have {lengths['data']}, {lengths['indices']} and {lengths['indptr']} "
            f"entries; indptr must have {count + 1}, and the others as many as there are values; write the file again"
        )


def spans(take: Piece, count: int, entries: int, path: str) -> Iterator[tuple[int, np.ndarray]]:
    """(first row, its part of indptr) of `count` rows or columns, in pieces of a few rows and entries.

    Raises DataError unless indptr starts at 0, never decreases, and ends within `entries`.
    """
    last = int(take("indptr", 1)[0])
    if last != 0:
        raise DataError(f"{path}: indptr starts at {last}, not at 0; write the file again")
    for start in range(0, count, _ENTRIES):
        size = min(count - start, _ENTRIES)
        indptr = np.append(last, take("indptr", size).astype(np.int64))
        if first_fall(indptr) >= 0 or indptr[-1] > entries:
            raise DataError(
                f"{path}: indptr must not decrease or exceed the {entries} stored values, but does so between its "
                f"entries {start} and {start + size}; write the file again"
            )
        low = 0
        while low < size:
            high = int(np.searchsorted(indptr, indptr[low] + _ENTRIES, side="right")) - 1
            high = min(size, max(high, low + 1))
            yield start + low, indptr[low : high + 1]
            low = high
        last = int(indptr[-1])


def by_rows(take: Piece, entries: int, rows: int, columns: int, path: str) -> Iterator[Batch]:
    """CSR arrays as batches; sorts unsorted rows. Raises DataError for indices out of range or repeated in a row."""
    for start, part in spans(take, rows, entries, path):
        size = int(part[-1] - part[0])
        if len(part) == 2 and size > columns:
            raise DataError(f"{path}: row {start} has {size} values in {columns} columns; sum the duplicates first")
        yield sorted_rows(take("data", size), take("indices", size), part - part[0], columns, path, start)


def by_columns(
    take: Piece, entries: int, rows: int, columns: int, path: str, memory: int, near: str, held: int = 0
) -> Iterator[Batch]:
    """CSC arrays as batches of rows: writes entries to disk by range of rows, then sorts each range in memory.

    memory: bytes, of which `held` are in use.
    """

    def each() -> Entries:
        for first, indptr in spans(take, columns, entries, path):
            sizes = np.diff(indptr)
            if sizes.max() > rows:  # check before writing: a damaged file may declare very many
                number = int(sizes.argmax())
                what = f"column {first + number} has {sizes[number]} values in {rows} rows"
                raise DataError(f"{path}: {what}; sum the duplicates first")
            for start in range(int(indptr[0]), int(indptr[-1]), _ENTRIES):
                size = min(_ENTRIES, int(indptr[-1]) - start)
                data, row = take("data", size), take("indices", size).astype(np.int64)
                bad = np.flatnonzero((row < 0) | (row >= rows))
                if bad.size:
                    raise DataError(f"{path}: the row index {row[bad[0]]} is outside 0..{rows - 1}")
                column = first + np.searchsorted(indptr, np.arange(start, start + size), side="right") - 1
                yield row, column, data

    return deal(each(), rows, columns, entries, path, memory, near, held)


def deal(
    found: Entries, rows: int, columns: int, entries: int, path: str, memory: int, near: str, held: int = 0
) -> Iterator[Batch]:
    """Entries in any order as batches of rows: on disk by range of rows, then sorted range by range."""
    check_space(near, 8 * rows)  # a small file may declare very many empty rows
    # an entry is written as (row, column, value); ranges have equally many rows, and fit in memory on average
    count = min(rows, buckets_for(24 * entries, memory, held=held))
    empty = np.empty(0, np.int64)
    edge = np.linspace(0, rows, count + 1).astype(np.int64)
    with temporary_folder(near) as folder:
        spill = Spill(folder)
        for row, column, data in found:
            bucket = np.searchsorted(edge, row, side="right") - 1
            order = np.argsort(bucket, kind="stable")
            ends = np.searchsorted(bucket[order], np.arange(count + 1))
            for k in range(count):
                here = order[ends[k] : ends[k + 1]]
                if here.size:  # as one sparse row of entries, their row numbers in place of labels
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
