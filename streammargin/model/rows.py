"""Rows to score: a source, or what is read front to back, and never kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from streammargin.rows.blocks import Block, CSRBlock, DenseBlock, part
from streammargin.sources.arrays import value_dtype
from streammargin.sources.base import Slices, Source
from streammargin.sources.batch import Ordered
from streammargin.sources.views import View

TABLE = "table"  # the entry of a model's header that has its schema


class ModelRows(NamedTuple):
    """Rows from `first` on, with labels, names of rows, arrays (m,), and tasks (m,) if they are asked for.

    To be scored, tasks are numbers: a row has the score of the lines of its task alone.
    """

    first: int
    block: Block
    labels: np.ndarray | None
    ids: tuple[np.ndarray, ...] = ()
    tasks: np.ndarray | None = None

    def part(self, low: int, high: int) -> ModelRows:
        """Some of them, in place."""
        labels, tasks = (None if of is None else of[low:high] for of in (self.labels, self.tasks))
        ids = tuple(of[low:high] for of in self.ids)
        return ModelRows(self.first + low, part(self.block, low, high), labels, ids, tasks)


def rows_of(found: Ordered) -> Iterator[ModelRows]:
    """Rows that are read once, in the type that those of a training have."""
    first, dtype = 0, value_dtype(np.dtype(found.dtype))
    for batch in found.read():
        if batch.X is not None:
            block: Block = DenseBlock(np.ascontiguousarray(batch.X, dtype), 0.0)
        else:
            assert batch.data is not None and batch.indices is not None and batch.indptr is not None
            indptr, width = np.ascontiguousarray(batch.indptr, np.int64), found.features or 0
            block = CSRBlock(batch.data.astype(dtype), batch.indices.astype(np.uint32), indptr, width, 0.0)
        yield ModelRows(first, block, batch.labels, batch.ids, batch.tasks)
        first += batch.rows


AnyRows = Source | Ordered


def told_row(rows: AnyRows, row: int) -> str:
    """Where a row of the latest block is, for messages on its label."""
    if isinstance(rows, Ordered):
        return rows.told(row)
    where, row = rows.label_place(row)
    return f"{where}: row {row}"


class TaskedRows(View):
    """The rows of a source with the numbers of their tasks, of a model that has weights for each task, and names.

    names: columns with the names of rows as labels.
    """

    def __init__(self, source: Source, tasks: Slices | None, names: Sequence[Source] = ()) -> None:
        super().__init__(source)
        self.tasks = tasks
        self.names = names
