"""The common part of the dense and the sparse HDF5 source: file, labels, weights, fingerprint."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError, StreamMarginError
from streammargin.sources.arrays import as_weights, in_pieces, labels_of_rows, sample
from streammargin.sources.base import OfValues, Slices, Source
from streammargin.sources.hdf5.labels import LABELS, MASK, QUERIES, WEIGHTS, Column, ColumnSlices, open_column
from streammargin.sources.hdf5.names import names_bytes, names_column, read_names
from streammargin.sources.hdf5.nodes import attribute, decoding, look_up
from streammargin.sources.hdf5.storage import has_link
from streammargin.sources.label_column import ATTRIBUTE

SCHEMA, RANGES = "streammargin-schema", "streammargin-ranges"  # attributes of rows that were made of a table
_NO_COMPRESSION = (h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32)


class HDF5Source(Source):
    """An HDF5 file with labels; subclasses read the rows, which are stored under the name x."""

    def __init__(self, file: h5py.File, path: str, x: str, y: Any, sample_weight: Any) -> None:
        self.file: Any = file
        self.path: str = path
        self.name: str = path
        self.x: str = x
        labels: tuple[Any, list[str] | None] = (y, None) if _is_name(y) else labels_of_rows(y)
        self._y, self._outputs = labels
        self._weight = sample_weight
        self._others: list[Any] = []
        self._named: dict[tuple[str, tuple[str, str]], Column] = {}
        self._columns_read: weakref.WeakSet[ColumnSlices] = weakref.WeakSet()
        self._files = [path]  # files that contain the rows
        self._seen: dict[str, tuple[int, ...] | None] = {}
        self._wanted: np.ndarray | None = None  # (rows,) bool: the rows that need a label; None: all

    def masked(self, mask: str) -> Source:
        from streammargin.sources.hdf5.masked import Masked

        name, _, value = mask.partition("=")
        self._wanted = self._column(name, MASK).equal(value)
        for column in self._named.values():
            column.wanted = self._wanted
        return Masked(self, np.flatnonzero(self._wanted), mask)

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """The number of stored values of these rows (m,), ascending; (m,) int64."""
        return np.full(len(rows), self.features, np.int64)

    def _column(self, name: str, what: tuple[str, str] = LABELS) -> Column:
        if (name, what) in self._named:  # or another file would be opened each time
            return self._named[name, what]
        with decoding(self.path):
            column, other = open_column(name, self.file, self.path, what)
        if other is not None:
            self._others.append(other)
        if column.length != self.rows:
            raise DataError(
                f"{column.name} has {column.length} entries but {self.path} has {self.rows} rows; they must agree"
            )
        column.wanted = self._wanted
        self._named[name, what] = column
        return column

    def has_labels(self) -> bool:
        with decoding(self.path):
            return self._y is not None or has_link(self.file, "y")

    def labels(self, chunk: int = 1 << 16) -> Iterator[np.ndarray]:
        if _is_name(self._y):
            yield from self._column(self._y or "y").chunks(chunk)
            return
        if np.ndim(self._y) not in (1, 2) or len(self._y) != self.rows:
            raise DataError(f"y has shape {np.shape(self._y)} but {self.path} has {self.rows} rows; they must agree")
        yield from in_pieces(self._y, self._outputs, chunk)

    def outputs(self) -> list[str] | None:
        if not _is_name(self._y):
            return self._outputs
        column = self._column(self._y or "y")
        return None if column.width is None else column.names()

    def label_place(self, row: int) -> tuple[str, int]:
        files = self._column(self._y or "y").files if _is_name(self._y) else []
        return files[0] if files else self.path, row

    def label_column(self) -> str | int | None:
        if not _is_name(self._y) or not self.has_labels():
            return None
        name = None
        with contextlib.suppress(ValueError):  # an attribute of another kind
            node = self._column(self._y or "y").data
            name = attribute(node, ATTRIBUTE) if isinstance(node, h5py.Dataset) else None
        return int(name) if isinstance(name, np.integer) else name if isinstance(name, str) else None

    def column_bytes(self) -> int:
        named = [(given or default, what) for given, default, what in self._columns() if _is_name(given)]
        return sum(self._column(name, what).held_bytes for name, what in named)

    def rereads_labels(self) -> str:
        return self._column(self._y or "y").kind if _is_name(self._y) else ""

    def labels_as(self, made: OfValues) -> Slices:
        return self._slices(self._column(self._y or "y"), made, (self.labels_as, (made,)))

    def _slices(self, column: Column, made: OfValues, again: Any) -> ColumnSlices:
        found = ColumnSlices(column, made, again)
        self._columns_read.add(found)
        return found

    def _columns(self) -> Iterator[tuple[Any, str, tuple[str, str]]]:
        """(name or array given, default name, LABELS or WEIGHTS) of the labels and, if present, the weights."""
        yield self._y, "y", LABELS
        if self._weight is not None or has_link(self.file, "sample_weight"):  # most files have none
            yield self._weight, "sample_weight", WEIGHTS

    def sample_weight(self) -> Slices | None:
        given = self._weight
        if given is None:
            if look_up(self.file, "sample_weight", self.path) is None:
                return None
            given = "sample_weight"
        return self.numbers(given, WEIGHTS) if isinstance(given, str) else as_weights(given, self.rows, self.path)

    def numbers(self, name: str, what: tuple[str, str]) -> Slices:
        column, noun = self._column(name, what), "sample weights" if what is WEIGHTS else what[0]
        return self._slices(
            column, lambda part: as_weights(part, len(part), column.name, noun), (self.numbers, (name, what))
        )

    def queries(self) -> Slices | None:
        node = look_up(self.file, QUERIES[1], self.path)
        if not isinstance(node, h5py.Dataset) or node.ndim != 1 or node.dtype.kind not in "iu":
            return None
        column = self._column(QUERIES[1], QUERIES)
        return self._slices(column, lambda part: part.astype(np.int64), (self.queries, ()))

    def names_bytes(self) -> int:
        return names_bytes(names_column(self.file, self.x, self.path))

    def schema(self) -> dict[str, Any] | None:
        with contextlib.suppress(ValueError):
            found = json.loads(self._told(SCHEMA) or "null")
            if isinstance(found, dict) and self.x == "X":
                return found
        return None

    def ranges(self) -> str | None:
        return self._told(RANGES)

    def _told(self, name: str) -> str | None:
        """An attribute of the file that is text."""
        with contextlib.suppress(ValueError):
            found = attribute(self.file, name)
            return found if isinstance(found, str) else None
        return None

    def feature_names(self) -> np.ndarray | None:
        column = names_column(self.file, self.x, self.path)
        return None if column is None else read_names(column, self.features)

    def files(self) -> list[str]:
        found = list(self._files)
        with contextlib.suppress(StreamMarginError):  # reported when needed
            column = names_column(self.file, self.x, self.path)
            found.extend([] if column is None else column.files)
        for given, default, what in self._columns():
            if _is_name(given):
                # a missing one is reported when it is needed
                with contextlib.suppress(StreamMarginError), decoding(self.path):
                    column, other = open_column(given or default, self.file, self.path, what)
                    found.extend(column.files)
                    if other is not None:
                        other.close()
        return found

    def remember(self, opens: Callable[..., Source]) -> None:
        """Remember the files' status, for `check_unchanged`, and the function that opens them, for other processes."""
        self._seen, self._opens = {path: _status(path) for path in self.files()}, opens

    def __reduce__(self) -> Any:
        return _again, (self._opens, (self.path, self.x, self._y, self._weight), self._seen)

    def check_unchanged(self) -> None:
        for path, before in self._seen.items():
            if _status(path) != before:
                raise _changed(path)

    def fingerprint(self) -> str:
        digest = hashlib.sha256(repr((self.rows, self.features, self.nnz)).encode())
        for path in self.files():
            _add_file(digest, path)
        for given in (self._y, self._weight):
            if given is not None and not isinstance(given, str):
                digest.update(sample(np.asarray(given)))
        return digest.hexdigest()[:16]

    def close(self) -> None:
        for held in (*self._columns_read, *self._others):
            held.close()
        self._others.clear()
        self.file.close()


