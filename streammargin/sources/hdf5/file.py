"""Recognise HDF5 files, and open their rows: dense ones of a dataset (n, d), or sparse ones.

Sparse rows are those of anndata's csr_matrix encoding, or of 10x (CSC over features is CSR over barcodes).
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import json
import os
import weakref
from collections.abc import Callable, Iterator
from shlex import quote
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError, NoSuchRowsError, StreamMarginError
from streammargin.files import status_of
from streammargin.packages import register_filters
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock
from streammargin.sources.arrays import (
    as_weights,
    bounds_by_nnz,
    check_filled,
    check_wide,
    first_fall,
    in_pieces,
    labels_of_rows,
    sample,
    value_dtype,
)
from streammargin.sources.base import Buffer, OfValues, Slices, Source
from streammargin.sources.hdf5.columns import (
    LABELS,
    WEIGHTS,
    ColumnSlices,
    StoredColumn,
    names_bytes,
    names_column,
    open_column,
    read_names,
)
from streammargin.sources.hdf5.nodes import attribute, children, decoding, has_link, look_up, opened
from streammargin.sources.hdf5.reader import RowReader, stored_dtype
from streammargin.sources.labels import ATTRIBUTE
from streammargin.sources.masked import MASK, Masked
from streammargin.wording import meant

SCHEMA = "streammargin-schema"  # an attribute of rows that were made of a table
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
        self._named: dict[tuple[str, tuple[str, str]], StoredColumn] = {}
        self._columns_read: weakref.WeakSet[ColumnSlices] = weakref.WeakSet()
        self._files = [path]  # the file of the rows, and that of a mask
        self._seen: dict[str, list[int]] = {}
        self._wanted: np.ndarray | None = None  # (rows,) bool: the rows that need a label; None: all

    def masked(self, mask: str) -> Source:
        name, _, value = mask.partition("=")
        chosen = self._column(name, MASK)
        self._wanted = chosen.equal(value)
        for column in self._named.values():
            column.wanted = self._wanted
        self._files += [path for path in chosen.files if path not in self._files]
        self.remember(self._opens)
        return Masked(self, np.flatnonzero(self._wanted), mask)

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """The number of stored values of these rows (m,), ascending; (m,) int64."""
        return np.full(len(rows), self.features, np.int64)

    def _column(self, name: str, what: tuple[str, str] = LABELS) -> StoredColumn:
        if (name, what) in self._named:  # or another file would be opened each time
            return self._named[name, what]
        with decoding(self.path):
            column, other = open_column(name, self.file, self.path, what)
        if other is not None:
            self._others.append(other)
        if column.length != self.rows:
            raise DataError(
                f"{column.name} has {column.length} entries but {self.name} has {self.rows} rows; they must agree"
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
            raise DataError(f"y has shape {np.shape(self._y)} but {self.name} has {self.rows} rows; they must agree")
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

    def _slices(self, column: StoredColumn, made: OfValues, again: Any) -> ColumnSlices:
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
        return self.numbers(given, WEIGHTS) if isinstance(given, str) else as_weights(given, self.rows, self.name)

    def numbers(self, name: str, what: tuple[str, str]) -> Slices:
        column, noun = self._column(name, what), "sample weights" if what is WEIGHTS else what[0]
        return self._slices(
            column, lambda part: as_weights(part, len(part), column.name, noun), (self.numbers, (name, what))
        )

    def names_bytes(self) -> int:
        return names_bytes(names_column(self.file, self.x, self.path))

    def schema(self) -> dict[str, Any] | None:
        with contextlib.suppress(ValueError):
            told = attribute(self.file, SCHEMA)
            found = json.loads(told) if isinstance(told, str) else None
            if isinstance(found, dict) and self.x == "X":
                return found
        return None

    def feature_names(self) -> np.ndarray | None:
        column = names_column(self.file, self.x, self.path)
        return None if column is None else read_names(column, self.features)

    def files(self) -> list[str]:
        found = list(self._files)
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
        self._seen, self._opens = {path: status_of(path) for path in self.files()}, opens

    def __reduce__(self) -> Any:
        return _again, (self._opens, (self.path, self.x, self._y, self._weight), self._seen, self._wanted)

    def check_unchanged(self) -> None:
        for path, before in self._seen.items():
            if status_of(path)[:4] != before[:4]:  # a link to it may be made
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


def _again(
    opens: Callable[..., Any], given: tuple[Any, ...], seen: dict[str, list[int]],
    wanted: np.ndarray | None,
) -> Source:  # fmt: skip
    """The same source in another process, of another machine too. DataError if its files are other ones now."""
    source: HDF5Source = opens(*given)
    source._wanted = wanted
    for path, before in seen.items():
        if status_of(path)[2:4] != before[2:4]:  # device and inode may have other numbers there
            source.close()
            raise _changed(path)
    return source


def _changed(path: str) -> DataError:
    return DataError(f"{path} was changed during the run; start again, and do not write to it meanwhile")


def _is_name(given: Any) -> bool:
    """Whether a column is in a file, under a given or the default name."""
    return given is None or isinstance(given, str)


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


_POINTERS_AT_ONCE = 1 << 18  # entries of indptr read at a time while planning
_ROW_BYTES = 16  # of indptr and its differences


class CSRHDF5Source(HDF5Source):
    """A group with data, indices, indptr; its shape is the attribute (n, d), or 10x's dataset (d, n)."""

    features: int
    rows: int

    sparse = True

    def __init__(self, file: h5py.File, path: str, x: str, y: Any, sample_weight: Any) -> None:
        super().__init__(file, path, x, y, sample_weight)
        home = look_up(file, x, path)
        group = {part: look_up(home, part, path) for part in ("data", "indices", "indptr", "shape")}
        for part in ("data", "indices", "indptr"):
            if not isinstance(group[part], h5py.Dataset) or group[part].ndim != 1:
                raise DataError(
                    f"{path}: group {x} has no 1-dimensional dataset {part}; sparse rows need data, indices and indptr"
                )
        self.rows, self.features = _shape(home, group["shape"], f"{path}: group {x}")
        if self.features >= 2**31:
            raise DataError(f"{path} has {self.features} columns; at most {2**31 - 1} are supported")
        check_filled(path, self.rows, self.features)
        self.nnz: int = int(group["data"].shape[0])
        if group["indices"].shape != group["data"].shape:
            raise DataError(f"{path}: {x}/indices and {x}/data have different lengths; convert the file again")
        if group["indptr"].shape != (self.rows + 1,):
            raise DataError(
                f"{path}: {x}/indptr has {group['indptr'].shape[0]} entries for {self.rows} rows; it needs rows + 1"
            )
        for part in ("indices", "indptr"):
            kind = stored_dtype(group[part], f"{path}: {x}/{part}")
            if kind.kind not in "iu":
                raise DataError(f"{path}: {x}/{part} holds {kind} but must hold integers; convert the file again")
        self.dtype: np.dtype = value_dtype(stored_dtype(group["data"], f"{path}: {x}/data"), f"{path}: {x}/data")
        self._indptr = RowReader(group["indptr"], np.dtype(np.int64), path)
        self._data = RowReader(group["data"], self.dtype, path, place=self._place)
        stored = group["indices"].dtype
        narrow = np.dtype(np.uint32) if stored == np.uint32 else np.dtype(np.int32)
        self._wide: int = stored.itemsize if stored.itemsize > 4 else 0  # bytes of an index that is checked as stored
        self._indices = RowReader(group["indices"], stored if self._wide else narrow, path, place=self._place)
        self._check_ends()

    def _place(self, entry: int) -> str:
        """The row that has this entry of data and indices, for messages."""
        ends = range(1, self.rows)  # of all rows but the last
        return f"row {bisect.bisect_right(ends, entry, key=lambda end: int(self._stored_pointers(end, end)[0]))}"

    def _stored_pointers(self, start: int, stop: int) -> np.ndarray:
        """indptr[start : stop + 1] as stored, unchecked, int64."""
        out = np.empty(stop - start + 1, np.int64)
        self._indptr.read(start, stop + 1, out)
        return out

    def _pointers(self, start: int, stop: int) -> np.ndarray:
        """indptr[start : stop + 1], int64; DataError if it decreases or exceeds the number of values."""
        out = self._stored_pointers(start, stop)
        fall = first_fall(out)
        if fall >= 0:
            raise DataError(f"{self.path}: {self.x}/indptr decreases at row {start + fall}; convert the file again")
        if out[0] < 0 or out[-1] > self.nnz:
            raise DataError(
                f"{self.path}: {self.x}/indptr of the rows {start}..{stop} exceeds the {self.nnz} stored values; "
                "convert the file again"
            )
        return out

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        found = [np.zeros(0, np.int64)]
        for start in range(0, self.rows, _POINTERS_AT_ONCE):
            low, high = np.searchsorted(rows, (start, start + _POINTERS_AT_ONCE))
            if low < high:
                found.append(
                    np.diff(self._pointers(start, min(self.rows, start + _POINTERS_AT_ONCE)))[rows[low:high] - start]
                )
        return np.concatenate(found)

    def _check_ends(self) -> None:
        first, last = (int(self._stored_pointers(end, end)[0]) for end in (0, self.rows))
        if first != 0 or last != self.nnz:
            raise DataError(
                f"{self.path}: {self.x}/indptr runs from {first} to {last} but there are {self.nnz} values; "
                "it must run from 0 to their number; convert the file again"
            )

    def _nnz_bytes(self) -> int:
        return self.dtype.itemsize + 4 + self._wide

    def held_bytes(self) -> int:
        return self._data.held_bytes + self._indices.held_bytes + self._indptr.held_bytes

    def bounds(self, max_bytes: int) -> np.ndarray:
        # the buffer fits both the block with most values and the block with most rows
        left = max_bytes * 15 // 16
        # with blocks of single rows each would decompress its chunk again
        left = max(left, max(self._data.least_entries, self._indices.least_entries) * self._nnz_bytes())
        bounds = [0]
        while bounds[-1] < self.rows:
            start = bounds[-1]
            part = self._pointers(start, min(self.rows, start + _POINTERS_AT_ONCE))
            found = bounds_by_nnz(part - part[0], self._nnz_bytes(), _ROW_BYTES, left) + start
            # the last block of a piece may continue in the next piece
            whole = found[1:] if found[-1] == self.rows or len(found) == 2 else found[1:-1]
            bounds.extend(int(b) for b in whole)
        return np.array(bounds, np.int64)

    def _largest(self, bounds: np.ndarray) -> int:
        ends = np.array([int(self._pointers(int(b), int(b))[0]) for b in bounds], np.int64)
        return int(np.diff(ends).max())

    def buffer_bytes(self, bounds: np.ndarray) -> int:
        rows = int(np.diff(bounds).max())
        return self._largest(bounds) * self._nnz_bytes() + (rows + 1) * _ROW_BYTES

    def allocate(self, bounds: np.ndarray) -> Buffer:
        nnz = self._largest(bounds)
        scratch = np.empty(nnz * self._wide, np.uint8) if self._wide else None
        return Buffer(np.empty(nnz, self.dtype), np.empty(nnz, np.uint32), scratch=scratch)

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        indptr = self._pointers(start, stop)
        low, high = int(indptr[0]), int(indptr[-1])
        size = high - low
        assert buffer.indices is not None
        if size > len(buffer.data):
            raise DataError(f"{self.path}: {self.x}/indptr changed while it was being read; do not write to the file")
        data, indices = buffer.data[:size], buffer.indices[:size]
        self._data.read(low, high, data)
        indptr -= low
        if self._wide:
            assert buffer.scratch is not None
            wide = buffer.scratch[: size * self._wide].view(self._indices.stored)
            self._indices.read(low, high, wide)
            check_wide(wide, indptr, start, self.features, self.path)
            np.copyto(indices, wide, casting="unsafe")
        else:
            self._indices.read(low, high, indices.view(self._indices.dtype))
        return CSRBlock(data, indices, indptr, self.features, 0.0)

    def layout(self) -> dict[str, Any]:
        found = storage_layout(self._data.dataset, self._data.direct and self._indices.direct)
        return {"format": "hdf5", "sparse": True, "x": self.x, "indices": str(self._indices.stored), **found}

    def close(self) -> None:
        for reader in (self._data, self._indices, self._indptr):
            reader.close()
        super().close()


