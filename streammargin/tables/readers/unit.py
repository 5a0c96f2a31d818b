"""A row group of Parquet: its columns are decoded a few at a time, and given row by row.

Side by side they need the buffers of all columns at once. Decoded columns that memory has no room for go to a file.
Pyarrow trusts the footer: a damaged entry of it ends the process when Python asks for it. A reader of rows looks at the
same entries with care. It opens all columns of a row group before it reads the first byte of one, so a file that gives
no bytes is enough.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from streammargin.arrow import pa
from streammargin.files import temporary_folder, writes
from streammargin.tables.header import StoredNames
from streammargin.tables.readers.base import Room


class _AskedError(Exception):
    """A byte was asked for, so that all entries are fine."""


class _Unread(io.FileIO):
    """A file of a known size, of which no byte is read."""

    def read(self, size: int | None = -1) -> NoReturn:
        raise _AskedError


def check_chunks(path: str, metadata: Any, groups: Iterable[int]) -> None:
    """Look at the entry of each column in these row groups. Raises errors of Arrow for a damaged one."""
    from streammargin.arrow import parquet

    with _Unread(path) as unread, parquet.ParquetFile(unread, metadata=metadata, buffer_size=1) as file:
        for group in groups:
            try:
                next(file.iter_batches(1, row_groups=[group], use_threads=False), None)
            except _AskedError:
                continue


class RowGroup(NamedTuple):
    """A row group of a Parquet file, whose columns can be decoded one by one."""

    file: Any
    number: int
    stored: StoredNames

    def table(self, names: Sequence[str]) -> pa.Table:
        """All rows of these columns, in this order."""
        columns = self.stored.stored(names)
        found = self.file.read_row_group(self.number, columns=columns, use_threads=False)
        return self.stored.called(found, names)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The same, so many rows at a time."""
        columns = self.stored.stored(names)
        for batch in self.file.iter_batches(rows, row_groups=[self.number], columns=columns):
            yield self.stored.called(batch, names)


def parts(sizes: Mapping[str, int], most: int) -> Iterator[list[str]]:
    """Names side by side whose sizes are `most` together, or one name each."""
    part: list[str] = []
    total = 0
    for name, size in sizes.items():
        if part and total + size > most:
            yield part
            part, total = [], 0
        part.append(name)
        total += size
    if part:
        yield part


def by_rows(unit: RowGroup, sizes: Mapping[str, int], rows: int, room: Room) -> Iterator[pa.RecordBatch]:
    """The rows of a unit, `rows` at a time; sizes: the names of its columns, with the bytes of each."""
    held: list[pa.ChunkedArray] = []
    taken = 0  # bytes of these
    paths: list[str] = []
    with contextlib.ExitStack() as stack:
        folder = ""

        def write(batches: Iterable[pa.RecordBatch]) -> None:
            nonlocal folder
            folder = folder or stack.enter_context(temporary_folder(room.near))
            paths.append(_written(batches, os.path.join(folder, str(len(paths)))))

        def side_by_side(columns: Sequence[pa.ChunkedArray]) -> list[pa.RecordBatch]:
            return pa.Table.from_arrays(columns, names=list(map(str, range(len(columns))))).to_batches()

        for names in parts(sizes, room.decoding):
            large = sum(sizes[name] for name in names) > room.decoded  # a column that memory never holds
            if not large:
                more = unit.table(names).columns
                held, taken = held + more, taken + sum(column.get_total_buffer_size() for column in more)
            if held and (large or taken > room.decoded):
                write(_batches_of(side_by_side(held), rows))
                held, taken = [], 0
            if large:
                write(_batches_of(unit.batches(names, rows), rows))
        if not paths:
            table = pa.Table.from_arrays(held, names=list(sizes))
            table.validate(full=True)  # of a damaged file
            yield from table.to_batches(rows)
            return
        if held:
            write(_batches_of(side_by_side(held), rows))
        held = []
        streams = [pa.ipc.open_stream(stack.enter_context(pa.OSFile(path))) for path in paths]
        for found in zip(*streams, strict=True):
            columns = [column for batch in found for column in batch.columns]
            yield pa.RecordBatch.from_arrays(columns, names=list(sizes))


def _batches_of(found: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of these batches, which may be smaller, `rows` at a time."""
    rest: list[pa.RecordBatch] = []
    for batch in found:
        batch.validate(full=True)
        rest.append(batch)
        while sum(each.num_rows for each in rest) >= rows:
            table = pa.Table.from_batches(rest)
            yield from table.slice(0, rows).combine_chunks().to_batches()
            rest = table.slice(rows).to_batches()
    if rest:
        yield from pa.Table.from_batches(rest).combine_chunks().to_batches()


def _written(batches: Iterable[pa.RecordBatch], path: str) -> str:
    """Write these batches, of which there is one at least."""
    with contextlib.ExitStack() as stack:
        stream = None
        for batch in batches:
            with writes(path):
                if stream is None:
                    file = stack.enter_context(pa.OSFile(path, "wb"))
                    stream = stack.enter_context(pa.ipc.new_stream(file, batch.schema))
                stream.write_batch(batch)
    return path
