"""The interface of a reader: the columns of a table, as batches of Arrow, in order and as often as asked.

A new format is one new file with a subclass of Reader, and one line in `streammargin/tables/open.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from streammargin.errors import DataError
from streammargin.sources.schema import CATEGORY, Schema
from streammargin.tables.stamp import stamp

if TYPE_CHECKING:
    import pyarrow as pa


def check_same(after: str, before: str, name: str) -> None:
    """Raises DataError if the key of what was read is another one now."""
    if after != before:
        raise DataError(f"{name} was changed while it was read; start again, and do not write to it meanwhile")


def words_of(schema: Schema, reader: Reader) -> list[str]:
    """The columns that are read as text for a schema; a table with types keeps those of its numbers and dates.

    Numbers that were text in training stay, too: they are matched one to one.
    """
    schema = schema.read
    matched = {each.name for each in schema.columns if each.kind == CATEGORY and not each.numeric} & reader.numeric
    return [*(name for name in schema.worded if name not in matched), *(() if reader.typed else schema.spelt)]


class Reader(ABC):
    """A table that is read front to back. Nothing is kept between two batches.

    Attributes
    ----------
    name : str
        In messages: the path of a file, "the table" for objects;
    columns : list of str
        Names in order; numbers as text if the table has no names; columns without a name by `names_of`;
    named : bool
        Whether the table names its columns;
    typed : bool
        Whether the table says what its columns hold; text does not;
    once : bool
        Whether it can be read once only: a pipe, or a stream of batches;
    types : dict of str to pyarrow.DataType
        Of all columns; {} if they are not known before reading;
    count : int or None
        Of the rows; None if it is not known before reading;
    gaps : sequence of str
        Texts that stand for a missing value; labels apart, of which only "" does. A typed table has none.
    """

    name: str
    columns: list[str]
    named: bool = True
    typed: bool = True
    once: bool = False
    types: Mapping[str, pa.DataType] = MappingProxyType({})
    count: int | None = None
    gaps: Sequence[str] = ()

    @abstractmethod
    def batches(self, columns: Sequence[str], words: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """These columns in this order, some thousand rows at a time; from the first row on, unless it is `once`.

        A column may be of another type in the next batch if the format has no types. words: columns that are then
        text throughout. Raises DataError.
        """

    def place(self, row: int) -> str:
        """Where a row of the latest batch is, for messages; row counts from the first of the table."""
        return f"row {row}"

    def take_after(self, other: Reader) -> None:
        """Have the name, the columns and the kind of another reader."""
        for each in ("name", "columns", "named", "typed", "types", "gaps"):
            setattr(self, each, getattr(other, each))

    @property
    def numeric(self) -> frozenset[str]:
        """The columns that hold numbers by their types, and nothing else."""
        from streammargin.tables.types import kind_of

        return frozenset(name for name, kind in self.types.items() if kind_of(kind) == "number")

    @property
    def categories(self) -> frozenset[str]:
        """The columns whose types say that they are categories, of numbers: dictionaries of these."""
        from streammargin.tables.types import is_category

        return frozenset(name for name, kind in self.types.items() if is_category(kind))

    def parts(self) -> Iterable[Reader]:
        """The tables one after the other, each of which may number its rows anew: here one."""
        return [self]

    def files(self) -> list[str]:
        """The files that are read."""
        return []

    def fingerprint(self) -> str:
        """A text that changes when a file of the table does; "" for objects in memory, and for a pipe."""
        return stamp(self.files())
