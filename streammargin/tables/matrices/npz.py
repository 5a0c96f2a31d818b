"""NumPy's archives: of scipy.sparse.save_npz, each with one CSR or CSC matrix, and of numpy.savez(X=..., y=...)."""

from __future__ import annotations

import contextlib
import lzma
import math
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from streammargin.errors import DataError
from streammargin.sources.arrays import as_weights, value_dtype
from streammargin.sources.batch import Batch
from streammargin.sources.labels import as_values, lie_inside
from streammargin.sources.names import listed
from streammargin.sources.npy import read_header
from streammargin.tables.matrices.base import How, Matrix, beside
from streammargin.tables.matrices.compressed import by_columns, by_rows, check_kind, check_lengths, check_shape
from streammargin.tables.matrices.npy import check_rows, check_stored, dense_rows
from streammargin.tables.textfile import Text

TEXT = False
MEMBERS = ("data", "indices", "indptr", "shape", "format")  # of save_npz
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)


def read(text: Text, how: How) -> Matrix:
    """The rows of the matrix, with labels of the archive or of another file."""
    path = text.name
    archive = Archive(path, how.opened)
    x = how.x or "X"
    if archive.has("format") or not archive.has(x):
        if archive.has("header"):
            raise DataError(f"{path} is a model, and has no rows; name a file of rows")
        stored, width, found = _matrix(archive, how)
        return Matrix(beside(found, path, how), True, width, value_dtype(stored, f"{path}: X"))
    return named(archive, x, how)


def named(archive: Any, x: str, how: How) -> Matrix:
    """The rows x of an archive, with labels and weights of it or of other files. DataError for another shape."""
    path = archive.path
    columns: dict[str, str] = {}  # that are in the archive
    for part, name, usual in (("labels", how.y, "y"), ("weights", how.weight, "sample_weight")):
        if archive.has(name or usual):
            columns[part] = name or usual
        elif name is not None and lie_inside(name):
            raise DataError(f"{path} has no array {name} of {part}; it has {listed(archive.arrays())}")
    stored = archive[x].dtype
    rows, width = check_rows(archive[x].shape, stored, f"{path}: {x}")
    found = dense_rows(archive[x].read, rows, width, stored, f"{path}: {x}")
    found = _with(archive, found, columns, rows)
    how = replace(how, y=None if "labels" in columns else how.y, weight=None if "weights" in columns else how.weight)
    return Matrix(beside(found, path, how), False, width, value_dtype(stored, f"{path}: X"), count=rows)


def _with(archive: Any, found: Iterator[Batch], columns: dict[str, str], rows: int) -> Iterator[Batch]:
    """The batches with columns of the archive: part of a batch -> its name."""
    for name in columns.values():
        shape = archive[name].shape
        if shape[:1] != (rows,) or len(shape) > (2 if name == columns.get("labels") else 1):
            raise DataError(
                f"{archive.path}: {name} has the shape {shape} where there are {rows} rows; store one value for each "
                "row"
            )
    for batch in found:
        values = {part: as_values(archive[name].rows(batch.rows)) for part, name in columns.items()}
        if "weights" in values:
            values["weights"] = as_weights(values["weights"], batch.rows, archive.path)
        yield batch._replace(**values)


class Member(NamedTuple):
    """An array of an archive as a stream, front to back."""

    path: str
    name: str
    stream: Any
    dtype: np.dtype
    shape: tuple[int, ...]

    def read(self, size: int) -> bytes:
        """The next bytes."""
        try:
            return self.stream.read(size)
        except _DAMAGE as error:
            raise DataError(f"{self.path} is damaged: {self.name} ({str(error)[:80]}); write it again") from error

    def take(self, count: int) -> np.ndarray:
        """The next entries. Raises DataError if the file ends before."""
        raw = self.read(count * self.dtype.itemsize)
        if len(raw) != count * self.dtype.itemsize:
            raise DataError(f"{self.path} is cut short: {self.name} ends early; write it again")
        return np.frombuffer(raw, self.dtype)

    def rows(self, count: int) -> np.ndarray:
        """The next entries along the first axis, as `take`."""
        inner = self.shape[1:]
        return self.take(count * math.prod(inner)).reshape(count, *inner)

    def small(self) -> np.ndarray:
        """A small array as a whole. Raises DataError if it is large."""
        size = math.prod(self.shape) * self.dtype.itemsize
        if size > 64:
            raise DataError(f"{self.path}: the array {self.name} takes {size} bytes, far too many; write it again")
        return self.take(math.prod(self.shape))