def _shape(group: h5py.Group, stored: Any, name: str) -> tuple[int, int]:
    """(rows, columns): from the attribute of anndata, or from 10x's dataset, transposed."""
    shape = attribute(group, "shape")
    if shape is None and isinstance(stored, h5py.Dataset) and stored.size == 2:
        shape = np.atleast_1d(stored[()])[::-1]
    if np.shape(shape) != (2,):
        raise DataError(f"{name} has no shape; write it as the attribute shape = (rows, columns)")
    sizes = np.asarray(shape)
    # sizes below 2^62 fit into int64
    if sizes.dtype.kind not in "iuf" or not np.all((sizes >= 0) & (sizes < 2**62) & (sizes == np.floor(sizes))):
        raise DataError(f"{name} has the shape {sizes.tolist()}; it must be two whole numbers, rows and columns")
    return int(sizes[0]), int(sizes[1])


_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def sniff(path: str, start: bytes) -> bool:
    """Whether this is an HDF5 file; a user block may precede the signature."""
    return start.startswith(_SIGNATURE) or h5py.is_hdf5(path)


def open_file(path: str, x: str | None, y: Any, sample_weight: Any) -> Source:
    """The rows called x (default X, or matrix, 10x's name) with their labels and weights."""
    register_filters()
    file = opened(path)
    try:
        with decoding(path):
            source = _open_rows(file, path, x, y, sample_weight)
            source.remember(open_file)
            return source
    except BaseException:
        file.close()
        raise


