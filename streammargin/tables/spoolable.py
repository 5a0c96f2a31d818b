"""The data of a spool: a table, which of numbers alone is read in one pass, files of rows of numbers, or batches."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from streammargin.errors import DataError
from streammargin.files import STANDARD_INPUT, temporary_folder
from streammargin.sizes import format_size
from streammargin.sources.batch import Batch, Narrowing
from streammargin.sources.hdf5.base import RANGES, SCHEMA
from streammargin.sources.hdf5.from_batches import write_batches
from streammargin.sources.hdf5.write import RowWriter, writing
from streammargin.sources.label_column import LabelColumn
from streammargin.sources.schema import Column, Schema
from streammargin.tables.apply import fill, rows_of
from streammargin.tables.dates import like_dates
from streammargin.tables.formats import files_of
from streammargin.tables.labels import Part, beside_rows
from streammargin.tables.learn import learn, ranges_of
from streammargin.tables.matrices.base import MEMORY, How, Matrix
from streammargin.tables.matrices.open import fingerprint, open_matrix
from streammargin.tables.readers.base import check_same
from streammargin.tables.readings import say_dates
from streammargin.tables.spool import KEY, Spoolable, Staged
from streammargin.tables.table import Table
from streammargin.tables.tally import fits_float32
from streammargin.tables.types import kind_of
from streammargin.version import __version__
from streammargin.wording import note

Check = Callable[[int, int, int], None]  # of rows, columns, and the least bytes of a row
EXACT = {pa.float32(), pa.float16(), pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.bool_()}  # in float32


@dataclass(frozen=True)
class OfTable(Spoolable):
    """The rows of a table, as numbers. schema: that of another table, as held-out rows have it; None: it is learnt.

    dtype: of the values; None: of the schema. told: whether the size is said before it is written. check: raises if
    so many rows of so many columns, each of these bytes at least, cannot be used; then nothing is written.
    """

    table: Table
    schema: Schema | None = None
    dtype: np.dtype | None = None
    told: bool = True
    check: Check = lambda rows, features, row_bytes: None

    @property
    def name(self) -> str:
        return self.table.name

    def key(self) -> str:
        return self.table.key(self.schema)

    def files(self) -> list[str]:
        return self.table.reader.files()

    def write(self, path: str, force: bool) -> RowWriter:
        """Text is parsed once; what was parsed is kept beside the output meanwhile."""
        if (written := self.write_numbers(path, force)) is not None:
            return written
        with contextlib.ExitStack() as stack:
            table = self.table
            if not table.reader.typed:
                stage = os.path.join(stack.enter_context(temporary_folder(path)), "stage")
                table = replace(table, reader=Staged(table.reader, stage))
            schema, count, ranges = learn(table, self.schema)
            narrowing = None if schema.sparse else Narrowing(np.dtype(self.dtype or schema.dtype), table.name)
            parts = rows_of(table.reader, schema, table.asked, table.beside, narrowing)
            return self._rows(schema, count, parts, lambda: ranges, path, force, self._plain)

    @property
    def _plain(self) -> bool:
        """Whether one pass may do."""
        return self.schema is None and is_plain(self.table)

    def write_numbers(self, path: str, force: bool) -> RowWriter | None:
        """`write` of a table of numbers alone, in one pass; None if it has others, and nothing was written."""
        if not self._plain:
            return None
        numbers, count = Numbers(self.table), self.table.reader.count or 0
        try:
            return self._rows(numbers.schema, count, numbers.parts(), numbers.ranges, path, force)
        except OtherValues:  # what is there is found out first, then
            return None

    def _rows(
        self, schema: Schema, count: int, parts: Iterator[Part], ranges: Callable[[], str], path: str, force: bool,
        again: bool = False,
    ) -> RowWriter:  # fmt: skip
        """Write these rows. again: after one pass would not do, which has told a size already."""
        self.check(count, schema.features, 0 if schema.sparse else schema.row_bytes)
        if self.told and not (again and schema.dtype == "float32"):
            what = "its numbers need float64, so they take" if again else f"its {count} rows are written to {path},"
            note(f"{self.name}: {what} {format_size(count * schema.row_bytes)} at most")
        found = Matrix((part.batch for part in parts), schema.sparse, schema.features,
                       np.dtype(self.dtype or schema.dtype), schema.names(), _label_column(self.table))  # fmt: skip
        told = lambda: {SCHEMA: json.dumps(schema.to_plain()), RANGES: ranges()}  # noqa: E731  # known at the end
        return write_matrix(found, self.name, path, force, self.key, told=told)


def _label_column(table: Table) -> LabelColumn | None:
    """Where the labels of a table are from."""
    reader, labels = table.reader, table.labels
    if len(labels) != 1:
        return LabelColumn(None, outputs=labels) if labels else None
    name = labels[0] if reader.named else reader.columns.index(labels[0])
    return LabelColumn(name, spelt=not reader.typed, tasks=table.tasks)


@dataclass(frozen=True)
class OfMatrix(Spoolable):
    """The rows of files of numbers. how: as for `open_matrix`, but for where they are written to.

    labelled: whether they must have labels. check: as of a table.
    """

    paths: Sequence[str]
    how: How
    labelled: bool = False
    check: Check = lambda rows, features, row_bytes: None

    @property
    def name(self) -> str:
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return ("standard input" if self.paths[0] == STANDARD_INPUT else self.paths[0]) + more

    def key(self) -> str:
        files = fingerprint([*self.paths, *self._named()])
        told = repr((files, replace(self.how, memory=MEMORY), __version__))  # which any may be
        return hashlib.blake2b(told.encode(), digest_size=16).hexdigest() if files else ""

    def _named(self) -> list[str]:
        """The files that labels and weights are read from."""
        found = [part for name in (self.how.y, self.how.weight) if name for part in (name, name.rpartition(":")[0])]
        return [name for name in found if os.path.isfile(name)]

    def files(self) -> list[str]:
        return files_of([*self.paths, *self._named()])

    def write(self, path: str, force: bool) -> RowWriter:
        with contextlib.ExitStack() as stack:
            found = open_matrix(self.paths, replace(self.how, near=path, opened=stack))
            if found.features is not None:
                self.check(1, found.features, 0 if found.sparse else found.features * np.dtype(found.dtype).itemsize)
            return write_matrix(found, self.name, path, force, self.key, self.labelled)


def write_matrix(
    found: Matrix, name: str, path: str, force: bool, key: Callable[[], str] | None = None, labelled: bool = False,
    told: Callable[[], dict[str, str]] = dict,
) -> RowWriter:  # fmt: skip
    """Write the rows of a matrix, called `name`, as values of its type; returns what was written.

    key: tells the key of a spool. labelled: whether rows must have labels. told: other attributes, after the last row.
    """
    before = None if key is None else key()
    first = next(found.batches, None)
    if first is None or first.rows == 0:
        raise DataError(f"{name} has no rows; check the input")
    if labelled and first.labels is None:
        by_name = " or, by the names of the rows, `y=TABLE:COLUMN`" if found.ids is not None else ""
        raise DataError(f"{name} has no labels; name them with `y=FILE.npy`{by_name}")
    narrowing = Narrowing(np.dtype(found.dtype), name)
    with writing(path, force, found.dtype, found.sparse, found.features, found.names, found.label) as writer:
        for batch in itertools.chain([first], found.batches):
            narrowing.check(batch)
            writer.append(batch)
        if found.sparse and writer.features is None and writer.widest == 0:
            raise DataError(f"{name} has no values at all; give the number of columns with `features`")
        if key is not None and before is not None:
            check_same(key(), before, name)
            writer.file.attrs[KEY] = before
        writer.file.attrs.update(told())
    return writer


@dataclass(frozen=True)
class OfBatches(Spoolable):
    """Batches (X, y) or (X, y, sample_weight) that can be iterated over once."""

    batches: Any
    name = "batches"

    def write(self, path: str, force: bool) -> None:
        """Exceptions of the iterable pass unchanged."""
        write_batches(self.batches, path, None, force, {KEY: ""})


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
        columns, named = tuple(map(Column, table.values)), table.reader.named
        self.schema = Schema(columns, table.labels, "float32", named, weight=table.weight)
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
