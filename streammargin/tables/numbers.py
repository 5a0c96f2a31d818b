"""Tables of numbers alone, without gaps: their schema is known before they are read, and one pass is enough."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from streammargin.sources.batch import Batch
from streammargin.sources.schema import Column, Schema
from streammargin.tables.apply import fill
from streammargin.tables.dates import like_dates
from streammargin.tables.labels import Part, beside_rows
from streammargin.tables.learn import ranges_of
from streammargin.tables.readings import say_dates
from streammargin.tables.table import Table
from streammargin.tables.tally import fits_float32
from streammargin.tables.types import kind_of

EXACT = {pa.float32(), pa.float16(), pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.bool_()}  # in float32


class OtherValues(Exception):
    """The table has a gap, or a number that float32 does not hold."""


def is_plain(table: Table) -> bool:
    """Whether all values are numbers by their types, in a table that may be read again, and nothing stands for gaps."""
    reader, asked = table.reader, table.asked
    if not reader.typed or reader.once or not reader.count:
        return False
    if asked.text or asked.categorical or asked.missing is not None:
        return False
    types = [reader.types[name] for name in table.values]
    plain = all(kind_of(each) == "number" and not pa.types.is_dictionary(each) for each in types)
    return plain and not any("\0" in name for name in (*table.values, *table.labels))


class Numbers:
    """The rows of such a table, as float32; `largest` is of |x| of each column, of the rows so far."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.schema = Schema(tuple(map(Column, table.values)), table.labels, "float32", table.reader.named)
        self.largest = np.zeros(len(table.values))
        self.dated = [pa.types.is_integer(table.reader.types[name]) for name in table.values]  # all read as dates
        self._exact = [table.reader.types[name] in EXACT for name in table.values]

    def parts(self) -> Iterator[Part]:
        """The rows in order. Raises OtherValues if a value does not fit; then nothing of it is good."""
        table = self.table
        beside = table.beside
        first = 0
        for found in table.reader.batches(list(dict.fromkeys([*table.values, *beside.given])), frozenset()):
            columns = [self._column(place, column)
                       for place, column in enumerate(found.columns[: len(table.values)])]  # fmt: skip
            X = np.empty((found.num_rows, len(columns)), np.float32)
            fill(X, enumerate(columns))
            with np.errstate(all="ignore"):
                high, low = X.max(axis=0), X.min(axis=0)
                if not np.isfinite(high - low).all():  # NaN is a gap, and infinity has its row named elsewhere
                    raise OtherValues
            self.largest = np.maximum(self.largest, np.maximum(high, -low))
            yield beside_rows(Batch(X, None, None, None, None, None), found, table.reader, beside, first)
            first += found.num_rows

    def _column(self, place: int, column: pa.Array) -> np.ndarray:
        if column.null_count:
            raise OtherValues
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        values = np.asarray(column.to_numpy(zero_copy_only=False))
        if not self._exact[place] and not fits_float32(values):
            raise OtherValues
        self.dated[place] = self.dated[place] and like_dates(values)
        return values

    def ranges(self) -> str:
        """The warning about the ranges of the columns, as of `learn`; warns of numbers that read as dates, too."""
        names = [name for name, dated in zip(self.table.values, self.dated, strict=True) if dated]
        say_dates(self.table.name, names)
        return ranges_of(dict(zip(self.table.values, self.largest.tolist(), strict=True)))
