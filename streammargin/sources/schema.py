"""The schema of a table: how its columns become columns of numbers. A value: learnt once, kept by the model."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from streammargin.sources.base import Source
from streammargin.sources.names import held_bytes

NUMBER, CATEGORY, TEXT, DATE = "number", "category", "text", "date"
OTHER = "other"  # the column of the words that are not among the most frequent ones
MOST_WORDS = 1000  # columns of one category, before OTHER
TEXT_COLUMNS = 1 << 18  # of one column of text, hashed
SPARSE = 0.25  # largest share of nonzeros of rows that are stored as CSR, as sources/views.py has it


@dataclass(frozen=True)
class Column:
    """One column of a table.

    `kind`: NUMBER (booleans are 1 and 0), CATEGORY, TEXT or DATE. `words`: of a category, its columns in order;
    `other`: one more column counts all other words. `numeric`: its words are numbers of a typed table. `fill`: the
    number in place of a gap, None if a gap is an error. For a category any number means that no word counts.
    `indicator`: one more column is 1 for a gap. `ngrams`: of text, the longest sequence of words that is counted.
    `spelling`: of numbers and dates in text, as `streammargin.tables.spellings` names it; "" for numbers of programs.

    A date is the years since that of the date `first` and the days since it, and a column of 0 and 1 for each of
    `words`; `first` is "" for times of the day, which have no year. fill: the days in place of a gap; year: its years.
    """

    name: str
    kind: str = NUMBER
    words: tuple[str, ...] = ()
    other: bool = False
    fill: float | None = None
    indicator: bool = False
    ngrams: int = 1
    numeric: bool = False
    spelling: str = ""
    first: str = ""
    year: float = 0.0

    @property
    def first_year(self) -> int:
        """The year from which years are counted; 0 for times of the day."""
        return int(self.first[:-6] or 0)

    @property
    def numbers(self) -> int:
        """How many columns of numbers it becomes, before those of words."""
        return 1 if self.kind == NUMBER else 2 if self.first else 0

    @property
    def width(self) -> int:
        """The number of columns that it becomes."""
        if self.kind == TEXT:
            return TEXT_COLUMNS
        return self.numbers + len(self.words) + self.other + self.indicator

    @property
    def entries(self) -> int:
        """The most of these columns that are not 0 in one row."""
        return 1 if self.kind != DATE else self.numbers + min(3, len(self.words)) + self.indicator

    @property
    def outputs(self) -> list[str]:
        """The names of the columns that it becomes."""
        if self.kind == TEXT:
            return [f"{self.name}#{place}" for place in range(TEXT_COLUMNS)]
        own = [self.name] if self.kind == NUMBER else [f"{self.name}={word}" for word in self.words]
        own += [f"{self.name}={OTHER}"] * self.other
        if self.kind == DATE:
            numbers = [f"{self.name}: years since {self.first_year}", f"{self.name}: days since {self.first}"]
            own = numbers[: self.numbers] + [f"{self.name}: {word}" for word in self.words]
        return own + [f"{self.name} is missing"] * self.indicator


@dataclass(frozen=True)
class Schema:
    """The columns of a table that rows are made of, in order, and those of the labels.

    `dtype`   that of the rows, float32 if it holds their numbers well.
    `named`   whether the table names its columns. Without names they go by position.
    `there`   what the columns are called in the table that is read; () if they are called so.
    `weight`  the column of the weights of rows, "" for none.

    Rows are sparse (CSR) if at most a quarter of their values can be other than 0.
    """

    columns: tuple[Column, ...]
    labels: tuple[str, ...] = ()
    dtype: str = "float32"
    named: bool = True
    there: tuple[str, ...] = ()
    weight: str = ""

    @cached_property
    def features(self) -> int:
        """The number of columns of the rows."""
        return sum(column.width for column in self.columns)

    @cached_property
    def sparse(self) -> bool:
        """Whether rows are CSR."""
        return sum(column.entries for column in self.columns) <= SPARSE * self.features

    @cached_property
    def row_bytes(self) -> int:
        """The most bytes of a row on disk, texts apart."""
        size = np.dtype(self.dtype).itemsize
        return sum(column.entries for column in self.columns) * (size + 4) + 8 if self.sparse else self.features * size

    @cached_property
    def starts(self) -> np.ndarray:
        """The first column of the rows of each column of the table (n + 1,) int64."""
        return np.cumsum([0, *(column.width for column in self.columns)])

    @property
    def values(self) -> tuple[str, ...]:
        """The names of the columns in the table that is read."""
        return self.there or tuple(column.name for column in self.columns)

    @property
    def read(self) -> Schema:
        """The same, with these names as those of the columns."""
        if not self.there:
            return self
        named = zip(self.columns, self.there, strict=True)
        return replace(self, columns=tuple(replace(column, name=name) for column, name in named), there=())

    @property
    def known(self) -> frozenset[str]:
        """The same, if the table names them."""
        return frozenset(self.values if self.named else ())

    @property
    def worded(self) -> list[str]:
        """The names of the columns that are read as text."""
        return [column.name for column in self.columns if column.kind in (CATEGORY, TEXT)]

    @property
    def spelt(self) -> list[str]:
        """The names of the columns of numbers and dates that are read as text if the table has no types."""
        return [column.name for column in self.columns if column.spelling]

    @property
    def hashed(self) -> bool:
        """Whether a column is text, so that columns of the rows have no names of their own."""
        return any(column.kind == TEXT for column in self.columns)

    def names(self) -> np.ndarray | None:
        """The names of the columns of the rows (d,), objects of type str; None if there are none, or text is hashed."""
        if self.hashed or not self.named:
            return None
        return np.array([name for column in self.columns for name in column.outputs], object)

    def name_at(self, place: int) -> str | None:
        """The name of a column of the rows; None for one of hashed words, and without names."""
        of = int(np.searchsorted(self.starts, place, "right")) - 1
        column = self.columns[of]
        if column.kind == TEXT or not self.named:
            return None
        return column.outputs[place - int(self.starts[of])]

    @property
    def nbytes(self) -> int:
        """Bytes of the names and words in memory."""
        words = [word for column in self.columns for word in (column.name, *column.words)]
        return held_bytes(np.array([*words, ""], object))

    def to_plain(self) -> dict[str, Any]:
        """The schema in JSON; defaults are left out."""
        columns = []
        for column in self.columns:
            given, default = {**vars(column), "words": list(column.words)}, Column(column.name)
            kept = {name: value for name, value in given.items() if value not in (getattr(default, name), [])}
            columns.append({"name": column.name, **kept})
        weight = {"weight": self.weight} if self.weight else {}
        return {"columns": columns, "labels": list(self.labels), "dtype": self.dtype, "named": self.named, **weight}

    @classmethod
    def from_plain(cls, plain: object) -> Schema:
        """The inverse of `to_plain`. Raises ValueError if this is no schema."""
        if not isinstance(plain, Mapping) or not isinstance(plain.get("columns"), list):
            raise ValueError("its schema is not a table")
        labels, dtype, named = plain.get("labels"), plain.get("dtype"), plain.get("named")
        columns = tuple(_column(each) for each in plain["columns"])
        names = [column.name for column in columns]
        if not columns or len(set(names)) < len(names):
            raise ValueError("the names of its columns are not all different")
        if not isinstance(labels, list) or not all(isinstance(name, str) for name in labels):
            raise ValueError("the names of its labels are not a list of text")
        if dtype not in ("float32", "float64") or not isinstance(named, bool):
            raise ValueError("its schema has no type of rows")
        if not isinstance(weight := plain.get("weight", ""), str):
            raise ValueError("the name of its weights is not text")
        return cls(columns, tuple(labels), dtype, named, weight=weight)


def plain_schema(names: np.ndarray | None, features: int, label: object) -> Schema:
    """The schema of a model of numbers that has none: its columns by name, or by position.

    label: the name of the column that its labels were from, if it has one.
    """
    named = names is not None
    texts = [str(name) for name in names] if names is not None else [str(place) for place in range(features)]
    known = (label,) if named and isinstance(label, str) else ()
    return Schema(tuple(Column(name) for name in texts), known, dtype="float64", named=named)


def plain_of(source: Source) -> dict[str, Any] | None:
    """How the rows of a source were made of a table, if that fits them; None for other rows."""
    plain = source.schema()
    try:
        fits = plain is not None and Schema.from_plain(plain).features == source.features
    except ValueError:  # of a file that others have written
        fits = False
    return plain if fits else None


_TYPES = {"name": str, "kind": str, "words": list, "other": bool, "fill": (int, float), "indicator": bool,
          "ngrams": int, "numeric": bool, "spelling": str, "first": str, "year": (int, float)}  # fmt: skip


def _column(plain: object) -> Column:
    """A column of a schema. Raises ValueError."""
    if not isinstance(plain, Mapping) or not {"name"} <= plain.keys() <= _TYPES.keys():
        raise ValueError("a column of its schema has other fields")
    for name, value in plain.items():
        if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and _TYPES[name] is not bool):  # type: ignore[arg-type]
            raise ValueError(f"the field {name} of a column of its schema is {str(value)[:40]!r}")
    words = tuple(plain.get("words", ()))
    column = Column(**{**plain, "words": words})
    if column.kind not in (NUMBER, CATEGORY, TEXT, DATE) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"the column {column.name[:40]!r} of its schema is of no known kind")
    finite = math.isfinite(column.fill or 0.0) and math.isfinite(column.year)
    if len(set(words)) < len(words) or not 1 <= column.ngrams <= 8 or not finite or not _is_of_kind(column):
        raise ValueError(f"the column {column.name[:40]!r} of its schema cannot be")
    return column


def _is_of_kind(column: Column) -> bool:
    """Whether a column has no fields of another kind, and becomes a column."""
    if column.kind != DATE:
        text = column.spelling and column.kind != NUMBER
        return not (column.first or column.year or text or (column.kind == NUMBER and column.words))
    if column.first:
        try:
            datetime.date.fromisoformat(column.first)
        except ValueError:
            return False
    return bool(column.spelling and column.numbers + len(column.words)) and not column.other
