"""Matrices that are stored already: scipy.sparse.save_npz archives, and HDF5 in any layout h5py can read."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import h5py
import numpy as np

from data_tools.rows import Batch
from data_tools.spill import Spill, buckets_for
from streammargin.errors import DataError
from streammargin.files import temporary_folder

Piece = Callable[[str, int], np.ndarray]  # the next `count` entries of data or indices
_ENTRIES = 1 << 19
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError)
_KINDS = {"data": ("biuf", "real numbers"), "format": ("SU", "text")}


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
            try:
                stream = self._zip.open(f"{name}.npy")
                version = np.lib.format.read_magic(stream)
                one = version == (1, 0)
                reader = np.lib.format.read_array_header_1_0 if one else np.lib.format.read_array_header_2_0
                shape, _, dtype = reader(stream)
            except (*_DAMAGE, ValueError, NotImplementedError, RuntimeError) as error:
                raise DataError(f"{self.path} is damaged: {name} is no array ({error}); write it again") from error
            if dtype.hasobject:
                raise DataError(f"{self.path}: the array {name} holds Python objects, which are never unpickled")
            check_kind(name, dtype, self.path)
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
    named = archive.whole("format").tolist() if archive.has("format") else [b""]
    kind = named[0].decode("latin-1") if len(named) == 1 and isinstance(named[0], bytes) else ", ".join(map(str, named))
    if kind not in ("csr", "csc"):
        raise DataError(f"{path} holds a matrix of format {kind or 'unknown'}; save it with X.tocsr() first")
    rows, columns = check_shape(archive.whole("shape"), path)
    indptr = archive.whole("indptr").astype(np.int64)
    dtype = archive.dtype("data")
    archive.dtype("indices")

    def stream() -> Iterator[Batch]:
        with archive:
            if kind == "csr":
                yield from by_rows(archive.take, indptr, rows, columns, path)
            else:
                yield from by_columns(archive.take, indptr, rows, columns, path, memory, near)

    return dtype, columns, stream()


def check_kind(name: str, dtype: np.dtype, path: str) -> None:
    """DataError unless an array of this name may hold this type."""
    kinds, words = _KINDS.get(name, ("iu", "integers"))
    if dtype.kind not in kinds:
        raise DataError(f"{path}: the array {name} holds {dtype} but must hold {words}; write the file again")


def check_shape(shape: Any, path: str) -> tuple[int, int]:
    """(rows, columns); DataError unless these are two whole numbers of a matrix that can be stored."""
    found = np.asarray(shape)
    if found.shape != (2,) or found.dtype.kind not in "iu" or found[0] < 0 or not 0 < found[1] < 2**31:
        raise DataError(
            f"{path}: the shape of the matrix is {found.tolist()!r}; it must be rows and columns, below 2^31 columns"
        )
    return int(found[0]), int(found[1])


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
    with temporary_folder(near) as folder:
        spill = Spill(folder)
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
            if found is None:
                nothing = np.empty(0, np.float32), np.empty(0, np.int32)
                yield Batch(None, *nothing, np.zeros(high - low + 1, np.int64), None, None)
                continue
            assert found.data is not None and found.indices is not None and found.labels is not None
            order = np.argsort(found.labels, kind="stable")
            lengths = np.bincount(found.labels - low, minlength=high - low)
            part = np.concatenate([[0], np.cumsum(lengths)])
            yield sorted_rows(found.data[order], found.indices[order], part, columns, path, low)


def read_csc_group(group: Any, path: str, memory: int, near: str) -> tuple[np.dtype, int, Iterator[Batch]]:
    """A csc_matrix group of an HDF5 file as batches of rows."""
    rows, columns = check_shape(group.attrs.get("shape", group.attrs.get("h5sparse_shape")), f"{path}: {group.name}")
    for name in ("data", "indices", "indptr"):
        if not isinstance(group.get(name), h5py.Dataset) or group[name].ndim != 1:
            raise DataError(f"{path}: {group.name} has no 1-dimensional dataset {name}; write the file again")
        check_kind(name, group[name].dtype, path)
    place = {"data": 0, "indices": 0, "indptr": 0}

    def take(name: str, count: int) -> np.ndarray:
        start = place[name]
        place[name] += count
        try:
            found = group[name][start : start + count]
        except OSError as error:
            raise DataError(f"{path}: {name} cannot be read ({error}); the file may be damaged") from error
        if len(found) != count:
            raise DataError(f"{path}: {name} ends early; write the file again")
        return found

    indptr = take("indptr", group["indptr"].shape[0]).astype(np.int64)
    return group["data"].dtype, columns, by_columns(take, indptr, rows, columns, path, memory, near)
