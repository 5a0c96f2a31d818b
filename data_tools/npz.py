"""SciPy's NPZ: archives of scipy.sparse.save_npz, each with one CSR or CSC matrix."""

from __future__ import annotations

import contextlib
import lzma
import math
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from streammargin.data_tools.formats import Asked, Found, kept_dtype, with_labels
from streammargin.data_tools.matrices import by_columns, by_rows, check_kind, check_lengths, check_shape
from streammargin.errors import DataError
from streammargin.sources.batch import Batch
from streammargin.sources.npy import read_header
from streammargin.tables.textfile import Text

TEXT, SUFFIXES, OPTIONS = False, (".npz",), ("y",)
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)


def sniff(start: bytes) -> bool:
    """Whether this is a ZIP archive."""
    return start.startswith(b"PK\x03\x04")


def read(text: Text, asked: Asked) -> Found:
    """The rows of the matrix, with the labels of another file."""
    path = text.name
    stored, width, found = _matrix(path, asked.memory, asked.near)
    return Found(with_labels(found, asked.y, {}, path, asked), True, width, kept_dtype(stored, path))


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
        """Whether the archive has an array of this name."""
        return f"{name}.npy" in self._zip.namelist()

    def _open(self, name: str) -> tuple[Any, np.dtype, int]:
        if name in self._streams:
            return self._streams[name]
        if not self.has(name):
            raise DataError(f"{self.path} has no array {name}; only files of scipy.sparse.save_npz can be read")
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
        check_kind(name, dtype, self.path)
        if not dtype.itemsize or math.prod(shape) * dtype.itemsize != stored:
            raise DataError(
                f"{self.path} is damaged: {name} is said to be {shape} of {dtype}, but {stored} bytes are stored; "
                "write it again"
            )
        self._streams[name] = (stream, dtype, math.prod(shape))
        return self._streams[name]

    def length(self, name: str) -> int:
        """The number of entries of an array."""
        return self._open(name)[2]

    def dtype(self, name: str) -> np.dtype:
        """The type of an array's entries."""
        return self._open(name)[1]

    def take(self, name: str, count: int) -> np.ndarray:
        """The next `count` entries. Raises DataError if the file ends before."""
        stream, dtype, _ = self._open(name)
        try:
            raw = stream.read(count * dtype.itemsize)
        except _DAMAGE as error:
            raise DataError(f"{self.path} is damaged: {name} ({str(error)[:80]}); write it again") from error
        if len(raw) != count * dtype.itemsize:
            raise DataError(f"{self.path} is cut short: {name} ends early; write it again")
        return np.frombuffer(raw, dtype)

    def small(self, name: str) -> np.ndarray:
        """A small array as a whole. Raises DataError if it is large."""
        size = self.length(name) * self.dtype(name).itemsize
        if size > 64:
            raise DataError(f"{self.path}: the array {name} takes {size} bytes, far too many; write it again")
        return self.take(name, self.length(name))


def _matrix(path: str, memory: int, near: str) -> tuple[np.dtype, int, Iterator[Batch]]:
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