def encoding_of(group: Any) -> str:
    """The encoding that an HDF5 group declares: csr (the default), csc, or another word."""
    encoding = attribute(group, "encoding-type")
    return "csr" if encoding is None else str(encoding).removesuffix("_matrix")


def _by_row(file: h5py.File, path: str, x: str, y: Any) -> str:
    """How rows stored by column become csr: by anndata, which has X and layers in memory, or by conversion."""
    layer, cells = x.removeprefix("layers/"), attribute(file, "encoding-type") == "anndata"
    place = "cells.X" if x == "X" else f"cells.layers[{layer!r}]"
    known = cells and (x == "X" or layer != x)
    anndata = f"write it again with anndata, after {place} = {place}.tocsr(); or " if known else ""
    carried = cells and isinstance(y, str) and look_up(file, f"obs/{y.removeprefix('obs/')}", path) is not None
    labels = quote(y) if isinstance(y, str) and not carried else None
    return (
        f"{anndata}convert it with: streammargin-data convert {quote(path)} OUT.h5 --x {quote(x)}"
        f"{'' if labels is None else ' --y ' + labels}"
    )


def _open_rows(file: h5py.File, path: str, x: str | None, y: Any, sample_weight: Any) -> HDF5Source:
    wrong: type[DataError] = NoSuchRowsError
    if x is None:
        x, wrong = "X" if has_link(file, "X") or not has_link(file, "matrix") else "matrix", DataError
    node = look_up(file, x, path)
    if node is None:
        above = x.rpartition("/")[0]
        home = look_up(file, above, path) if above else None
        home, above = (home, f"{above}/") if isinstance(home, h5py.Group) and len(home) else (file, "")
        near = "" if wrong is DataError else meant(x, [f"{above}{name}" for name in home])
        layers = look_up(file, "layers", path) if wrong is DataError else None
        inside = layers if isinstance(layers, h5py.Group) else ()
        known = next((f"layers/{name}" for name in inside if str(name).isidentifier()), "NAME")
        raise wrong(
            f"{path} has no dataset {x} of rows; {near}it has {children(home, above)}; name the rows with `x={known}`"
        )
    if isinstance(node, h5py.Dataset):
        return DenseHDF5Source(file, path, x, y, sample_weight)
    if not isinstance(node, h5py.Group):
        raise DataError(f"{path}: {x} is a named type; rows must be a dataset or a csr_matrix group; use `x=NAME`")
    encoding = encoding_of(node)
    if encoding == "csc":
        remedy = _by_row(file, path, x, y)
        raise DataError(f"{path}: {x} is a csc_matrix, which cannot be streamed by row; {remedy}")
    if encoding != "csr":
        raise DataError(
            f"{path}: {x} is a group of encoding {encoding!r}; name a dataset or a csr_matrix with `x=NAME`"
        )
    return CSRHDF5Source(file, path, x, y, sample_weight)


