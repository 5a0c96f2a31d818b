"""Workers write the partitions of a collection to pieces, or count what its columns hold."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from distributed import get_worker

from streammargin.dask.pieces import Written, place, written
from streammargin.errors import DataError, StreamMarginError
from streammargin.sources.hdf5.from_batches import write_batches
from streammargin.tables.asked import Asked
from streammargin.tables.formats import is_table
from streammargin.tables.open import open_table
from streammargin.tables.readers.base import Reader
from streammargin.tables.schema import Schema
from streammargin.tables.spoolable import OfTable
from streammargin.tables.table import Table
from streammargin.tables.tally import Tally, tally

Tallies = dict[str, Tally]
Columns = tuple[Sequence[str], Sequence[str], frozenset[str], str]  # as `tally` takes them


class How(NamedTuple):
    """What the partitions of frames become: as of `Table`; schema: None where numbers alone are expected."""

    asked: Asked
    values: tuple[str, ...]
    label: str
    weight: str
    schema: Schema | None = None

    def table(self, reader: Reader) -> Table:
        """The table of this reader."""
        return Table(reader, self.asked, self.values, self.label, self.weight)


class Part(NamedTuple):
    """A partition: its collection, its number, the file of its piece, and how it is written (None: as batches)."""

    collection: str
    number: int
    file: str
    how: How | None

    @property
    def name(self) -> str:
        """For messages."""
        return f"partition {self.number} of {self.collection}"


def _items(data: Any) -> list[Any]:
    """The frames or batches of a partition that have rows."""
    if isinstance(data, tuple) or is_table(data):
        data = [data]
    elif isinstance(data, list) and data and not isinstance(data[0], (tuple, list)) and not is_table(data[0]):
        data = [tuple(data)]
    return [item for item in data if not is_table(item) or len(item)]


def reader_of(data: Any, part: Part) -> Reader | None:
    """A reader of the frames of a partition; None where it has no rows, or batches."""
    items = _items(data)
    if not items or not is_table(items[0]):
        return None
    reader = open_table(items)
    reader.name = part.collection
    reader.place = lambda row: f"partition {part.number}, row {row}"  # type: ignore[method-assign]
    return reader


def peeked(data: Any, part: Part) -> list[str] | bool:
    """The columns of a partition of frames; else whether it has batches."""
    reader = reader_of(data, part)
    return bool(_items(data)) if reader is None else list(reader.columns)


def tallied(data: Any, part: Part, columns: Columns) -> Tallies | StreamMarginError:
    """What the columns of a partition hold; {} without rows."""
    try:
        reader = reader_of(data, part)
        return {} if reader is None else tally(reader, *columns)
    except StreamMarginError as error:
        return error


def write(data: Any, part: Part, digest: str) -> Written | None | StreamMarginError:
    """Write the piece of a partition, in a worker; None where it is of numbers alone, but has other values.

    digest: of the piece as it was written before; "" the first time. An error is an answer, too.
    """
    try:
        path = place(part.file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if part.how is None:
            items = _items(data)
            if not any(len(item) and _rows(item[0]) for item in items):
                return Written(get_worker().address)
            write_batches(items, path, None, True, {})
        else:
            reader = reader_of(data, part)
            if reader is None:
                return Written(get_worker().address)
            rows = OfTable(part.how.table(reader), part.how.schema, told=False)
            if part.how.schema is not None:
                rows.write(path, True)
            elif not rows.write_numbers(path, True):
                return None
        found = written(path)
        if digest and found.digest != digest:
            raise DataError(
                f"{part.name} has other rows than when it was first computed; persist {part.collection}, or write it "
                "to files, and train on these"
            )
        return found
    except StreamMarginError as error:
        return error if part.how is not None or digest else type(error)(f"{part.name}, {error.raw}")


def _rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)
