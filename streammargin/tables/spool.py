"""Write rows that are read front to back once to a file that can be read at random: an HDF5 file, their spool.

A spool has the key of what it was made of: the files, the options and this package. It is used again while these stay
the same.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import h5py
import pyarrow as pa

from streammargin.errors import OutputError, UsageError
from streammargin.files import check_apart, make_folder, temporary_folder, writes
from streammargin.sources.hdf5.file import open_file
from streammargin.sources.hdf5.nodes import attribute
from streammargin.sources.schema import Schema
from streammargin.sources.view import View
from streammargin.tables.readers.base import Reader
from streammargin.tables.readers.delimited import Delimited
from streammargin.tables.types import kind_of, worded
from streammargin.wording import note

KEY = "streammargin-table"  # an attribute of a spool


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

    @abstractmethod
    def write(self, path: str, force: bool) -> object:
        """Write all rows to a new file, with the key. Raises DataError, OutputError, ReadWriteError."""


class SpooledSource(View):
    """The rows of a spool under the name of what it was made of, with the schema that made them."""

    def __init__(self, path: str, rows: Spoolable, y: Any = None, weight: Any = None) -> None:
        super().__init__(open_file(path, None, y, weight))
        self.name: str = rows.name
        self._rows = rows
        plain = self.schema()
        self.table_schema: Schema | None = None if plain is None else Schema.from_plain(plain)

    def __reduce__(self) -> Any:
        return View, (self.source,)  # other processes need no more

    def files(self) -> list[str]:
        return [*self._rows.files(), *self.source.files()]

    def label_place(self, row: int) -> tuple[str, int]:
        return self.name, row


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
            if is_kept(rows.key(), path):
                note(f"{rows.name}: rows are read from {path}, as nothing has changed since it was written")
            else:
                _check_apart(path, rows, read)
                rows.write(path, True)
        pa.default_memory_pool().release_unused()  # the budget is the training's now
        source = SpooledSource(path, rows, y, weight)
        stack.callback(source.close)
        yield source


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
        if self._again and not self.typed:  # find the piece of text that has the row
            rows = 0
            for batch in self.reader.batches(self._columns, frozenset(self._columns)):
                rows += batch.num_rows
                if row < rows:
                    break
        return self.reader.place(row)

    def files(self) -> list[str]:
        return self.reader.files()

    def fingerprint(self) -> str:
        return self.reader.fingerprint()