class DenseHDF5Source(HDF5Source):
    """Dataset X (n, d) of floats or integers; other types than float32/64 are converted block by block."""

    sparse = False

    def __init__(self, file: h5py.File, path: str, x: str, y: Any, sample_weight: Any) -> None:
        super().__init__(file, path, x, y, sample_weight)
        dataset = look_up(file, x, path)
        if dataset.shape is None or dataset.ndim != 2:
            raise DataError(f"{path}: {x} has the shape {dataset.shape}; rows must be a 2-dimensional dataset")
        self.rows: int = int(dataset.shape[0])
        self.features: int = int(dataset.shape[1])
        self.nnz: int = self.rows * self.features
        check_filled(path, self.rows, self.features)
        self.dtype: np.dtype = value_dtype(stored_dtype(dataset, f"{path}: {x}"), f"{path}: {x}")
        self._reader = RowReader(dataset, self.dtype, path)

    @property
    def _row_bytes(self) -> int:
        return self.features * self.dtype.itemsize

    def held_bytes(self) -> int:
        return self._reader.held_bytes

    def bounds(self, max_bytes: int) -> np.ndarray:
        # with blocks of single rows each would decompress its chunk again
        rows = max(max_bytes // self._row_bytes, min(self._reader.least_entries, self.rows))
        chunk = self._reader.chunk_rows
        if rows > chunk:
            rows -= rows % chunk
        return np.append(np.arange(0, self.rows, rows, dtype=np.int64), self.rows)

    def buffer_bytes(self, bounds: np.ndarray) -> int:
        rows = int(np.diff(bounds).max())
        return rows * self._row_bytes

    def allocate(self, bounds: np.ndarray) -> Buffer:
        rows = int(np.diff(bounds).max())
        return Buffer(np.empty((rows, self.features), self.dtype))

    def read(self, start: int, stop: int, buffer: Buffer) -> Block:
        self._reader.read(start, stop, buffer.data)
        return DenseBlock(buffer.data[: stop - start], 0.0)

    def layout(self) -> dict[str, Any]:
        found = storage_layout(self._reader.dataset, self._reader.direct)
        return {"format": "hdf5", "sparse": False, "x": self.x, **found}

    def close(self) -> None:
        self._reader.close()
        super().close()
