"""Columns beside the rows: labels, weights and names of columns. Text of variable length is read without HDF5.

They are datasets of an HDF5 file, columns of anndata's obs, or .npy files. Names of columns are anndata's table `var`,
a dataset `feature_names`, or 10x's feature ids.
"""

from __future__ import annotations

import contextlib
import posixpath
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import h5py
import numpy as np

from streammargin.errors import DataError, MisnamedError, StreamMarginError
from streammargin.files import check_input, short_reason
from streammargin.sources.base import OfValues
from streammargin.sources.hdf5.heap import Heap
from streammargin.sources.hdf5.nodes import attribute, children, decoding, look_up, opened
from streammargin.sources.hdf5.reader import Read, RowReader, check_stored, stored_dtype
from streammargin.sources.kinds import column_saved
from streammargin.sources.labels import as_values, is_text, mended, output_names
from streammargin.sources.names import as_names
from streammargin.sources.npy import NpyArray
from streammargin.stored import equal
from streammargin.wording import meant

_REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("number", "<u4")])
_ENTRIES_AT_ONCE = 1 << 16
_FEW = 1 << 12  # references as objects take 160 bytes each


def not_utf8(name: str, row: int, error: UnicodeDecodeError) -> DataError:
    """The error for a text in another encoding."""
    return DataError(
        f"{name}: the text of row {row} is not valid UTF-8 ({error.reason}); write the column again as UTF-8: if it is "
        "Latin-1, convert its text file after: iconv -f LATIN1 -t UTF-8 IN > OUT"
    )


def utf8(values: np.ndarray, name: str, start: int) -> np.ndarray:
    """Bytes (m,) as str; start: the row of the first. Raises DataError if one is not UTF-8."""
    try:
        return np.char.decode(values, "utf-8")
    except UnicodeDecodeError:
        for k, value in enumerate(values.tolist()):
            try:
                value.decode("utf-8")
            except UnicodeDecodeError as error:
                raise not_utf8(name, start + k, error) from None
        raise


class TextReader:
    """Entries start..stop of a 1-dimensional dataset of strings. Raises DataError if one is damaged."""

    def __init__(self, dataset: h5py.Dataset, path: str, name: str) -> None:
        self.name: str = name
        self._heap = Heap(dataset.file)
        self._reader = RowReader(dataset, np.dtype((np.void, _REFERENCE.itemsize)), path, raw=True, keep=True)
        if not self._reader.located and self._reader.length:
            self._reader.close()
            raise DataError(
                f"{name} has strings of variable length that cannot be checked (never written, or compressed by an "
                "unknown filter); write the column again"
            )

    @property
    def held_bytes(self) -> int:
        """Bytes that reading needs besides the result."""
        return self._reader.held_bytes

    def text_bytes(self) -> int:
        """Bytes of all strings, from their references, without reading them."""
        total = 0
        for start in range(0, self._reader.length, _ENTRIES_AT_ONCE):
            raw = np.empty(min(_ENTRIES_AT_ONCE, self._reader.length - start), self._reader.dtype)
            self._reader.read(start, start + len(raw), raw)
            total += int(raw.view(_REFERENCE)["length"].sum(dtype=np.int64))
        return total

    def read(self, start: int, stop: int) -> np.ndarray:
        """The strings (stop - start,), as objects."""
        found = np.empty(stop - start, object)
        same: dict[str, str] = {}  # labels are few words many times
        for low in range(start, stop, _FEW):
            raw = np.empty(min(_FEW, stop - low), self._reader.dtype)
            self._reader.read(low, low + len(raw), raw)
            for k, reference in enumerate(raw.view(_REFERENCE).tolist(), low):
                try:
                    text = self._heap.text(reference)
                except ValueError as error:  # UnicodeDecodeError is a ValueError
                    if isinstance(error, UnicodeDecodeError):
                        raise not_utf8(self.name, k, error) from None
                    raise DataError(
                        f"{self.name}: the text of row {k} cannot be read ({error}); the file may be damaged"
                    ) from error
                found[k - start] = same.setdefault(text, text)
        return found

    def close(self) -> None:
        self._reader.close()


