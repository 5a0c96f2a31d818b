"""Several tables one after the other; and folders of tables, where names like key=value on the way are columns."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from urllib.parse import unquote

from streammargin.arrow import pa
from streammargin.errors import DataError
from streammargin.sources.names import all_of, listed
from streammargin.tables.formats import parts_of
from streammargin.tables.header import is_stored_index
from streammargin.tables.readers.arrow import ALL_GROUPS, of_parquet
from streammargin.tables.readers.base import USUAL, Reader, Room
from streammargin.wording import one_line, warn

# (file, keys, names that its first line has if the first file has any, None for that file) -> its reader
Opened = Callable[[str, frozenset[str], frozenset[str] | None], Reader]
NO_FOLDER_VALUE = "__HIVE_DEFAULT_PARTITION__"  # the value of a folder whose rows have none


def of_folder(path: str, room: Room = USUAL, chosen: slice = ALL_GROUPS, opened: Opened | None = None) -> Reader:
    """A reader of all files below a folder, by their paths in order; names like key=value are columns.

    chosen: those that are read. opened: opens a file; None: all are Parquet. Raises DataError, InputMissingError.
    """
    files = parts_of(path, chosen, told=chosen == ALL_GROUPS)
    keys = [_keys(file, path) for file in files]
    name = path if chosen == ALL_GROUPS else files[chosen][0]
    opened = opened or (lambda path, keys, names: of_parquet(path, room))
    return Folder(name, files[chosen], keys[chosen], _types(keys), opened)


def keyed(paths: Sequence[str]) -> str:
    """The folder of these files and folders below which names are like key=value; "" if there are no such names."""
    folders = [path if os.path.isdir(path) else os.path.dirname(path) for path in map(os.path.abspath, paths)]
    base = os.path.commonpath(folders)
    while "=" in os.path.basename(base):
        base = os.path.dirname(base)
    return base if any("=" in os.path.relpath(folder, base) for folder in folders) else ""


def of_parts(paths: Sequence[str], base: str, opened: Opened) -> Reader:
    """A reader of these files and folders, in order; names like key=value below `base` are columns."""
    files = [file for path in paths for file in (parts_of(path, told=True) if os.path.isdir(path) else [path])]
    keys = [_keys(os.path.abspath(file), base) for file in files]
    return Folder(f"{paths[0]} and {len(paths) - 1} more", files, keys, _types(keys), opened)


def _keys(path: str, base: str) -> dict[str, str]:
    """The keys and values in the names of the folders between a file and its base."""
    parts = os.path.relpath(path, base).split(os.sep)[:-1]
    return {unquote(key): unquote(value) for key, mark, value in (part.partition("=") for part in parts) if mark}


def _types(keys: Sequence[Mapping[str, str]]) -> dict[str, pa.DataType]:
    """The type of each key: whole numbers if all its values are, else text."""
    values: dict[str, set[str]] = {}
    for each in keys:
        for name, value in each.items():
            values.setdefault(name, set()).add(value)
    return {name: _type(found - {NO_FOLDER_VALUE}) for name, found in values.items()}


def _type(values: set[str]) -> pa.DataType:
    if not values or not all(re.fullmatch(r"-?[0-9]{1,18}", value) for value in values):
        return pa.string()
    return pa.int32() if all(abs(int(value)) < 1 << 31 for value in values) else pa.int64()


class ChainedReaders(Reader):
    """The rows of several readers, which must have the same columns, in any order. Raises DataError.

    name: of all of them; "": made of theirs.
    """

    def __init__(self, readers: Sequence[Reader], name: str = "") -> None:
        first = readers[0]
        self.readers: Sequence[Reader] = readers
        self.take_after(first)
        self.typed: bool = all(reader.typed for reader in readers)
        self.name: str = name or f"{first.name} and {len(readers) - 1} more"
        self._at, self._rows = first, 0  # the reader of the latest batch, and the rows before its first
        lacking: set[str] = set()  # the index of some of the frames that were written
        for other in readers[1:]:
            if other.columns is first.columns:  # there may be very many
                continue
            apart = set(other.columns) ^ set(first.columns)
            lacking |= set(filter(is_stored_index, apart))
            apart -= lacking
            if apart or other.named != first.named:
                what = listed(sorted(apart)) if apart else "a header"
                raise DataError(f"{first.name} and {other.name} differ by {what}; give all tables the same columns")
        self.columns: list[str] = [name for name in first.columns if name not in lacking]

    def batches(self, columns: Sequence[str], words: frozenset[str]) -> Iterator[pa.RecordBatch]:
        self._rows = 0
        for reader in self.readers:
            self._at, rows = reader, 0
            for batch in reader.batches(columns, words):
                yield batch
                rows += batch.num_rows
            self._rows += rows

    @property
    def numeric(self) -> frozenset[str]:
        return frozenset.intersection(*(reader.numeric for reader in self.readers))

    @property
    def categories(self) -> frozenset[str]:
        return frozenset.union(*(reader.categories for reader in self.readers))

    def parts(self) -> Iterable[Reader]:
        return [part for reader in self.readers for part in reader.parts()]

    def place(self, row: int) -> str:
        return f"{self._at.place(row - self._rows)} of {self._at.name}"

    def files(self) -> list[str]:
        return [file for reader in self.readers for file in reader.files()]

    def fingerprint(self) -> str:
        return super().fingerprint() if all(reader.files() for reader in self.readers) else ""


class Folder(ChainedReaders):
    """The rows of files that are shards of one table, with the same columns; keys: columns of names of folders.

    types: of the keys. first: the first file; more: columns that were said to be left out.
    """

    def __init__(
        self, name: str, files: Sequence[str], keys: Sequence[Mapping[str, str]], types: Mapping[str, pa.DataType],
        opened: Opened,
    ) -> None:  # fmt: skip
        own = frozenset(types)
        self.first = first = opened(files[0], own, None)
        line = frozenset(first.columns if first.named else ())
        self.opened: Callable[[str], Reader] = lambda path: opened(path, own, line)
        self.keys, self._keys = types, keys
        self.more: set[str] = set()
        if twice := [key for key in types if key in first.columns]:
            warn(f"{first.name} has columns that names of folders have, too, and these names count: {all_of(twice)}")
        self.columns = [*first.columns, *(key for key in types if key not in first.columns)]
        self.types = {**first.types, **types} if first.types else first.types
        super().__init__([Shard(file, each, self) for file, each in zip(files, keys, strict=True)], name)

    @property
    def numeric(self) -> frozenset[str]:
        return self.first.numeric.difference(self.keys)  # these have their zeros, as text

    @property
    def categories(self) -> frozenset[str]:
        return self.first.categories.difference(self.keys)

    def fingerprint(self) -> str:
        found = super().fingerprint()  # which has no names, and keys are in these
        return f"{found} {self._keys}" if found and any(self._keys) else found


class Shard(Reader):
    """A file of a folder, with the columns of all of them, opened when its rows are read.

    keys: key -> value of this file. Raises DataError.
    """

    def __init__(self, path: str, keys: Mapping[str, str], of: Folder) -> None:
        self.name: str = path
        self.columns, self.types = of.columns, of.types
        self.named, self.typed, self.gaps = of.first.named, of.first.typed, of.first.gaps
        self._keys, self._of, self._at = keys, of, of.first

    def batches(self, columns: Sequence[str], words: frozenset[str]) -> Iterator[pa.RecordBatch]:
        reader = self._at = self._of.opened(self.name)
        self._check(reader, columns)
        stored = [name for name in columns if name not in self._keys]
        for batch in reader.batches(stored or reader.columns[:1], words):
            beside = dict(zip(stored, batch.columns, strict=False))
            arrays = [beside[name] if name in beside else self._key(name, batch.num_rows, words) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _check(self, reader: Reader, columns: Sequence[str]) -> None:
        first = self._of.first
        if reader.named != first.named:
            raise DataError(f"{first.name} and {self.name} differ by a header; give all files the same columns")
        if reader.columns == first.columns and len(self._keys) == len(self._of.keys):
            return
        here = {*reader.columns, *self._keys}
        lacking = [name for name in columns if name not in here]
        if lacking:
            raise DataError(
                f"{self.name} lacks the column {one_line(lacking[0])}, which other files here have; add it, or move "
                "the file elsewhere"
            )
        more = sorted(name for name in here.difference(self.columns, self._of.more) if not is_stored_index(name))
        if more:
            warn(f"{self.name} has the column {one_line(more[0])}, which {first.name} lacks; it is left out", "columns")
            self._of.more.update(more)

    def _key(self, name: str, rows: int, words: frozenset[str]) -> pa.Array:
        """The value of a key in each row; as text it is the one in the name, with its zeros."""
        value, type_ = self._keys[name], pa.string() if name in words else self._of.keys[name]
        known = None if value == NO_FOLDER_VALUE else value if pa.types.is_string(type_) else int(value)
        return pa.repeat(pa.scalar(known, type_), rows)

    def place(self, row: int) -> str:
        return self._at.place(row)

    def files(self) -> list[str]:
        return [self.name]
