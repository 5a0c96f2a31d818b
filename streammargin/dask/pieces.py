"""Pieces: the rows of a partition of a collection, in a file of the worker that has them.

The process that trains has the husk of each, the same file without rows: their shape, labels, names; and a few rows.
"""

from __future__ import annotations

import hashlib
import io
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import h5py
import numpy as np
from distributed import get_worker

from streammargin.rows.blocks import Block, taken
from streammargin.sources.base import Buffer, OfValues, Slices, Source
from streammargin.sources.hdf5.file import open_file
from streammargin.sources.labels import TASKS
from streammargin.sources.views import View

OPEN = 64  # pieces that a process has open at a time
DIGESTED_BYTES = 1 << 20  # bytes of a piece that are read at a time for its digest
FIRST_ROWS_BYTES = 1 << 13  # bytes of its first rows, which the training process has


class Written(NamedTuple):
    """A piece that a worker has written: what is known, its digest, husk and first rows; no rows: there is no file."""

    address: str
    rows: int = 0
    facts: tuple[Any, ...] = ()
    digest: str = ""
    husk: bytes = b""
    first: Block | None = None


def place(file: str) -> str:
    """Where a worker keeps this file."""
    return os.path.join(get_worker().local_directory, file)


def lacks(files: Iterable[str]) -> list[str]:
    """The files that this worker does not have."""
    return [file for file in sorted(files) if not os.path.exists(place(file))]


def husk(path: str) -> bytes:
    """A file with all that this one has, but for the values of its rows."""
    image = io.BytesIO()
    with h5py.File(path, "r") as whole, h5py.File(image, "w", libver=("v108", "latest")) as made:
        made.attrs.update(whole.attrs)
        for name, node in whole.items():
            if name != "X":
                whole.copy(node, made, name)
        if isinstance(whole["X"], h5py.Dataset):
            _shape(whole["X"], made, "X")
        else:
            group = made.create_group("X")
            group.attrs.update(whole["X"].attrs)
            whole.copy(whole["X/indptr"], group, "indptr")
            for name in ("data", "indices"):
                _shape(whole["X"][name], group, name)
    return image.getvalue()


def _shape(dataset: h5py.Dataset, home: h5py.Group, name: str) -> None:
    home.create_dataset(name, dataset.shape, dataset.dtype, chunks=dataset.chunks)


def digest_of(path: str) -> str:
    """The digest of all values and attributes of a file, whose bytes may have times, too."""
    found = hashlib.blake2b(digest_size=16)

    def add(name: str, node: Any) -> None:
        attributes = [(key, np.asarray(value).tolist()) for key, value in sorted(node.attrs.items())]
        found.update(repr((name, attributes)).encode())
        if isinstance(node, h5py.Dataset):
            found.update(repr((node.shape, node.dtype)).encode())
            step = max(1, DIGESTED_BYTES * len(node) // max(1, node.nbytes))
            for first in range(0, len(node), step):
                values = node[first : first + step]
                found.update(repr(values.tolist()).encode() if values.dtype.hasobject else values)

    with h5py.File(path, "r") as file:
        add("", file)
        file.visititems(add)
    return found.hexdigest()


def written(path: str, few: bool) -> Written:
    """The facts of a piece that was just written here; few: with its first rows, otherwise with none."""
    digest = digest_of(path)
    with open_file(path, None, None, None) as source:
        facts = (source.rows, source.features, source.nnz, source.dtype, source.sparse)
        bounds = source.bounds(FIRST_ROWS_BYTES)
        read = source.read(0, int(bounds[1]), source.allocate(bounds)) if source.rows else None
        first = None if read is None else taken(read, np.arange(bounds[1] if few else 0))
    return Written(get_worker().address, source.rows, facts, digest, husk(path), first)


def close(folder: str) -> None:
    """Close the pieces in this folder, once nobody reads them."""
    with _lock:
        for key in [key for key in _open if f"{os.sep}{folder}{os.sep}" in key[0]]:
            del _open[key]


class _OpenPiece(View):
    """A piece that is open, with its labels and weights by who reads them; closed once nobody reads it any more."""

    def __init__(self, path: str, y: str | None) -> None:
        super().__init__(open_file(path, None, y, None))
        self.columns: WeakKeyDictionary[Any, Slices] = WeakKeyDictionary()

    def __del__(self) -> None:
        if hasattr(self, "source"):
            self.source.close()


_open: OrderedDict[tuple[str, str | None], _OpenPiece] = OrderedDict()
_lock = threading.Lock()


def _opened(path: str, y: str | None) -> _OpenPiece:
    """The piece in this file with these labels; of several, those used last stay open."""
    with _lock:
        if (path, y) not in _open:
            while len(_open) >= OPEN:
                _open.popitem(last=False)
            _open[path, y] = _OpenPiece(path, y)
        _open.move_to_end((path, y))
        return _open[path, y]


class Piece(View):
    """The rows of a partition. name: for messages; file: of a worker; path: of whoever has this, with rows or a husk.

    y: the dataset of its labels, None for the usual one. first: rows beside a husk, to guess lengths by.

    The file is opened when it is needed, so that a worker may have pieces of others among its own.
    """

    def __init__(
        self, name: str, file: str, path: str, facts: tuple[Any, ...], digest: str, y: str | None = None,
        first: Block | None = None,
    ) -> None:  # fmt: skip
        self.name, self.file, self.path, self.digest, self._facts, self.y = name, file, path, digest, facts, y
        self.first = first
        self.rows, self.features, self.nnz, self.dtype, self.sparse = facts

    def __reduce__(self) -> Any:
        return _arrived, (self.name, self.file, self._facts, self.digest, self.y)

    @property
    def source(self) -> Source:  # type: ignore[override]
        return _opened(self.path, self.y)

    def allocate(self, bounds: np.ndarray) -> Buffer:
        if os.path.exists(self.path):
            return self.source.allocate(bounds)
        return Buffer(np.empty((0,) if self.sparse else (0, self.features), self.dtype))

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        if self.first is not None:
            return taken(self.first, np.arange(start, stop))
        return self.source.read(start, stop, buffer)

    def place(self, row: int) -> tuple[str, int]:
        return self.name, row

    label_place, told = place, Source.told

    def labels_as(self, made: OfValues) -> Slices:
        return _Column(self, made)

    def sample_weight(self) -> Slices | None:
        return None if self.source.sample_weight() is None else _Column(self, None)

    def task_column(self) -> Source | None:
        with h5py.File(self.path, "r") as file:
            lacking = TASKS not in file
        return None if lacking else Piece(self.name, self.file, self.path, self._facts, self.digest, TASKS)

    def files(self) -> list[str]:
        return []

    def check_unchanged(self) -> None:
        """Nobody else writes to these files."""

    def fingerprint(self) -> str:
        return self.digest


def _arrived(name: str, file: str, facts: tuple[Any, ...], digest: str, y: str | None) -> Piece:
    """The piece in a worker."""
    return Piece(name, file, place(file), facts, digest, y)


class _Column:
    """Labels, as made by `made`, or weights (None), of a piece that is opened when they are read."""

    def __init__(self, piece: Piece, made: OfValues | None) -> None:
        self.piece, self.made = piece, made

    def __len__(self) -> int:
        return self.piece.rows

    def __getitem__(self, rows: slice) -> np.ndarray:
        opened = _opened(self.piece.path, self.piece.y)
        if self not in opened.columns:
            column = opened.sample_weight() if self.made is None else opened.labels_as(self.made)
            assert column is not None
            opened.columns[self] = column
        return opened.columns[self][rows]
