"""Write rows that are read front to back once to a file that can be read at random: an HDF5 file, their spool.

Such rows are a table, which of numbers alone is read in one pass, files of rows of numbers, or batches. A spool has the
key of what it was made of: the files, the options and this package. It is used again while these stay the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import h5py
import numpy as np

from streammargin.arrow import pa, release
from streammargin.errors import DataError, OutputError, UsageError
from streammargin.files import STANDARD_INPUT, check_apart, make_folder, temporary_folder, writes
from streammargin.sizes import format_size
from streammargin.sources.arrays import value_dtype
from streammargin.sources.batch import Batch, Narrowing, Ordered
from streammargin.sources.hdf5.columns import LABELS, WEIGHTS
from streammargin.sources.hdf5.file import SCHEMA, open_file
from streammargin.sources.hdf5.from_batches import write_batches, write_rows
from streammargin.sources.hdf5.nodes import attribute
from streammargin.sources.hdf5.write import RowWriter
from streammargin.sources.labels import LabelColumn
from streammargin.sources.names import listed
from streammargin.sources.schema import TEXT, Column, Schema
from streammargin.sources.views import View
from streammargin.tables.apply import beside_rows, fill, rows_of
from streammargin.tables.dates import like_dates
from streammargin.tables.elsewhere import column_of, column_of_labels
from streammargin.tables.formats import files_of
from streammargin.tables.learn import FEWEST, learn, say_dates, say_ids
from streammargin.tables.matrices.base import MEMORY, How, beside
from streammargin.tables.matrices.open import fingerprint, open_matrix
from streammargin.tables.readers.base import Reader, stamp
from streammargin.tables.readers.delimited import Delimited
from streammargin.tables.table import Table
from streammargin.tables.tally import Rising, fits_float32
from streammargin.tables.types import kind_of, worded
from streammargin.version import __version__
from streammargin.wording import HEARD, note, warn

KEY, REMARKS = "streammargin-table", "streammargin-remarks"  # attributes of a spool
SAME_WIDTH = "replace such values, or train again with them"  # of other rows than those of the training
WAIT = 0.1  # seconds between two looks at whether another training has written it


class Spoolable(ABC):
    """Data that are read front to back, and can be written as rows of numbers."""

    @property
    @abstractmethod
    def name(self) -> str:
        """In messages: a path."""

    def key(self) -> str:
        """A text that changes with the files, the options and this package; "" if nothing tells, as here."""
        return ""

    def files(self) -> list[str]:
        """The files that are read; here none."""
        return []

    def line(self, row: int) -> str:
        """Where a row is in a text, for messages, as line 5; "" if they are of none, as here."""
        return ""

    @property
    def named(self) -> Mapping[str, object]:
        """What their x, y and sample_weight were named as; here nothing."""
        return {}

    @abstractmethod
    def write(self, path: str, force: bool) -> object:
        """Write all rows to a new file, with the key. Raises DataError, OutputError, ReadWriteError."""


class SpooledSource(View):
    """The rows of a spool under the name of what it was made of, with the schema that made them."""

    def __init__(self, path: str, rows: Spoolable, y: Any = None, weight: Any = None) -> None:
        source = open_file(path, None, y, weight)
        source.name = rows.name
        super().__init__(source)
        self._rows = rows
        self.named = rows.named
        plain = self.schema()
        self.table_schema: Schema | None = None if plain is None else Schema.from_plain(plain)

    def __reduce__(self) -> Any:
        return View, (self.source,)  # other processes need no more

    def files(self) -> list[str]:
        return [*self._rows.files(), *self.source.files()]

    def told(self, row: int) -> str:
        line = self._rows.line(row)
        return f"{self.name}, {line}" if line else self.source.told(row)

    def label_place(self, row: int) -> tuple[str, int]:
        line = self._rows.line(row)
        return f"{self.name}, {line}" if line else self.name, row


@contextlib.contextmanager
def spooled(
    rows: Spoolable, folder: str | None, suffix: str = ".rows.h5", y: Any = None, weight: Any = None,
    read: Sequence[str] = (),
) -> Iterator[SpooledSource]:  # fmt: skip
    """The rows as a source. folder: where the spool stays; None: in a folder that is removed afterwards.

    y, weight: labels and weights in arrays. read: files of the training, which no spool replaces. Raises DataError,
    OutputError, ReadWriteError, UsageError.
    """
    with contextlib.ExitStack() as stack:
        if folder is None:
            path = os.path.join(stack.enter_context(temporary_folder()), "rows.h5")
            rows.write(path, False)
        else:  # two tables in different folders may have one name
            make_folder(folder)
            path = os.path.normpath(os.path.join(folder, os.path.basename(os.path.normpath(rows.name)) + suffix))
            writing = stack.enter_context(_alone(rows))
            if is_kept(rows.key(), path):
                _say_again(path)
                note(f"{rows.name}: rows are read from {path}, as nothing has changed since it was written")
            else:
                if _is_used(path):  # it has the rows of another training, which goes on
                    own = stack.enter_context(temporary_folder(os.path.join(folder, "")))
                    path = os.path.join(own, os.path.basename(path))
                _check_apart(path, rows, read)
                heard = HEARD.set([])
                try:
                    rows.write(path, True)
                finally:
                    HEARD.reset(heard)
        release()  # the budget is the training's now
        source = SpooledSource(path, rows, y, weight)
        stack.callback(source.close)
        if folder is not None:
            writing.close()
        yield source


def _attributes(key: str) -> dict[str, str]:
    """Those of a spool of this key: what was said while it was written is said again when it is used again."""
    heard = HEARD.get([])
    return {KEY: key} | ({REMARKS: json.dumps(heard)} if heard else {})


def _say_again(path: str) -> None:
    heard: list[tuple[str, str]] = []
    with contextlib.suppress(OSError, ValueError, TypeError, RuntimeError), h5py.File(path, "r") as file:  # damaged
        heard = [(str(text), str(code)) for text, code in json.loads(attribute(file, REMARKS) or "[]")]
    for text, code in heard:
        warn(text, code) if code else note(text)


@contextlib.contextmanager
def _alone(rows: Spoolable) -> Iterator[contextlib.ExitStack]:
    """Waits while another training writes the spool of these rows, which may be used then; closed: others may write.

    If the file system has no locks, nobody waits.
    """
    with contextlib.ExitStack() as stack:
        for path in filter(os.path.isfile, rows.files()[:1]):
            with contextlib.suppress(OSError):
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                stack.callback(os.close, handle)
                if not _locked(handle):
                    note(f"{rows.name}: waiting for the program that has locked it, such as another training")
                    while not _locked(handle):
                        time.sleep(WAIT)
        yield stack


def _locked(handle: int) -> bool:
    """Lock a file for this process alone; False if another one has it. OSError without locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_used(path: str) -> bool:
    """Whether this file of HDF5 is open, by this or another process: HDF5 locks a file that it reads."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return not _locked(handle)
        finally:
            os.close(handle)
    return False


def _check_apart(path: str, rows: Spoolable, read: Sequence[str]) -> None:
    """Raise UsageError if a spool of these rows would replace a file that is read, now or when it gets its name."""
    try:
        check_apart({"the spool": path}, [*rows.files(), *read])
    except UsageError as error:
        raise UsageError(
            f"{path} is a file that is read, and the rows of {rows.name} are to be written there; name another folder "
            "with `spool=DIR`"
        ) from error


def again(stack: contextlib.ExitStack, reader: Reader, folder: str | None) -> Reader:
    """This reader, or if it can be read once only a reader of a copy, which the stack removes."""
    if not reader.once:
        return reader
    near = ""
    if folder is not None:
        make_folder(folder)
        near = os.path.join(folder, "")
    path = os.path.join(stack.enter_context(temporary_folder(near)), "stream")
    return reader.copied(path) if isinstance(reader, Delimited) else Staged(reader, path)


def is_kept(key: str, path: str) -> bool:
    """Whether this is a spool of this key, which may be used again. Raises OutputError if another file is there."""
    if not os.path.exists(path):
        return False
    try:
        with h5py.File(path, "r") as file:
            found = attribute(file, KEY)  # HDF5 itself may not come back from a damaged one
            if isinstance(found, str):
                return found == key != ""
    except (OSError, ValueError, KeyError, RuntimeError):  # damaged
        pass
    raise OutputError(f"{path} exists, and was not written from a table; rename it, or name a folder with `spool=DIR`")


def found_again(reader: Reader, row: int, columns: Sequence[str]) -> str:
    """The place of any row of a text, which is read up to there; columns: that are read."""
    rows = 0
    for batch in reader.batches(columns, frozenset(columns)):
        rows += batch.num_rows
        if row < rows:
            break
    return reader.place(row)


class Staged(Reader):
    """Passes on the batches of another reader and writes them to a file; afterwards yields them from there.

    Each batch is an Arrow stream of its own, as text has no types: a column may hold numbers here and words there.
    """

    def __init__(self, reader: Reader, path: str) -> None:
        self.reader: Reader = reader
        self.path: str = path
        self.take_after(reader)
        self._again = False  # whether the latest batch is from the file
        self._columns: list[str] = []  # that are written, once all rows are
        self._text: set[str] = set()  # those of them that are text in every batch, or gaps

    def batches(self, columns: Sequence[str], words: frozenset[str]) -> Iterator[pa.RecordBatch]:
        if self.reader.once and not self._columns:  # all of it now, as whoever reads may stop early, or ask for more
            for _ in self._passed(self.reader.columns, frozenset()):
                pass
        if self.reader.once or (set(self._columns) >= set(columns) and self._text >= words & set(columns)):
            self._again = True
            for batch in self._written(columns):
                yield worded(batch, words)
            return
        yield from self._passed(columns, words)

    def _passed(self, columns: Sequence[str], words: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """Batches of the other reader, which are written to the file."""
        self._again = False
        self._columns, self._text = [], set(columns)
        with writes(self.path), pa.OSFile(self.path, "wb") as file:
            for batch in self.reader.batches(columns, words):
                with pa.ipc.new_stream(file, batch.schema) as stream:
                    stream.write_batch(batch)
                self._text -= {field.name for field in batch.schema if kind_of(field.type) not in ("words", "")}
                yield batch
        self._columns = list(columns)

    def _written(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(self.path) as file:
            size = file.size()
            while file.tell() < size:
                for batch in pa.ipc.open_stream(file):
                    yield batch.select(list(columns))

    @property
    def numeric(self) -> frozenset[str]:
        return self.reader.numeric

    @property
    def categories(self) -> frozenset[str]:
        return self.reader.categories

    def place(self, row: int) -> str:
        again = self._again and not self.typed
        return found_again(self.reader, row, self._columns) if again else self.reader.place(row)

    def files(self) -> list[str]:
        return self.reader.files()

    def fingerprint(self) -> str:
        return self.reader.fingerprint()


Check = Callable[[int, int, int], None]  # of rows, columns, and the least bytes of a row
EXACT_FLOAT32_TYPES = {"float", "halffloat", "int8", "uint8", "int16", "uint16", "bool"}  # whose values float32 has


@dataclass(frozen=True)
class OfTable(Spoolable):
    """The rows of a table, as numbers. schema: that of another table, as held-out rows have it; None: it is learnt.

    `dtype`  that of the values, None for that of the schema. `hint`: for messages, what keeps values that it has not.
    `told`   whether the size is said before it is written.
    `check`  raises if so many rows of so many columns, each of these bytes at least, cannot be used. Then nothing is
             written.
    `y`, `weight`  labels and weights of another file, FILE.npy or FILE:NAME, in the order of the rows.
    """

    table: Table
    schema: Schema | None = None
    dtype: np.dtype | None = None
    hint: str = SAME_WIDTH
    told: bool = True
    check: Check = lambda rows, features, row_bytes: None
    y: str | None = None
    weight: str | None = None

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def named(self) -> Mapping[str, object]:
        return {"y": self.y, "sample_weight": self.weight}

    def key(self) -> str:
        own, others = self.table.key(self.schema), _files_named(self.y, self.weight)
        return f"{own} {self.y} {self.weight} {stamp(others)}" if own and others else own

    def line(self, row: int) -> str:
        reader = self.table.reader
        return "" if reader.typed or reader.once else found_again(reader, row, reader.columns[:1])

    def files(self) -> list[str]:
        return [*self.table.reader.files(), *_files_named(self.y, self.weight)]

    def write(self, path: str, force: bool) -> RowWriter:
        """Text is parsed once; what was parsed is kept beside the output meanwhile."""
        if (written := self.write_numbers(path, force)) is not None:
            return written
        with contextlib.ExitStack() as stack:
            table = self.table
            if not table.reader.typed:
                stage = os.path.join(stack.enter_context(temporary_folder(path)), "stage")
                table = replace(table, reader=Staged(table.reader, stage))
            schema, count = learn(table, self.schema)
            dtype = np.dtype(self.dtype or schema.dtype)
            narrowing = None if schema.sparse else Narrowing(dtype, table.name, self.hint)
            parts = rows_of(table.reader, schema, table.asked, table.beside, narrowing)
            return self._rows(schema, count, parts, path, force, self._plain)

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
            return self._rows(numbers.schema, count, numbers.parts(), path, force)
        except OtherValues:  # what is there is found out first, then
            return None

    def _rows(
        self, schema: Schema, count: int, parts: Iterator[Batch], path: str, force: bool, again: bool = False
    ) -> RowWriter:
        """Write these rows. again: after one pass would not do, which has told a size already."""
        self.check(count, schema.features, 0 if schema.sparse else schema.row_bytes)
        if self.told and not (again and schema.dtype == "float32"):
            what = "its numbers need float64, so they take" if again else f"its {count} rows are written to {path},"
            words = any(column.kind == TEXT for column in schema.columns)  # how many is known once they are written
            size = format_size(count * schema.row_bytes) + " of numbers" * (not again)
            size = "as large as their words need" if words else f"{size} at most"
            note(f"{self.name}: {what} {size}", again=False)
        label = _label_column(self.table) or column_of_labels(self.y)
        with contextlib.ExitStack() as stack:
            y, weight = column_of(self.y, self.name, LABELS), column_of(self.weight, self.name, WEIGHTS)
            parts = beside(parts, self.name, How(path, stack, y=y, weight=weight))
            found = Ordered(parts, schema.sparse, schema.features, np.dtype(self.dtype or schema.dtype), schema.names(),
                            label, name=self.name, key=self.key)  # fmt: skip
            plain = {SCHEMA: json.dumps(schema.to_plain())}
            return write_rows(found, path, force, lambda: _attributes(found.before) | plain)


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

    @property
    def named(self) -> Mapping[str, object]:
        return {"x": self.how.x, "y": self.how.y, "sample_weight": self.how.weight}

    def key(self) -> str:
        files = fingerprint([*self.paths, *_files_named(self.how.y, self.how.weight)])
        told = repr((files, replace(self.how, memory=MEMORY), __version__))  # which any may be
        return hashlib.blake2b(told.encode(), digest_size=16).hexdigest() if files else ""

    def files(self) -> list[str]:
        return files_of([*self.paths, *_files_named(self.how.y, self.how.weight)])

    def write(self, path: str, force: bool) -> RowWriter:
        with contextlib.ExitStack() as stack:
            found = open_matrix(self.paths, replace(self.how, near=path, opened=stack))
            if found.features is not None:
                self.check(1, found.features, 0 if found.sparse else found.features * value_dtype(found.dtype).itemsize)
            rows = _labelled(found, self.name) if self.labelled else found.batches
            found = replace(found, batches=rows, name=self.name, key=self.key)
            return write_rows(found, path, force, lambda: _attributes(found.before))


def _files_named(*columns: str | None) -> list[str]:
    """The files that labels and weights of these names are read from."""
    found = [part for name in columns if name for part in (name, name.rpartition(":")[0])]
    return [name for name in found if os.path.isfile(name)]


def _labelled(found: Ordered, name: str) -> Iterator[Batch]:
    """The batches. Raises DataError if they have no labels."""
    for batch in found.batches:
        if batch.labels is None:
            by_name = " or, by the names of the rows, `y=TABLE:COLUMN`" if found.ids is not None else ""
            own = f"they could be {listed(found.beside)}; " if found.beside else ""
            raise DataError(
                f"{name} has no labels; {own}name them with {'`y=NAME`, ' * bool(own)}`y=FILE.npy`{by_name}"
            )
        yield batch


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
    """The rows of such a table, as float32."""

    def __init__(self, table: Table) -> None:
        self.table = table
        columns, named = tuple(map(Column, table.values)), table.reader.named
        self.schema = Schema(columns, table.labels, "float32", named, weight=table.weight)
        self.dated = [pa.types.is_integer(table.reader.types[name]) for name in table.values]  # all read as dates
        self.rising = [Rising(dated) for dated in self.dated]
        self._exact = [str(table.reader.types[name]) in EXACT_FLOAT32_TYPES for name in table.values]

    def parts(self) -> Iterator[Batch]:
        """The rows in order. Raises OtherValues if a value does not fit; then nothing of it is good.

        After the last row, a warning names the numbers that read as dates, or rise as ids do.
        """
        table = self.table
        beside = table.beside
        first = 0
        for found in table.reader.batches(list(dict.fromkeys([*table.values, *beside.given])), frozenset()):
            columns = [self._column(place, column)
                       for place, column in enumerate(found.columns[: len(table.values)])]  # fmt: skip
            X = np.empty((found.num_rows, len(columns)), np.float32)
            fill(X, enumerate(columns))
            if not np.isfinite(X).all():  # NaN is a gap, and infinity has its row named elsewhere
                raise OtherValues
            yield beside_rows(Batch(X, None, None, None, None, None), found, table.reader, beside, first)
            first += found.num_rows
        say_dates(table.name, [name for name, dated in zip(table.values, self.dated, strict=True) if dated])
        if first >= FEWEST:
            found = zip(table.values, self.rising, self.dated, strict=True)
            say_ids(table, {name: rising for name, rising, dated in found if not dated})

    def _column(self, place: int, column: pa.Array) -> np.ndarray:
        if column.null_count:
            raise OtherValues
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        values = np.asarray(column.to_numpy(zero_copy_only=False))
        if not self._exact[place] and not fits_float32(values):
            raise OtherValues
        self.dated[place] = self.dated[place] and like_dates(values)
        self.rising[place].add(values)
        return values
