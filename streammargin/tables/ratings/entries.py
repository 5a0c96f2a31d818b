"""Read the entries of a matrix front to back: names of rows and columns, and values, some thousand at a time.

Names are numbered as they come, and then in order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from streammargin.arrow import pa, pc
from streammargin.errors import DataError, MisnamedError, UsageError
from streammargin.files import no_file, temporary_folder
from streammargin.matching import unpointed
from streammargin.sources.kinds import first_bytes, kind_of
from streammargin.sources.names import listed
from streammargin.sources.open import check_file
from streammargin.tables.formats import format_of, is_matrix, is_table
from streammargin.tables.header import is_number, may_be_index
from streammargin.tables.matrices.base import How
from streammargin.tables.matrices.open import open_matrix
from streammargin.tables.open import open_table
from streammargin.tables.readers.base import Reader, Room
from streammargin.wording import meant, note, one_line, short, shown, warn

EACH = 120  # bytes of a name in memory, beside its text
UNKNOWN = -1


class Names:
    """Text of names, each with its number. noun: row, or column.

    If all are whole numbers, also with zeros behind a point, these zeros are left out (`unpointed`).
    """

    def __init__(self, noun: str, known: list[str] | None = None) -> None:
        self.noun, self.open = noun, known is None
        self._whole = known is not None and all(map(is_whole, known))
        self.numbers = {name: number for number, name in enumerate(known or [])}
        self.nbytes = sum(map(len, self.numbers)) + EACH * len(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def listed(self) -> list[str]:
        """All names, by their numbers."""
        return list(self.numbers)

    def sort(self) -> np.ndarray:
        """Number them anew, whole numbers by size and text by its letters; returns the new number of each one.

        After that no new one is known.
        """
        self.open = False
        names = [unpointed(name) for name in self.listed]
        self._whole = all(map(is_whole, names))
        names = names if self._whole else self.listed
        order = sorted(set(names), key=int) if self._whole else sorted(names)
        self.numbers = {name: number for number, name in enumerate(order)}
        return np.array([self.numbers[name] for name in names], np.int64)

    def codes(self, names: pa.Array, where: str) -> np.ndarray:
        """The numbers (m,) int64 of names (m,); new names get one each. DataError for a new one if all are known."""
        found = names if isinstance(names, pa.DictionaryArray) else names.dictionary_encode()
        texts = map(str, found.dictionary.to_pylist())
        codes = np.array([self._of(text) for text in texts], np.int64)[np.asarray(found.indices)]
        bad = np.flatnonzero(codes == UNKNOWN)
        if bad.size:
            name = str(names[int(bad[0])].as_py())
            raise DataError(
                f"{where}: the {self.noun} {shown(name)} had no rating in the training, so nothing is known of it; "
                "drop it, or train with ratings of it"
            )
        return codes

    def _of(self, text: str) -> int:
        number = self.numbers.get(text)
        if number is None and self._whole and not self.open:
            number = self.numbers.get(unpointed(text))
        if number is None and self.open:
            if "\0" in text:  # which separates names in the model file
                raise DataError(f"the name {shown(text)} of a {self.noun} has a NUL character; rename it")
            number = self.numbers[text] = len(self.numbers)
            self.nbytes += len(text) + EACH
        return UNKNOWN if number is None else number


def is_whole(text: str) -> bool:
    """Whether this is a whole number in its shortest spelling."""
    try:
        return text == str(int(text))
    except ValueError:
        return False


ENTRY_PIECE = 1 << 17  # entries at a time
WHOLE_NAME_LIMIT = 2.0**63  # of names that are whole numbers
THREE = "row, column and value"
ROLES = ("rows", "columns", "ratings")


class SomeEntries(NamedTuple):
    """Some entries: names of their rows and columns (m,), and values (m,) float64, or None of pairs alone."""

    rows: pa.Array
    columns: pa.Array
    values: np.ndarray | None


class Entries:
    """Entries of a file, a table, a SciPy matrix, or of arrays (rows, columns, values).

    `columns`  names of the two columns with rows and columns of the matrix.
    `y`        that of the values. By default these are the first three of a table.
    `values`   whether there are values. Else pairs are read.
    `like`     the names of the three in the training, which are looked for first.
    `shape`    that of a matrix, whose rows have no names.
    `names`    those that were read.
    """

    shape: tuple[int, int] | None = None
    names: Sequence[str] = ()
    reader: Reader | None = None

    def __init__(
        self, data: Any, columns: Sequence[str] | None = None, y: object = None, memory: int = 256 << 20,
        values: bool = True, like: Sequence[str] = (),
    ) -> None:  # fmt: skip
        if columns is not None and len(columns) != 2:
            raise UsageError(
                f"`columns` names two columns, those of rows and columns of the matrix, not {len(columns)}"
            )
        if y is not None and not isinstance(y, str):
            raise UsageError(f"`y` is the name of the column of ratings, not {shown(y)}")
        asked = [*(columns or ()), *([] if y is None else [y])]
        if len(set(asked)) < len(asked):
            raise UsageError("`columns` and `y` name three different columns: rows, columns and ratings")
        self.data, self.columns, self.y, self.memory, self.wanted = data, columns, y, memory, values
        self.like = like if columns is None else ()
        self.paths = _paths(data)
        self.name: str = ", ".join(self.paths) if self.paths else "the ratings"
        if hasattr(data, "tocoo"):
            self.shape = int(data.shape[0]), int(data.shape[1])

    def parts(self, stack: ExitStack) -> Iterator[SomeEntries]:
        """The entries in order. Raises DataError, InputMissingError, UsageError."""
        for path in self.paths:
            if not os.path.isdir(path):
                check_file(path)  # a pipe would be opened to see what it is
        if self.shape is not None:
            yield from self._of_matrix()
        elif isinstance(self.data, tuple):
            yield from self._of_arrays(self.data)
        elif is_matrix(self.data):
            yield from self._of_file(stack)
        elif is_table(self.data):
            yield from self._of_table()
        elif self.paths:
            raise self._no_ratings()
        else:
            kind = shown(self.data)
            raise UsageError(f"ratings are a path, a table, a SciPy matrix, or ({THREE}) as a tuple, not {kind}")

    def places(self, names: tuple[Names, Names]) -> Iterator[tuple[np.ndarray, Any]]:
        """The places (m, 2) int64 of the entries in a matrix with these names, and values. DataError for a new name."""
        with ExitStack() as stack:
            for part in self.parts(stack):
                given = zip(names, (part.rows, part.columns), strict=True)
                yield np.stack([known.codes(own, self.name) for known, own in given], axis=1), part.values

    # each kind

    def _of_arrays(self, given: tuple[Any, ...], first: int = 0) -> Iterator[SomeEntries]:
        if len(given) not in (2, 3) or (self.wanted and len(given) == 2):
            raise UsageError(f"arrays of ratings are given as the tuple ({THREE}), not as {len(given)} values")
        try:
            arrays = [np.asarray(each) for each in given]
        except ValueError as error:
            raise DataError(f"{self.name}: {THREE} must be as many, in one dimension; {error}") from error
        if any(each.ndim != 1 for each in arrays) or len({each.size for each in arrays}) > 1:
            sizes = ", ".join(str(each.shape) for each in arrays)
            raise DataError(f"{self.name}: {THREE} must be as many, in one dimension; their shapes are {sizes}")
        for low in range(0, arrays[0].size, ENTRY_PIECE):
            rows, columns, *rest = (each[low : low + ENTRY_PIECE] for each in arrays)
            values = self._numbers(rest[0], first + low) if self.wanted and rest else None
            yield SomeEntries(self._named(rows, first + low), self._named(columns, first + low), values)

    def _of_matrix(self) -> Iterator[SomeEntries]:
        found = self.data.tocoo()
        if found.data.size and not (found.row.min() >= 0 and found.col.min() >= 0):
            raise DataError(f"{self.name}: the matrix has places below 0; build it again")
        yield from self._of_arrays((found.row, found.col, found.data))

    def _of_file(self, stack: ExitStack) -> Iterator[SomeEntries]:
        near = stack.enter_context(temporary_folder())
        matrix = open_matrix(self.paths, How(os.path.join(near, "ratings"), stack, memory=self.memory))
        row = first = 0
        for batch in matrix.batches:
            if batch.X is not None:
                raise DataError(f"{self.name} is a dense matrix; write its known entries as {THREE}")
            assert batch.indptr is not None and batch.indices is not None
            rows = row + np.repeat(np.arange(batch.rows), np.diff(batch.indptr))
            yield from self._of_arrays((rows, batch.indices, batch.data), first)
            row, first = row + batch.rows, first + len(batch.indices)
            self.shape = (row, int(matrix.features or 0))

    def _of_table(self) -> Iterator[SomeEntries]:
        reader = open_table(self.data, room=Room(self.memory))
        self.name, self.reader, first = reader.name, reader, 0
        names = self.names = self._chosen(reader)
        for batch in reader.batches(names, frozenset(names[:2])):
            values = self._numbers(batch.column(2), first) if self.wanted else None
            yield SomeEntries(self._filled(batch.column(0), first), self._filled(batch.column(1), first), values)
            first += batch.num_rows

    def _chosen(self, reader: Reader) -> list[str]:
        """The columns to be read: those asked for, else those of the training, else the first."""
        number = 2 + self.wanted
        columns, y = self._as_trained(reader.columns, number)
        asked = [*(columns or ()), *([y] if self.wanted and y is not None else [])]
        lacking = [str(name) for name in asked if name not in reader.columns]
        if lacking:
            told = f"{reader.name} has no column {short(lacking[0])}; "
            has = f"it has {listed(reader.columns)}"
            if lacking[0] in self.like:
                raise DataError(told + has)
            raise MisnamedError(told + meant(lacking[0], reader.columns) + has)
        usual = [name for name in reader.columns if not may_be_index(name)]
        usual = usual if len(usual) >= number else reader.columns
        places = list(columns or usual[:2])
        rest = [name for name in usual if name not in places]
        names = [*places, *([str(y)] if y is not None else rest[:1])][:number]
        if len(names) < number:
            raise DataError(
                f"{reader.name} has {len(reader.columns)} columns, and ratings need {number}; name them with "
                "`columns=ROW,COLUMN` and `y=VALUE`"
            )
        if len(asked) < number:
            self._say_taken(reader, names)
        return names

    def _say_taken(self, reader: Reader, names: list[str]) -> None:
        """Tell the roles of columns that nobody named, and which others there are."""
        roles = ", ".join(f"{role} {short(name)}" for role, name in zip(ROLES, names, strict=False))
        others = [name for name in reader.columns if name not in names]
        left = f"; left out: {listed(others)}" if others else ""
        name = "name the two of pairs with `columns`" if not self.wanted else "name others with `columns` and `y`"
        tell = warn if others and self.wanted else note
        tell(f"{reader.name}: the columns are taken for {roles}{left}; {name}")

    def _as_trained(self, found: Sequence[str], number: int) -> tuple[Sequence[str] | None, str | None]:
        """`columns` and `y`, by the names of the training unless a table of as few columns has none of them."""
        columns, value = self.like[:2], self.like[2:]
        if not columns or (len(found) == number and not set(columns) & set(found)):
            return self.columns, self.y
        return columns, self.y or next((name for name in value if name in found), None)

    def _no_ratings(self) -> DataError:
        """The error for a path that is neither a table nor a matrix."""
        path = next((path for path in self.paths if format_of(path) is None), None)
        if path is None:
            return DataError(f"{self.name}: some are tables and some are matrices; write all ratings in one format")
        check_file(path)
        kind = kind_of(path, first_bytes(path))
        if kind is not None:
            return DataError(f"{path} is {kind[0]}, not a table of ratings; {kind[1]}")
        return DataError(
            f"{path} is neither a table of ratings, nor Matrix Market, nor a matrix of SciPy; separate fields by a "
            "comma, tab, semicolon or bar, or write the ratings as Parquet"
        )

    # checks of values and names, of the first entry on

    def _numbers(self, values: Any, first: int) -> np.ndarray:
        """Ratings as float64. DataError for one that is no finite number."""
        raw = values
        if isinstance(values, pa.Array):
            values = values.to_numpy(zero_copy_only=False)
        if values.dtype.kind in "cmM":
            raise DataError(f"{self.name}: the ratings are of type {values.dtype}; write them as real numbers")
        try:
            numbers = np.asarray(values, np.float64)
        except (TypeError, ValueError):
            bad, told = next((k, one) for k, one in enumerate(values.tolist()) if not is_number(one))
            where = self._place(first + bad)
            raise DataError(
                f"{self.name}, {where}: the rating is {shown(told)}, not a number; write one, as 3.5"
            ) from None
        wrong = np.flatnonzero(~np.isfinite(numbers))
        if wrong.size:
            k = int(wrong[0])
            what = "missing" if isinstance(raw, pa.Array) and not raw[k].is_valid else f"{numbers[k]}"
            raise DataError(f"{self.name}, {self._place(first + k)}: the rating is {what}; drop it, or write a number")
        return numbers

    def _filled(self, names: pa.Array, first: int) -> pa.Array:
        """The same names. DataError for one that is missing."""
        texts = names.dictionary if isinstance(names, pa.DictionaryArray) else names
        blank = None
        if pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type):
            blank = pc.equal(names.cast(texts.type), "")
        if names.null_count or (blank is not None and pc.any(blank).as_py()):
            absent = np.asarray(names.is_null()) | (False if blank is None else np.asarray(blank.fill_null(True)))
            where = self._place(first + int(np.flatnonzero(absent)[0]))
            raise DataError(f"{self.name}, {where}: the name of the row or column is missing; drop the rating")
        return names

    def _named(self, names: np.ndarray, first: int) -> pa.Array:
        """Names of an array: whole numbers or text."""
        kinds = "rows and columns are named by whole numbers or text"
        if names.dtype.kind not in "biufUOS":
            raise DataError(f"{self.name}: {kinds}, not {names.dtype}")
        if names.dtype.kind == "f" and not np.all((names == np.trunc(names)) & (np.abs(names) < WHOLE_NAME_LIMIT)):
            raise DataError(f"{self.name}: {kinds}, not by fractions or numbers of 2^63 and more")
        if names.dtype.kind in "bif":
            return pa.array(names.astype(np.int64))
        if names.dtype.kind == "u":
            return pa.array(names)
        try:
            texts = [one.decode() if isinstance(one, bytes) else one for one in names.tolist()]
            return self._filled(pa.array(texts), first)
        except (pa.ArrowException, UnicodeError, OverflowError) as error:
            raise DataError(f"{self.name}: {kinds} in UTF-8, all of one kind; {one_line(str(error))}") from error

    def _place(self, entry: int) -> str:
        return f"entry {entry}" if self.reader is None else self.reader.place(entry)


def _paths(data: Any) -> list[str]:
    parts = data if isinstance(data, list) else [data]
    paths = [os.fspath(each) for each in parts if isinstance(each, (str, os.PathLike))]
    if paths and len(paths) != len(parts):
        raise UsageError("a list of ratings holds paths")
    for path in paths:
        if path != "-" and not os.path.exists(path):
            raise no_file(path)
    return paths
