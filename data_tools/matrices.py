"""Matrices that are stored already: scipy.sparse.save_npz archives, and HDF5 in any layout h5py can read."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from data_tools.rows import Batch
from data_tools.spill import Spill, buckets_for
from streammargin.errors import DataError

Piece = Callable[[str, int], np.ndarray]  # the next `count` entries of data or indices
_ENTRIES = 1 << 19


class Archive:
    """The arrays of an NPZ file as streams, front to back."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._zip = zipfile.ZipFile(path)
        self._streams: dict[str, tuple[Any, np.dtype, int]] = {}

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *exc: object) -> None:
        self._zip.close()

    def has(self, name: str) -> bool:
        """Whether there is an array of this name."""
        return f"{name}.npy" in self._zip.namelist()

    def _open(self, name: str) -> tuple[Any, np.dtype, int]:
        if name not in self._streams:
            if not self.has(name):
                raise DataError(f"{self.path} has no array {name}; only what scipy.sparse.save_npz wrote can be read")
            stream = self._zip.open(f"{name}.npy")
            version = np.lib.format.read_magic(stream)
            reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = reader(stream)
            if dtype.hasobject:
                raise DataError(f"{self.path}: the array {name} holds Python objects, which are never unpickled")
            self._streams[name] = (stream, dtype, int(np.prod(shape, dtype=np.int64)))
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
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise DataError(f"{self.path} is damaged: {name} ({error}); write it again") from error
        if len(raw) != count * dtype.itemsize:
            raise DataError(f"{self.path} is cut short: {name} ends early; write it again")
        return np.frombuffer(raw, dtype)

    def whole(self, name: str) -> np.ndarray:
        """An array that is small."""
        return self.take(name, self.length(name))


def read_npz(path: str, memory: int, near: str) -> tuple[np.dtype, int, Iterator[Batch]]:
    """(stored type of the values, d, batches in row order) of a CSR or CSC matrix of save_npz."""
    try:
        archive = Archive(path)
    except zipfile.BadZipFile as error:
        raise DataError(f"{path} is not an NPZ file ({error})") from error
    kind = archive.whole("format").item() if archive.has("format") else b""
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    if kind not in ("csr", "csc"):
        raise DataError(f"{path} holds a matrix of format {kind or 'unknown'}; save it with X.tocsr() first")
    rows, columns = (int(size) for size in archive.whole("shape"))
    indptr = archive.whole("indptr").astype(np.int64)
    dtype = archive.dtype("data")

    def stream() -> Iterator[Batch]:
        with archive:
            if kind == "csr":
                yield from by_rows(archive.take, indptr, rows, columns, path)
            else:
                yield from by_columns(archive.take, indptr, rows, columns, path, memory, near)

    return dtype, columns, stream()


def check_pointers(indptr: np.ndarray, count: int, path: str) -> None:
    """DataError unless indptr has count + 1 entries, starts at 0 and never falls."""
    if len(indptr) != count + 1 or indptr[0] != 0 or np.any(np.diff(indptr) < 0):
        raise DataError(f"{path}: indptr must have {count + 1} entries, start at 0 and never fall")


def by_rows(take: Piece, indptr: np.ndarray, rows: int, columns: int, path: str) -> Iterator[Batch]:
    """CSR arrays as batches, unsorted rows sorted. Raises DataError for indices out of range or twice in a row."""
    check_pointers(indptr, rows, path)
    start = 0
    while start < rows:
        stop = int(np.searchsorted(indptr, indptr[start] + _ENTRIES, side="right")) - 1
        stop = min(rows, max(stop, start + 1), start + _ENTRIES)
        part = indptr[start : stop + 1] - indptr[start]
        data, indices = take("data", int(part[-1])), take("indices", int(part[-1]))
        yield sorted_rows(data, indices, part, columns, path, start)
        start = stop


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
    take: Piece, indptr: np.ndarray, rows: int, columns: int, path: str, memory: int, near: str
) -> Iterator[Batch]:
    """CSC arrays as batches of rows: entries are parked on disk by range of rows, then sorted range by range."""
    check_pointers(indptr, columns, path)
    nnz = int(indptr[-1])
    # an entry is parked as (row, column, value); ranges of rows of equal width, each within memory on average
    count = min(rows, buckets_for(24 * nnz, memory))
    edge = np.linspace(0, rows, count + 1).astype(np.int64)
    with Spill(near) as spill:
        for start in range(0, nnz, _ENTRIES):
            size = min(_ENTRIES, nnz - start)
            data, row = take("data", size), take("indices", size).astype(np.int64)
            bad = np.flatnonzero((row < 0) | (row >= rows))
            if bad.size:
                raise DataError(f"{path}: the row index {row[bad[0]]} lies outside 0..{rows - 1}")
            column = np.searchsorted(indptr, np.arange(start, start + size), side="right") - 1
            bucket = np.searchsorted(edge, row, side="right") - 1
            order = np.argsort(bucket, kind="stable")
            ends = np.searchsorted(bucket[order], np.arange(count + 1))
            for k in range(count):
                here = order[ends[k] : ends[k + 1]]
                if here.size:  # as one sparse row of entries, their row numbers in place of labels
                    spill.append(k, Batch(None, data[here], column[here].astype(np.int32),
                                          np.array([0, here.size]), row[here], None))  # fmt: skip
        for k in range(count):
            low, high = int(edge[k]), int(edge[k + 1])
            found = spill.read(k)
            lengths = np.zeros(high - low, np.int64)
            if found is None:
                nothing = np.empty(0, np.float32), np.empty(0, np.int32)
                yield Batch(None, *nothing, np.zeros(high - low + 1, np.int64), None, None)
                continue
            assert found.data is not None and found.indices is not None and found.labels is not None
            order = np.argsort(found.labels, kind="stable")
            lengths += np.bincount(found.labels - low, minlength=high - low)
            part = np.concatenate([[0], np.cumsum(lengths)])
            yield sorted_rows(found.data[order], found.indices[order], part, columns, path, low)


def read_csc_group(group: Any, path: str, memory: int, near: str) -> tuple[np.dtype, int, Iterator[Batch]]:
    """A csc_matrix group of an HDF5 file as batches of rows."""
    rows, columns = (int(size) for size in group.attrs["shape"])
    place = {"data": 0, "indices": 0}

    def take(name: str, count: int) -> np.ndarray:
        start = place[name]
        place[name] += count
        found = group[name][start : start + count]
        if len(found) != count:
            raise DataError(f"{path}: {name} ends early; write the file again")
        return found

    indptr = group["indptr"][:].astype(np.int64)
    return group["data"].dtype, columns, by_columns(take, indptr, rows, columns, path, memory, near)