class Archive:
    """The arrays of an NPZ file by name; the stack closes it."""

    def __init__(self, path: str, opened: contextlib.ExitStack) -> None:
        self.path: str = path
        self._opened = opened
        try:
            self._zip = opened.enter_context(zipfile.ZipFile(path))
        except (*_DAMAGE, ValueError, NotImplementedError) as error:
            raise DataError(f"{path} is not an NPZ file ({str(error)[:80]}); write it again") from error
        self._members: dict[str, Member] = {}

    def arrays(self) -> list[str]:
        """The names of the arrays."""
        return [name.removesuffix(".npy") for name in self._zip.namelist() if name.endswith(".npy")]

    def has(self, name: str) -> bool:
        """Whether the archive has an array of this name."""
        return f"{name}.npy" in self._zip.namelist()

    def __getitem__(self, name: str) -> Member:
        if name in self._members:
            return self._members[name]
        if not self.has(name):
            raise DataError(
                f"{self.path} has no array {name}; write it with scipy.sparse.save_npz, or with numpy.savez(X=X, y=y)"
            )
        try:
            stream = self._opened.enter_context(self._zip.open(f"{name}.npy"))
            shape, dtype = read_header(stream)
            stored = self._zip.getinfo(f"{name}.npy").file_size - stream.tell()
        except (*_DAMAGE, ValueError, NotImplementedError, RuntimeError) as error:
            raise DataError(
                f"{self.path} is damaged: {name} is not an array ({str(error)[:80]}); write it again"
            ) from error
        if dtype.hasobject:
            raise DataError(f"{self.path}: the array {name} holds Python objects, which are never unpickled")
        if name in ("data", "indices", "indptr") and len(shape) != 1:
            raise DataError(f"{self.path}: {name} has the shape {shape}; store it with one dimension")
        if name in MEMBERS:
            check_kind(name, dtype, self.path)
        if not dtype.itemsize:
            raise DataError(f"{self.path} is damaged: {name} is said to be {shape} of {dtype}; write it again")
        check_stored(shape, dtype, stored, f"{self.path}: {name}")
        self._members[name] = Member(self.path, name, stream, dtype, shape)
        return self._members[name]


def _matrix(archive: Archive, how: How) -> tuple[np.dtype, int, Iterator[Batch]]:
    """(stored type of the values, d, batches in row order) of a CSR or CSC matrix of save_npz."""
    path = archive.path
    named = archive["format"].small().tolist() if archive.has("format") else []
    kind = ", ".join(name.decode("latin-1") if isinstance(name, bytes) else name for name in named)
    if kind not in ("csr", "csc"):
        raise DataError(f"{path} holds a matrix of format {kind or 'unknown'}; save it with X.tocsr() first")
    rows, columns = check_shape(archive["shape"].small(), path)
    lengths = {name: archive[name].shape[0] for name in ("data", "indices", "indptr")}
    check_lengths(lengths, rows if kind == "csr" else columns, path)

    def take(name: str, count: int) -> np.ndarray:
        return archive[name].take(count)

    if kind == "csr":
        found = by_rows(take, lengths["data"], rows, columns, path)
    else:
        found = by_columns(take, lengths["data"], rows, columns, path, how.memory, how.near)
    return archive["data"].dtype, columns, found