def _again(opens: Callable[..., Source], given: tuple[Any, ...], seen: dict[str, tuple[int, ...] | None]) -> Source:
    """The same source in another process, of another machine too. DataError if its files are other ones now."""
    source = opens(*given)
    for path, before in seen.items():
        if (_status(path) or ())[:2] != (before or ())[:2]:  # device and inode may have other numbers there
            source.close()
            raise _changed(path)
    return source


def _changed(path: str) -> DataError:
    return DataError(f"{path} was changed during the run; start again, and do not write to it meanwhile")


def _is_name(given: Any) -> bool:
    """Whether a column is in a file, under a given or the default name."""
    return given is None or isinstance(given, str)


def _status(path: str) -> tuple[int, ...] | None:
    """Size, time, device and inode of a file; None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino


def _add_file(digest: Any, path: str) -> None:
    """Add size, time and samples of a file to a digest."""
    status = os.stat(path)
    digest.update(repr((status.st_size, status.st_mtime_ns)).encode())
    with open(path, "rb") as file:
        for k in range(16):
            file.seek(status.st_size * k // 16)
            digest.update(file.read(4096))


def storage_layout(dataset: h5py.Dataset, direct: bool) -> dict[str, Any]:
    """How a dataset is stored, as plain values."""
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(k) for k in range(plist.get_nfilters())]
    packed = [f[3].decode(errors="replace") or str(f[0]) for f in filters if f[0] not in _NO_COMPRESSION]
    return {
        "dtype": str(dataset.dtype),
        "storage": "contiguous" if dataset.chunks is None else "chunked",
        "chunks": None if dataset.chunks is None else list(dataset.chunks),
        "compression": {"deflate": "gzip"}.get(packed[0], packed[0]) if packed else None,
        "read": "direct" if direct else "copied",
    }
