"""Matrices that are stored already: scipy.sparse.save_npz archives, and HDF5 in any layout h5py can read."""

from __future__ import annotations

import contextlib
import lzma
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import h5py
import numpy as np

from data_tools.rows import Batch
from data_tools.spill import Spill, buckets_for
from data_tools.writer import check_space
from streammargin.data.arrays import first_fall
from streammargin.data.hdf5_nodes import decoding, look_up
from streammargin.data.hdf5_reader import stored_dtype
from streammargin.data.npy import read_header
from streammargin.errors import DataError
from streammargin.files import temporary_folder

Piece = Callable[[str, int], np.ndarray]  # the next `count` entries of data or indices
_ENTRIES = 1 << 19
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)
_KINDS = {"data": ("biuf", "real numbers"), "format": ("SU", "text")}


class Archive:
    """The arrays of an NPZ file as streams, front to back."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (*_DAMAGE, ValueError, NotImplementedError) as error:
            raise DataError(f"{path} is not an NPZ file ({str(error)[:80]}); write it again") from error
        self._opened = contextlib.ExitStack()
        self._streams: dict[str, tuple[Any, np.dtype, int]] = {}

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()  # before the archive: each stream keeps its file open
        self._zip.close()

    def has(self, name: str) -> bool:
        """Whether there is an array of this name."""
        return f"{name}.npy" in self._zip.namelist()

    def _open(self, name: str) -> tuple[Any, np.dtype, int]:
        if name in self._streams:
            return self._streams[name]
        if not self.has(name):
            raise DataError(f"{self.path} has no array {name}; only what scipy.sparse.save_npz wrote can be read")
        try:
            stream = self._opened.enter_context(self._zip.open(f"{name}.npy"))
            shape, dtype = read_header(stream)
            stored = self._zip.getinfo(f"{name}.npy").file_size - stream.tell()
        except (*_DAMAGE, ValueError, NotImplementedError, RuntimeError) as error:
            raise DataError(
                f"{self.path} is damaged: {name} is no array ({str(error)[:80]}); write it again"
            ) from error
        if dtype.hasobject:
            raise DataError(f"{self.path}: the array {name} holds Python objects, which are never unpickled")
        check_kind(name, dtype, self.path)
        if not dtype.itemsize or math.prod(shape) * dtype.itemsize != stored:
            raise DataError(
                f"{self.path} is damaged: {name} is said to be {shape} of {dtype}, but {stored} bytes are stored; "
                "write it again"
            )
        self._streams[name] = (stream, dtype, math.prod(shape))
        return self._streams[name]

    def length(self, name: str) -> int:
        """Entries of an array."""
        return self._open(name)[2]

    def dtype(self, name: str) -> np.dtype:
        """Its type."""
        return self._open(name)[1]

    def take(self, name: str, count: int) -> np.ndarray:
        """The next `count` entries. Raises DataError where the file ends before."""
        stream, dtype, _ = self._open(name)
        try:
            raw = stream.read(count * dtype.itemsize)
        except _DAMAGE as error:
            raise DataError(f"{self.path} is damaged: {name} ({str(error)[:80]}); write it again") from error
        if len(raw) != count * dtype.itemsize:
            raise DataError(f"{self.path} is cut short: {name} ends early; write it again")
        return np.frombuffer(raw, dtype)

    def small(self, name: str) -> np.ndarray:
        """An array of a few entries; DataError for more."""
        size = self.length(name) * self.dtype(name).itemsize
        if size > 64:
            raise DataError(f"{self.path}: the array {name} takes {size} bytes, far too many; write it again")
        return self.take(name, self.length(name))


def read_npz(path: str, memory: int, near: str) -> tuple[np.dtype, int, Iterator[Batch]]:
    """(stored type of the values, d, batches in row order) of a CSR or CSC matrix of save_npz."""
    with contextlib.ExitStack() as stack:
        archive = stack.enter_context(Archive(path))
        named = archive.small("format").tolist() if archive.has("format") else []
        kind = ", ".join(name.decode("latin-1") if isinstance(name, bytes) else name for name in named)
        if kind not in ("csr", "csc"):
            raise DataError(f"{path} holds a matrix of format {kind or 'unknown'}; save it with X.tocsr() first")
        rows, columns = check_shape(archive.small("shape"), path)
        lengths = {name: archive.length(name) for name in ("data", "indices", "indptr")}
        check_lengths(lengths, rows if kind == "csr" else columns, path)
        kept = stack.pop_all()

    def stream() -> Iterator[Batch]:
        with kept:
            if kind == "csr":
                yield from by_rows(archive.take, lengths["data"], rows, columns, path)
            else:
                yield from by_columns(archive.take, lengths["data"], rows, columns, path, memory, near)

    return archive.dtype("data"), columns, stream()


def check_kind(name: str, dtype: np.dtype, path: str) -> None:
    """DataError unless an array of this name may hold this type."""
    kinds, words = _KINDS.get(name, ("iu", "integers"))
    if dtype.kind not in kinds:
        raise DataError(f"{path}: the array {name} holds {dtype} but must hold {words}; write the file again")


def check_shape(shape: Any, path: str) -> tuple[int, int]:
    """(rows, columns); DataError unless these are two whole numbers of a matrix that can be stored."""
    found = np.asarray(shape)
    if found.shape != (2,) or found.dtype.kind not in "iu" or not 0 <= found[0] < 2**48 or not 0 < found[1] < 2**31:
        raise DataError(
            f"{path}: the shape of the matrix is {found.tolist()!r}; it must be two numbers, rows (below 2^48) and "
            "columns (below 2^31)"
        )
    return int(found[0]), int(found[1])


def check_lengths(lengths: Mapping[str, int], count: int, path: str) -> None:
    """DataError unless data and indices are of one length, and indptr has an entry for each of `count` and one more."""
    if lengths["data"] != lengths["indices"] or lengths["indptr"] != count + 1:
        raise DataError(
            f"{path}: data, indices and indptr have {lengths['data']}, {lengths['indices']} and {lengths['indptr']} "
            f"entries; indptr must have {count + 1}, and the others as many as there are values; write the file again"
        )


def spans(take: Piece, count: int, entries: int, path: str) -> Iterator[tuple[int, np.ndarray]]:
    """(first row, its part of indptr) of `count` rows, or columns, in pieces of a few rows and entries.

    Raises DataError unless indptr rises from 0, and not beyond `entries`.
    """
    last = int(take("indptr", 1)[0])
    if last != 0:
        raise DataError(f"{path}: indptr starts at {last}, not at 0; write the file again")
    for start in range(0, count, _ENTRIES):
        size = min(count - start, _ENTRIES)
        indptr = np.append(last, take("indptr", size).astype(np.int64))
        if first_fall(indptr) >= 0 or indptr[-1] > entries:
            raise DataError(
                f"{path}: indptr must never fall, nor leave the {entries} stored values, but does so between its "
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
    """CSR arrays as batches, unsorted rows sorted. Raises DataError for indices out of range or twice in a row."""
    for start, part in spans(take, rows, entries, path):
        size = int(part[-1] - part[0])
        if len(part) == 2 and size > columns:
            raise DataError(f"{path}: row {start} has {size} values in {columns} columns; sum the duplicates first")
        yield sorted_rows(take("data", size), take("indices", size), part - part[0], columns, path, start)


def sorted_rows(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, columns: int, path: str, first: int
) -> Batch:
    """A CSR batch whose rows rise. Raises DataError naming the row for an index out of range or twice."""
    row = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    bad = np.flatnonzero((indices < 0) | (indices >= columns))
    if bad.size:
        raise DataError(
            f"{path}: row {first + row[bad[0]]} has the column index {indices[bad[0]]}, outside 0..{columns - 1}"
        )
    step = np.diff(indices.astype(np.int64))
    inside = np.diff(row) == 0
    if np.any((step <= 0) & inside):
        order = np.lexsort((indices, row))
        data, indices = data[order], indices[order]
        twice = np.flatnonzero((np.diff(indices.astype(np.int64)) == 0) & inside)
        if twice.size:
            raise DataError(
                f"{path}: row {first + row[twice[0]]} has column {indices[twice[0]]} twice; sum the duplicates first"
            )
    if not np.isfinite(data).all():
        where = int(np.flatnonzero(~np.isfinite(data))[0])
        raise DataError(f"{path}: row {first + row[where]}, column {indices[where]} is {data[where]}; replace it first")
    return Batch(None, data, indices, indptr, None, None)


def by_columns(
    take: Piece, entries: int, rows: int, columns: int, path: str, memory: int, near: str
) -> Iterator[Batch]:
    """CSC arrays as batches of rows: entries are parked on disk by range of rows, then sorted range by range."""
    check_space(near, 8 * rows)  # rows without entries cost nothing to declare
    # an entry is parked as (row, column, value); ranges of rows of equal width, each within memory on average
    count = min(rows, buckets_for(24 * entries, memory))
    edge = np.linspace(0, rows, count + 1).astype(np.int64)
    with temporary_folder(near) as folder:
        spill = Spill(folder)
        for first, indptr in spans(take, columns, entries, path):
            for start in range(int(indptr[0]), int(indptr[-1]), _ENTRIES):
                size = min(_ENTRIES, int(indptr[-1]) - start)
                data, row = take("data", size), take("indices", size).astype(np.int64)
                bad = np.flatnonzero((row < 0) | (row >= rows))
                if bad.size:
                    raise DataError(f"{path}: the row index {row[bad[0]]} lies outside 0..{rows - 1}")
                column = first + np.searchsorted(indptr, np.arange(start, start + size), side="right") - 1
                bucket = np.searchsorted(edge, row, side="right") - 1
                order = np.argsort(bucket, kind="stable")
                ends = np.searchsorted(bucket[order], np.arange(count + 1))
                for k in range(count):
                    here = order[ends[k] : ends[k + 1]]
                    if here.size:  # as one sparse row of entries, their row numbers in place of labels
                        spill.append(k, Batch(None, data[here], column[here].astype(np.int32),
                                              np.array([0, here.size]), row[here], None))  # fmt: skip
        for k in range(count):
            yield from _range_of_rows(spill.read(k), int(edge[k]), int(edge[k + 1]), columns, path)


def _range_of_rows(found: Batch | None, start: int, stop: int, columns: int, path: str) -> Iterator[Batch]:
    """The rows start..stop of parked entries in their order, a few at a time: most may have none."""
    if found is None:
        found = Batch(None, np.empty(0, np.float32), np.empty(0, np.int32), None, np.empty(0, np.int64), None)
    assert found.data is not None and found.indices is not None and found.labels is not None
    order = np.argsort(found.labels, kind="stable")
    data, indices, row = found.data[order], found.indices[order], found.labels[order]
    for low in range(start, stop, _ENTRIES):
        high = min(stop, low + _ENTRIES)
        ends = np.searchsorted(row, np.arange(low, high + 1))
        here = slice(int(ends[0]), int(ends[-1]))
        yield sorted_rows(data[here], indices[here], ends - ends[0], columns, path, low)


def read_csc_group(group: Any, path: str, memory: int, near: str) -> tuple[np.dtype, int, Iterator[Batch]]:
    """A csc_matrix group of an HDF5 file as batches of rows."""
    with decoding(path):
        shape = group.attrs.get("shape", group.attrs.get("h5sparse_shape"))
        rows, columns = check_shape(shape, f"{path}: {group.name}")
        parts = {name: look_up(group, name, path) for name in ("data", "indices", "indptr")}
        for name, part in parts.items():
            if not isinstance(part, h5py.Dataset) or part.ndim != 1:
                raise DataError(f"{path}: {group.name} has no 1-dimensional dataset {name}; write the file again")
            check_kind(name, stored_dtype(part, f"{path}: {name}"), path)
        lengths = {name: int(part.shape[0]) for name, part in parts.items()}
        check_lengths(lengths, columns, path)
    place = {"data": 0, "indices": 0, "indptr": 0}

    def take(name: str, count: int) -> np.ndarray:
        start = place[name]
        place[name] += count
        with decoding(f"{path}: {name}"):
            found = parts[name][start : start + count]
        if len(found) != count:
            raise DataError(f"{path}: {name} ends early; write the file again")
        return found

    return parts["data"].dtype, columns, by_columns(take, lengths["data"], rows, columns, path, memory, near)
