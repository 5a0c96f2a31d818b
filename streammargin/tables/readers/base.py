"""The interface of a reader: the columns of a table, as batches of Arrow, in order and as often as asked.

A new format is a new file with a subclass of Reader, which lists it in FORMATS (`streammargin/tables/file_format.py`).
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from streammargin.errors import InputMissingError, StreamMarginError
from streammargin.files import check_input
from streammargin.sources.schema import CATEGORY, Schema

if TYPE_CHECKING:
    from streammargin.arrow import pa

STAMPED_BYTES = 1 << 12  # that are read at a place of a file
STAMPED_PLACES, FEWEST_STAMPED_PLACES = 64, 4  # of a file; fewer of many files: both ends, and two between
MOST_STAMPED = 16 << 20  # bytes that are read of all files, unless they are very many
_END = b"PAR1", b"ARROW1"  # behind a footer and its size, in the last bytes of Parquet and of Feather


def stamp(paths: Iterable[str]) -> str:
    """A text that changes with these files: sizes, times, inodes, and a sample of their bytes; "" for no files.

    Of the times, that of the status cannot be put back. A small file is read whole, and so is a footer, which has the
    least and largest values of the columns of Parquet. Raises InputMissingError.
    """
    files = list(paths)
    places = max(FEWEST_STAMPED_PLACES, min(STAMPED_PLACES, MOST_STAMPED // (STAMPED_BYTES * max(1, len(files)))))
    return " ".join(_of_file(path, places) for path in files)


def _of_file(path: str, places: int) -> str:
    check_input(path)
    digest = hashlib.blake2b(digest_size=16)
    try:
        with open(path, "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            last = max(0, status.st_size - STAMPED_BYTES)
            for place in sorted({last * number // (places - 1) for number in range(places)}):
                file.seek(place)
                digest.update(file.read(STAMPED_BYTES))
            start = _footer(file, status.st_size)
            file.seek(start)
            while start < status.st_size and (part := file.read(1 << 20)):
                digest.update(part)
    except OSError as error:
        if isinstance(error, StreamMarginError):
            raise
        raise InputMissingError(f"{path} cannot be read ({error.strerror})") from error
    times = f"{status.st_mtime_ns} {status.st_ctime_ns}"
    return f"{status.st_size} {times} {status.st_ino} {digest.hexdigest()}"


def _footer(file: Any, size: int) -> int:
    """Where the footer of a Parquet or Feather file begins; its end if there is none."""
    for end in _END:
        head = len(end) + 4
        if size > head:
            file.seek(size - head)
            found = file.read(head)
            if found[4:] == end:
                return max(0, size - head - int.from_bytes(found[:4], "little"))
    return size


BLANKS = " \t"  # those around words are taken off
LEAST_BATCH_ROWS = 64
CELLS = 512  # bytes of text at a time for each column, so that a wide table has some rows in a piece


@dataclass(frozen=True)
class Room:
    """memory: bytes, of which a reader takes about half. near: temporary files go next to it; "": the system's folder.

    It has shares for columns that are decoded at a time, for those that stay in memory, for a batch, and for text.
    """

    memory: int = 256 << 20
    near: str = ""

    @property
    def decoding(self) -> int:
        """Bytes of columns that are decoded at a time."""
        return min(16 << 20, self.memory // 32)

    @property
    def decoded(self) -> int:
        """Bytes of columns side by side."""
        return min(64 << 20, self.memory // 4)

    @property
    def batch(self) -> int:
        """Bytes of the rows that are made numbers at a time."""
        return min(16 << 20, self.memory // 16)

    def rows(self, columns: int) -> int:
        """Rows of a batch with so many columns."""
        return max(LEAST_BATCH_ROWS, self.batch // (8 * max(1, columns)))

    def text(self, most: int, columns: int = 1) -> int:
        """Bytes of a piece of text; parsed and as numbers it takes some times as much.

        Each column of a piece takes as long as hundreds of its rows: that of a wide table may take more memory.
        """
        return max(min(most, max(1 << 16, self.memory // 64)), min(CELLS * columns, self.memory // 8))


USUAL = Room()


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
        Texts that stand for a missing value; labels apart, of which only "" does. A typed table has none;
    padded : dict of str to str
        Columns of text with a value that begins with 0, as 007, in the first rows, and that value.
    """

    name: str
    columns: list[str]
    named: bool = True
    typed: bool = True
    once: bool = False
    types: Mapping[str, pa.DataType] = MappingProxyType({})
    count: int | None = None
    gaps: Sequence[str] = ()
    padded: Mapping[str, str] = MappingProxyType({})

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
        for each in ("name", "columns", "named", "typed", "types", "gaps", "padded"):
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
