"""Rows that are read front to back, for a model: scored while they are read, and never kept."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from streammargin.errors import DataError, UsageError
from streammargin.files import temporary_folder
from streammargin.model.columns import ERROR, checked
from streammargin.model.rows import Ordered, Rows
from streammargin.model.scoring import Scorer
from streammargin.ordered import is_matrix
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock
from streammargin.sources.batch import Batch
from streammargin.sources.label_column import ATTRIBUTE
from streammargin.sources.labels import LabelCursor
from streammargin.sources.open import paths_of
from streammargin.sources.schema import Schema, plain_schema
from streammargin.tables.asked import Asked
from streammargin.tables.formats import NPZ, format_of, is_pipe
from streammargin.tables.header import Expected
from streammargin.tables.matrices.base import MEMORY, How, tasks_in_memory
from streammargin.tables.matrices.open import fingerprint, open_matrix
from streammargin.tables.open import Layout, open_table
from streammargin.tables.readers.base import check_same
from streammargin.tables.readers.room import USUAL, Room, scratch
from streammargin.tables.table import Beside, apart, matched


class Wanted(NamedTuple):
    """The request for rows to score, as for `Model.rows_of`."""

    x: str | None
    y: Any
    labelled: bool
    unknown: str
    id: tuple[str, ...]
    tasks: Any
    memory: int | None
    missing_columns: str


@contextlib.contextmanager
def in_order(data: Any, model: Scorer, schema: Schema | None, wanted: Wanted) -> Iterator[Ordered]:
    """The rows of a table, or of files of numbers, for a model, whose columns the schema has; None: it has none.

    Raises DataError, InputMissingError, UsageError.
    """
    y, memory = wanted.y, wanted.memory
    asked = Asked(unknown=wanted.unknown)
    missing = checked(wanted.missing_columns)
    if is_matrix(data):
        with ExitStack() as stack:
            near = os.path.join(stack.enter_context(temporary_folder(os.path.join(scratch(), ""))), "rows")
            named = y if wanted.labelled and isinstance(y, str) else None
            how = How(near, stack, wanted.x, named, memory=MEMORY if memory is None else memory)
            tasks = None if wanted.tasks is None else tasks_in_memory(wanted.tasks, "the rows")
            yield MatrixRows(data, model.answer.features, how, wanted.id, tasks)
        return
    if wanted.tasks is not None and not isinstance(wanted.tasks, str):
        raise UsageError("`tasks` of a table is the name of a column, not an array; put the tasks into the table")
    if y is not None and not isinstance(y, (str, int, tuple)):
        raise UsageError("`y` of a table is the name of a column, not an array; put the labels into the table")
    schema = schema or plain_schema(model.feature_names_in_, model.answer.features, model.header.get(ATTRIBUTE))
    if y is None:
        y = schema.labels or tuple(model.outputs or ())
    if wanted.labelled and y == ():
        raise UsageError("the column of the labels is not known; name it with `y`")
    y = y if wanted.labelled else None
    yield TableRows(data, schema, asked, y, wanted.id, memory, wanted.tasks or "", missing)


class TableRows(Ordered):
    """The rows of a table as the schema of a model makes them; read once, in order.

    y: the column of the labels, or several; None for none; id, tasks: those of names of rows and of their tasks.
    Raises DataError if the table lacks columns. memory: bytes for reading; None: the usual ones.
    """

    matched: bool = True

    def __init__(
        self, data: Any, schema: Schema, asked: Asked, y: Any = None, id: tuple[str, ...] = (),
        memory: int | None = None, tasks: str = "", missing: str = ERROR,
    ) -> None:  # fmt: skip
        known = frozenset(column.name for column in schema.columns) if schema.named else frozenset()
        label = next(iter(schema.labels), None) if y is None or isinstance(y, tuple) else y
        expected = Expected(label, y is not None, known)
        self.reader: Any = open_table(data, Layout(expected=expected), room=USUAL if memory is None else Room(memory))
        self.name: str = self.reader.name
        self.features: int = schema.features
        labels = () if y is None else tuple(map(str, apart(y, self.reader)))
        self.schema: Schema = matched(self.reader, schema, labels, id, tasks, missing)
        self.asked: Asked = asked
        self._beside = Beside(labels, id=id, tasks=tasks)

    def blocks(self) -> Iterator[Rows]:
        from streammargin.tables.apply import rows_of

        rows, before = False, self.reader.fingerprint()
        for part in rows_of(self.reader, self.schema, self.asked, self._beside):
            batch, rows = part.batch, True
            block = _block(batch, np.dtype(self.schema.dtype), self.features)
            yield Rows(part.first, block, batch.labels, part.ids, batch.tasks)
        check_same(self.reader.fingerprint(), before, self.name)
        if not rows:
            raise DataError(f"{self.name} has no rows; check the input")


class MatrixRows(Ordered):
    """Rows of numbers of files, read once, in order; of sparse ones those of a model with this many columns.

    how: closes the files. ids: columns with names of rows; barcodes have any name. tasks (n,): of the rows, or None.
    Raises DataError, UsageError.
    """

    matched: bool = False

    def __init__(
        self, data: Any, features: int, how: How, ids: Sequence[str] = (), tasks: np.ndarray | None = None
    ) -> None:  # fmt: skip
        paths = paths_of(data)
        self.name = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
        self._fingerprint = functools.partial(fingerprint, paths)
        self._before = self._fingerprint()
        self.found = open_matrix(paths, how)
        self.names = self.found.names
        stored = self.found.features
        self.features = features if stored is None else stored
        self.tasks, self._ids = tasks, [self._names(paths, how, name) for name in ids]

    def _names(self, paths: list[str], how: How, name: str) -> Callable[[int], np.ndarray]:
        """What takes so many of the names of rows that are called so: of barcodes, or a column beside the rows."""
        inside = ":" not in name and not name.endswith(".npy")
        if self.found.ids is not None and inside:
            ids = self.found.ids
            return lambda count: np.array(list(itertools.islice(ids, count)), object)
        if any(map(is_pipe, paths)):
            raise UsageError(f"{self.name} is a pipe, which is read once, so it has no names of rows; leave out `id`")
        if inside and format_of(paths[0]) != NPZ:
            raise UsageError(f"{self.name} has no names of rows; name those of another file, with `id=FILE.npy` or "
                             "`id=FILE:NAME`, or leave `id` out")  # fmt: skip
        again = open_matrix(paths, replace(how, y=name))
        return LabelCursor(batch.labels for batch in again.batches if batch.labels is not None).take

    def blocks(self) -> Iterator[Rows]:
        """A batch of the file at a time."""
        first = 0
        for batch in self.found.batches:
            if not batch.rows:
                continue
            widest = int(batch.indices.max()) + 1 if batch.indices is not None and batch.indices.size else 0
            if widest > self.features:
                raise DataError(
                    f"{self.name} has {widest} columns or more, but the model was trained on {self.features}"
                )
            ids = tuple(take(batch.rows) for take in self._ids)
            tasks = None if self.tasks is None else self.tasks[first : first + batch.rows]
            if tasks is not None and len(tasks) < batch.rows:
                raise DataError(f"{self.name} has more rows than the {len(tasks) + first} tasks; give one for each row")
            yield Rows(first, _block(batch, self.found.dtype, self.features), batch.labels, ids, tasks)
            first += batch.rows
        check_same(self._fingerprint(), self._before, self.name)
        if not first:
            raise DataError(f"{self.name} has no rows; check the input")
        if self.tasks is not None and len(self.tasks) > first:
            raise DataError(f"{self.name} has {first} rows, but there are {len(self.tasks)} tasks; give one for each")


def _block(batch: Batch, dtype: np.dtype, features: int) -> Block:
    """Rows in the type that those of a training have."""
    if batch.X is not None:
        return DenseBlock(np.ascontiguousarray(batch.X, dtype), 0.0)
    assert batch.data is not None and batch.indices is not None and batch.indptr is not None
    indptr = np.ascontiguousarray(batch.indptr, np.int64)
    return CSRBlock(batch.data.astype(dtype), batch.indices.astype(np.uint32), indptr, features, 0.0)