OBS = "obs"  # anndata's table with one entry per row
BARCODE, CELLS = "barcode", "matrix/barcodes"  # how users call names of cells, and where 10x has them
SHOWN_COLUMN_NAMES = 20  # in a message
AGAIN = "if anndata before 0.7 wrote it, read and write it with a newer one; else write its columns as datasets"
OUTPUTS = "outputs"  # a dataset beside labels (n, outputs): the names of their columns
CATEGORIES = 16 << 20  # most bytes of category names; at most 32,767 of them may occur in rows
LABELS, WEIGHTS = ("labels", "y"), ("weights", "sample_weight")  # (noun, option)


class StoredColumn:
    """A column of n values, read in pieces: a dataset, an array, or a group of anndata.

    The group is a categorical column (codes, categories) or a nullable one (values, mask).

    `files`  those that contain its values, if that of the rows does not.
    `width`  the number of columns of a dataset or array (n, width), if `wide` allows it; else None.
    """

    def __init__(self, node: Any, name: str, files: Sequence[str] = (), wide: bool = False) -> None:
        self.name = name
        self.files = files
        self.categories: np.ndarray | None = None
        self.mask: h5py.Dataset | None = None
        self.wanted: np.ndarray | None = None  # (n,) bool: the rows that must have a value; None: all
        parts = set(node) if isinstance(node, h5py.Group) else set()
        if {"codes", "categories"} <= parts:
            self.categories = _all(look_up(node, "categories", name), name)
            node = look_up(node, "codes", name)
        elif {"values", "mask"} <= parts:
            self.mask = look_up(node, "mask", name)
            node = look_up(node, "values", name)
        elif isinstance(node, h5py.Dataset):
            link = attribute(node, "categories")  # anndata before 0.8
            if isinstance(link, h5py.Reference):
                place = h5py.h5r.get_name(link, node.file.id) or b""
                self.categories = _all(look_up(node.file, place.decode(), name), name)
        if isinstance(node, h5py.Group):
            raise DataError(
                f"{name} is a group, not a column; name a column in it with `y={node.name[1:]}/NAME`; it has "
                f"{children(node)}"
            )
        if node is None or node.shape is None or node.ndim not in ((1, 2) if wide else (1,)) or 0 in node.shape[1:]:
            shape = None if node is None else node.shape
            also = " or (rows, outputs)" if wide else ""
            raise DataError(f"{name} has the shape {shape}; store it as one column, of shape (rows,){also}")
        if isinstance(node, h5py.Dataset):
            fields = stored_dtype(node, name).names
            if fields is not None:
                raise DataError(f"{name} is a table of {', '.join(fields)}; {AGAIN}")
            check_stored(node, name)
        if node.ndim == 2 and node.dtype.kind not in "biuf":
            raise DataError(
                f"{name} has {node.shape[1]} columns of text; labels of several columns are numbers, and of classes "
                "0 or 1"
            )
        self.data = node
        self.length: int = int(node.shape[0])
        self.width: int | None = int(node.shape[1]) if node.ndim == 2 else None
        if self.categories is not None and self.data.dtype.kind not in "iu":
            raise DataError(f"{name}: its codes are {self.data.dtype}, not whole numbers; write the column again")
        if self.mask is not None and (self.mask.shape != node.shape or self.mask.dtype.kind not in "biu"):
            raise DataError(f"{name}: its mask does not fit a column of {self.length} values; write the column again")

    @property
    def held_bytes(self) -> int:
        """Bytes that reading it needs."""
        total = 0
        for node in (self.data, self.mask):
            if isinstance(node, h5py.Dataset):
                with contextlib.closing(_reader(node, self.name)) as reader:
                    total += reader.held_bytes
        return total

    def text_bytes(self) -> int:
        """Bytes of its strings, computed before they are read; categories count once each."""
        if self.categories is not None:
            return sum(len(str(category).encode()) for category in self.categories.tolist())
        if isinstance(self.data, h5py.Dataset):
            with contextlib.closing(_reader(self.data, self.name)) as reader:
                if isinstance(reader, TextReader):
                    return reader.text_bytes()
        return self.length * (self.width or 1) * self.data.dtype.itemsize

    @property
    def kind(self) -> str:
        """The kind of its values if they are numbers or categories, else "": text takes long to read again."""
        if self.categories is not None and is_text(categories := as_values(self.categories)):
            return "U"
        kind = str((self.data if self.categories is None else categories).dtype.kind)
        return kind if kind in "biuf" else ""

    def chunks(self, size: int) -> Iterator[np.ndarray]:
        """The values in order, about `size` at a time; text as str."""
        size = max(1, size // (self.width or 1))
        with contextlib.closing(ColumnSlices(self)) as column:
            for start in range(0, self.length, size):
                yield column[start : start + size]

    def equal(self, value: str) -> np.ndarray:
        """Which rows have this value (n,) bool; a number equals its text, and a row without a value has none."""
        self.wanted = np.zeros(self.length, bool)
        of_categories = self.categories
        places = None if of_categories is None else np.flatnonzero(equal(of_categories, value))
        self.categories = None  # read the codes
        try:
            same = [equal(part, value) if places is None else np.isin(part, places) for part in self.chunks(1 << 16)]
        finally:
            self.categories = of_categories
        return np.concatenate(same) & (True if self.mask is None else ~self.mask[:].astype(bool))

    def names(self) -> list[str]:
        """The names of its columns: those of the dataset OUTPUTS beside it, or y0, y1, ..."""
        count = self.width or 1
        beside = look_up(self.data.parent, OUTPUTS, self.name) if isinstance(self.data, h5py.Dataset) else None
        if not isinstance(beside, h5py.Dataset) or beside.shape != (count,):
            return output_names(count)
        column = StoredColumn(beside, f"{self.name}, {OUTPUTS}")
        return as_names([name for part in column.chunks(1 << 16) for name in part.tolist()], column.name).tolist()


class ColumnSlices:
    """The values of a column, or what `made` makes of them, read at each use; of categories it is made once.

    It may hold a chunk for the next use. This is freed, and files are closed, once nobody has the object any more.
    """

    def __init__(self, column: StoredColumn, made: OfValues = np.asarray, again: Any = None) -> None:
        """again: a function and its arguments that make the same in another process."""
        self.column: StoredColumn = column
        self.made: OfValues = made
        self._again = again
        stack = contextlib.ExitStack()
        self.close: Callable[[], Any] = weakref.finalize(self, stack.close)
        self._read: Read = _reading(column.data, column.name, stack)
        self._masked = None if column.mask is None else _reading(column.mask, column.name, stack)
        self._of = None if column.categories is None else made(column.categories)

    def __reduce__(self) -> Any:
        return self._again

    def __len__(self) -> int:
        return self.column.length

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(len(self))
        name, categories = self.column.name, self.column.categories
        try:
            part = self._read(start, stop)
            missing = None if self._masked is None else self._masked(start, stop)
        except (OSError, RuntimeError, ValueError, TypeError) as error:
            if isinstance(error, StreamMarginError):
                raise
            raise DataError(f"{name} cannot be read ({short_reason(error)}); the file may be damaged") from error
        if categories is not None:
            missing = (part < 0) | (part >= len(categories))
        if missing is not None and self.column.wanted is not None:
            part = np.where(missing, part.dtype.type(0), part)
            missing = missing & self.column.wanted[start:stop]
        if missing is not None and np.any(missing):
            row = start + int(np.flatnonzero(missing)[0])
            _, of_cells, key = name.rpartition(": obs/")
            how = f"anndata by cells[cells.obs[{key!r}].notna()].write_h5ad('kept.h5ad')" if of_cells else ""
            end = mended(int(np.count_nonzero(missing)), "value", how=how)
            raise DataError(f"{name}: row {row} has no value{end}")
        if self._of is not None:  # without categories no row has a value, and no row is wanted
            return self._of[part] if len(self._of) else np.zeros(len(part), self._of.dtype)
        part = np.asarray(part)
        if self.column.width == 1:
            part = part[:, 0]
        if part.dtype.metadata:  # the names of an HDF5 enumeration, which NumPy cannot handle
            part = part.view(np.dtype(part.dtype.str))
        return self.made(part)


def _reader(node: h5py.Dataset, name: str) -> RowReader | TextReader:
    path = node.file.filename
    info = h5py.check_string_dtype(node.dtype)
    if info is not None and info.length is None:
        with decoding(path):
            return TextReader(node, path, name)
    if node.dtype.hasobject:
        raise DataError(f"{name} has lists or references as values; each row needs one number or string")
    return RowReader(node, node.dtype, path, keep=True)


def _reading(node: Any, name: str, stack: contextlib.ExitStack) -> Read:
    """A function (start, stop) -> entries of a column, text as str. The stack closes what it opens."""
    if not isinstance(node, h5py.Dataset):
        return lambda start, stop: node[start:stop]
    reader = _reader(node, name)
    stack.callback(reader.close)
    if isinstance(reader, TextReader):
        return reader.read

    def read(start: int, stop: int) -> np.ndarray:
        values = np.empty((stop - start, *node.shape[1:]), reader.dtype)
        reader.read(start, stop, values)
        # h5py declares NumPy's bytes as ASCII, whatever they contain
        return utf8(values, name, start) if values.dtype.kind == "S" else values

    return read


def _all(node: Any, name: str) -> np.ndarray:
    """All values of a short column. DataError for one that declares to be long."""
    column = StoredColumn(node, name)
    if column.length * column.data.dtype.itemsize > CATEGORIES:
        raise DataError(f"{name} has {column.length} categories, too many for labels; remove unused categories")
    parts = list(column.chunks(1 << 16))
    return np.concatenate(parts) if parts else np.empty(0)


def _within(home: Any, name: str, path: str, wide: bool, files: Sequence[str] = ()) -> StoredColumn | None:
    """The column NAME in a file: a dataset or group, or else a column NAME of anndata's obs.

    `barcode` is also 10x's dataset of them, or the index of obs.

    wide, files: as of `StoredColumn`.
    """
    for full in (name, f"{OBS}/{name}", *([CELLS] if name == BARCODE else ())):
        node = look_up(home, full, path)
        if node is not None:
            return StoredColumn(node, f"{path}: {full}", files, wide=wide)
    if name == BARCODE:
        place, node = _index(home, look_up(home, OBS, path), OBS, path)
        if node is not None:
            return StoredColumn(node, f"{path}: {place}", files, wide=wide)
    return None


def _choice(home: h5py.Group, noun: str, path: str, asked: str) -> str:
    """The names in a file, those that could be such a column, and the one like that asked for, for messages."""
    with decoding(path):
        labels = LABELS[1] if noun == WEIGHTS[0] else None  # `y` is not a candidate for weights
        names = [name for name in home if name != labels and _is_column(home, name, path)]
        obs = look_up(home, OBS, path)
        if isinstance(obs, h5py.Group):
            index = attribute(obs, "_index")
            names += [f"{OBS}/{name}" for name in obs if name != index and _is_column(obs, name, path)]
    more = ", ..." if len(names) > SHOWN_COLUMN_NAMES else ""
    old = f"; {OBS} is a table in one dataset; {AGAIN}" if isinstance(obs, h5py.Dataset) else ""
    could = f"; {noun} could be {', '.join(sorted(names)[:SHOWN_COLUMN_NAMES])}{more}" if names else ""
    return f"{meant(asked, names)}it has {children(home)}{could}{old}"


def _is_column(home: h5py.Group, name: str | bytes, path: str) -> bool:
    """Whether a node looks like one value per row; its values are not read."""
    node = None
    if isinstance(name, str):  # bytes: not UTF-8
        with contextlib.suppress(StreamMarginError):  # a dangling link
            node = look_up(home, name, path)
    if isinstance(node, h5py.Group):
        return {"codes", "categories"} <= set(node) or {"values", "mask"} <= set(node)
    return isinstance(node, h5py.Dataset) and node.shape is not None and node.ndim == 1 and node.dtype.names is None


def open_column(name: str, home: h5py.File, path: str, what: tuple[str, str] = LABELS) -> tuple[StoredColumn, Any]:
    """(column, file to close or None) for NAME in the file of the rows, FILE:NAME, or FILE.npy.

    what: LABELS or WEIGHTS, for messages: what it is called, and the option, or OPTION=WORD: of a field. Raises
    InputMissingError for a missing file, DataError for a missing dataset.
    """
    wide = what == LABELS
    column = _within(home, name, path, wide)
    if column is not None:
        return column, None
    noun, (option, _, word) = what[0], what[1].partition("=")
    if name.endswith(".npy"):
        check_input(name)
        return StoredColumn(NpyArray(name, noun), name, [name], wide=wide), None
    file_name, colon, inner = name.rpartition(":")
    if colon:
        check_input(file_name, f"file ({noun} are named NAME or FILE:NAME)")
        if command := column_saved(file_name, inner):
            raise DataError(f"{file_name} is a table, and {noun} in another file are FILE:NAME of HDF5, or a FILE.npy "
                            f"in the order of the rows; write the column with: {command}")  # fmt: skip
        other = opened(file_name, f"{noun} are named NAME or FILE:NAME")
        try:
            column = _within(other, inner, file_name, wide, [file_name]) if inner else None
            if column is None:
                choice = _choice(other, noun, file_name, inner)
                raise MisnamedError(f"{file_name} has no dataset {inner}; {choice}; name one as FILE:NAME")
            return column, other
        except BaseException:
            other.close()
            raise
    usual = name == LABELS[1]  # if no name is given
    raise (DataError if usual else MisnamedError)(
        f"{path} has no {noun} under the name {name}; {_choice(home, noun, path, '' if usual else name)}; "
        f"name one with `{option}={word}NAME` or `{option}={word}FILE:NAME`"
    )


VAR = "var"  # anndata's table with one entry per column
LIST = "feature_names"  # a dataset beside X
LAYERS = "layers"  # anndata's group of other matrices with the same rows and columns as X
NAME_BYTES = 96  # memory of one name: the reference, the object, and the allocator's rounding
MOST_OF_TEXT = 4  # most bytes in memory per byte of UTF-8


def write_names(file: h5py.Group, names: np.ndarray) -> None:
    """Write the column names (d,) of X as anndata's `var`."""
    group = file.create_group(VAR)
    group.attrs["encoding-type"], group.attrs["encoding-version"] = "dataframe", "0.2.0"
    group.attrs["_index"], group.attrs["column-order"] = "_index", np.empty(0)
    index = group.create_dataset("_index", data=np.asarray(names, object), dtype=h5py.string_dtype())
    index.attrs["encoding-type"], index.attrs["encoding-version"] = "string-array", "0.2.0"


def names_column(file: h5py.File, x: str, path: str) -> StoredColumn | None:
    """The column names of the rows x, or None if the file has none."""
    with decoding(path):
        for place in _places(file, x, path):
            node = look_up(file, place, path)
            if posixpath.basename(place) == VAR:
                place, node = _index(file, node, place, path)
            if node is not None:
                return StoredColumn(node, f"{path}: {place}")
    return None


def names_bytes(column: StoredColumn | None) -> int:
    """Most bytes that the names and reading them need, computed without reading them."""
    if column is None:
        return 0
    with decoding(column.name):
        return NAME_BYTES * column.length + MOST_OF_TEXT * column.text_bytes() + column.held_bytes


def read_names(column: StoredColumn, features: int) -> np.ndarray:
    """The names (d,) as objects. Raises DataError if they are not d strings."""
    if column.length != features:
        raise DataError(
            f"{column.name} has {column.length} names but there are {features} columns; they must agree, "
            "so write the file again"
        )
    parts = []
    for part in column.chunks(_ENTRIES_AT_ONCE):
        whole = part.dtype.kind in "iu"  # some writers number the columns instead of naming them
        parts.append(as_names((part.astype(str) if whole else part).tolist(), column.name))
    return np.concatenate(parts)


def _places(file: h5py.File, x: str, path: str) -> list[str]:
    """Paths where the names may be, in order; empty for matrices with other columns, such as those of obsm."""
    home, _, leaf = x.strip("/").rpartition("/")
    if leaf == "X" or home == LAYERS:
        home = "" if home == LAYERS else home
        return [posixpath.join(home, VAR), posixpath.join(home, LIST)]
    inside = isinstance(look_up(file, x, path), h5py.Group)  # 10x, new and old
    return [f"{x}/features/id", f"{x}/genes"] if inside else []


def _index(file: h5py.File, table: Any, place: str, path: str) -> tuple[str, Any]:
    """The index column of anndata's table; None if `table` is not such a table."""
    if isinstance(table, h5py.Group):
        name = attribute(table, "_index")
        place = f"{place}/{name}"
        node = None if name is None else look_up(file, place, path)
        if node is None and name is not None:
            raise DataError(f"{path} has no {place} with its names; write it again with anndata")
        return place, node
    return place, None
