"""Workers write the partitions of a collection to pieces, or count what the columns of all of them hold."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial, wraps
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from distributed import get_worker

from streammargin.arrow import pa
from streammargin.dask.partitions import Partitions, RowGroups, WithTasks
from streammargin.dask.pieces import Written, place, written
from streammargin.errors import DataError, OutputError, StreamMarginError, UsageError
from streammargin.sources.hdf5.from_batches import write_batches
from streammargin.sources.hdf5.write import LabelWriter, writable
from streammargin.sources.labels import TASKS, class_values
from streammargin.tables.formats import is_table
from streammargin.tables.open import open_table
from streammargin.tables.readers.base import Reader
from streammargin.tables.spool import OfTable
from streammargin.tables.tally import Counting, Tallied, tally, together

T = TypeVar("T")


class WrittenPart(NamedTuple):
    """A partition: its collection, its number, the file of its piece."""

    collection: str
    number: int
    file: str

    @property
    def name(self) -> str:
        """For messages."""
        return f"partition {self.number} of {self.collection}"


def _items(data: Any, part: WrittenPart) -> list[Any]:
    """The frames or batches of a partition that have rows. Raises UsageError if it has others."""
    if isinstance(data, tuple) or is_table(data):
        data = [data]
    elif isinstance(data, list) and data and not isinstance(data[0], (tuple, list)) and not is_table(data[0]):
        data = [tuple(data)]
    items = list(data) if isinstance(data, Iterable) else [data]
    for item in items:
        found = item[0] if isinstance(item, (tuple, list)) and item else item
        if not is_table(item) and (found is item or not hasattr(found, "__len__")):
            raise UsageError(
                f"{part.name} has a {type(found).__name__}; each is a frame, a batch (X, y), or a list of these"
            )
    return [item for item in items if not is_table(item) or len(item)]


def reader_of(data: Any, part: WrittenPart) -> Reader | None:
    """A reader of the frames of a partition; None if it has no rows, or batches."""
    if isinstance(data, RowGroups):
        found = data.reader()
        return found if found.count != 0 else None
    items = _items(data, part)
    if not items or not is_table(items[0]):
        return None
    reader = open_table(items)
    reader.name = part.collection
    reader.place = lambda row: f"partition {part.number}, row {row}"  # type: ignore[method-assign]
    return reader


def _answering(function: Callable[..., T]) -> Callable[..., T | StreamMarginError]:
    """A function whose errors are answers, too, so that it is not asked again."""

    @wraps(function)
    def answer(*given: Any) -> T | StreamMarginError:
        try:
            return function(*given)
        except StreamMarginError as error:
            return error

    return answer


@_answering
def peeked(data: Any, part: WrittenPart) -> list[str] | bool:
    """The columns of a partition of frames; else whether it has batches."""
    reader = reader_of(data, part)
    return bool(_items(data, part)) if reader is None else list(reader.columns)


@_answering
def looked(data: Any, part: WrittenPart, at: Callable[[Reader], T]) -> T | None:
    """What `at` finds in the reader of a partition of frames; None without rows."""
    reader = reader_of(data, part)
    return None if reader is None else at(reader)


@_answering
def write(
    data: Any, part: WrittenPart, rows: OfTable | None, columns: Sequence[str], digest: str, few: bool = False
) -> Written | None:  # fmt: skip
    """Write the piece of a partition, in a worker; None if numbers alone are expected, and it has other values.

    rows: of frames with these columns, whose reader is here, without a schema if numbers alone are expected; None for
    batches. digest: of the piece as it was written before; "" the first time. few: whether its first rows are sent.
    """
    path = place(part.file)
    home = os.path.dirname(path)
    if not os.path.isdir(base := os.path.dirname(os.path.dirname(home))):
        raise OutputError(f"a worker has no folder {base} to write rows to; make it, or name another with `spool=DIR`")
    os.makedirs(home, exist_ok=True)
    data, tasks = data if isinstance(data, WithTasks) else (data, None)
    if rows is None:
        items = _items(data, part)
        if not any(len(item) and _rows(item[0]) for item in items):
            return Written(get_worker().address)
        try:
            write_batches(items, path, None, True, {})
            if tasks is not None:
                _write_tasks(path, tasks)
        except (DataError, UsageError) as error:
            raise type(error)(f"{part.name}, {error.raw}") from None
    else:
        reader = reader_of(data, part)
        if reader is None:
            return Written(get_worker().address)
        if apart := sorted(set(reader.columns) ^ set(columns)):
            raise DataError(f"{part.name} differs from others by the column {apart[0]}; give all the same columns")
        rows = replace(rows, table=replace(rows.table, reader=reader))
        if rows.schema is not None:
            rows.write(path, True)
        elif rows.write_numbers(path, True) is None:
            return None
    found = written(path, few)
    if digest and found.digest != digest:
        raise DataError(
            f"{part.name} has other rows than when it was first computed; persist {part.collection}, or write it to "
            "files, and train on these"
        )
    return found


def _write_tasks(path: str, values: Any) -> None:
    """Write the tasks of all rows beside them."""
    found = class_values(np.asarray(values), TASKS, lambda row: (TASKS, row), "task")
    with writable(path, "r+") as (file, _):
        if len(found) != len(file["y"]):
            raise DataError(f"`tasks` has {len(found)} entries for {len(file['y'])} rows; they must be as many")
        with contextlib.closing(LabelWriter(file, TASKS)) as column:
            column.append(found)


def _rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


class Frames(Reader):
    """All partitions of frames, for who learns a schema of them.

    parts: those of the rows. each: the results of a function for some partitions, as of `Spool`.
    """

    def __init__(
        self, rows: Partitions, columns: list[str], parts: list[WrittenPart], each: Callable[..., list[Any]]
    ) -> None:  # fmt: skip
        self.rows, self.name, self.columns = rows, rows.name, columns
        self._parts, self._each = parts, each
        self._at: tuple[Reader, int]  # that of the latest batch, and the rows before it

    def tally(self, reader: Reader, of: Counting) -> dict[str, Tallied]:
        """`tally` of all partitions, by the workers."""
        found = self._each(looked, self.rows, self._parts, partial(tally, of=of))
        return together(self.name, (each or {} for each in found))

    @cached_property
    def types(self) -> Mapping[str, pa.DataType]:  # type: ignore[override]
        """Those of the first partition with rows."""
        for part, data in zip(self._parts, self.rows.parts, strict=True):
            [found] = self._each(looked, self.rows._replace(parts=[data]), [part], attrgetter("types"))
            if found is not None:
                return found
        return {}

    def batches(self, columns: Sequence[str], words: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """To name a row: of a partition at a time, in this process."""
        first = 0
        for reader in self.parts():
            self._at = reader, first
            for batch in reader.batches(columns, words):
                yield batch
                first += batch.num_rows

    def parts(self) -> Iterator[Reader]:
        for part, data in zip(self._parts, self.rows.parts, strict=True):
            [found] = self._each(lambda data, _: data, self.rows._replace(parts=[data]), [part])
            if (reader := reader_of(found, part)) is not None:
                yield reader

    def place(self, row: int) -> str:
        reader, first = self._at
        return reader.place(row - first)
