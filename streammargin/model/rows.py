"""Rows to score: a source, or what is read front to back, and never kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from streammargin.rows.blocks import Block, part
from streammargin.sources.base import Slices, Source
from streammargin.sources.view import View

TABLE = "table"  # the entry of a model's header that has its schema


class Rows(NamedTuple):
    """Rows from `first` on, with labels, names of rows, arrays (m,), and tasks (m,) if they are asked for.

    To be scored, tasks are numbers: a row has the score of the lines of its task alone.
    """

    first: int
    block: Block
    labels: np.ndarray | None
    ids: tuple[np.ndarray, ...] = ()
    tasks: np.ndarray | None = None

    def part(self, low: int, high: int) -> Rows:
        """Some of them, in place."""
        labels, tasks = (None if of is None else of[low:high] for of in (self.labels, self.tasks))
        ids = tuple(of[low:high] for of in self.ids)
        return Rows(self.first + low, part(self.block, low, high), labels, ids, tasks)


@dataclass(frozen=True)
class Ordered:
    """Rows that are read once, in order.

    name: for messages. blocks: yields some thousand rows at a time. names: (d,) of the columns, or None. matched:
    whether the columns are those of the model.
    """

    name: str
    features: int
    blocks: Callable[[], Iterator[Rows]]
    names: np.ndarray | None = None
    matched: bool = False

    def place(self, row: int) -> tuple[str, int]:
        """(name of the file, row), as of a source."""
        return self.name, row

    label_place = place


AnyRows = Source | Ordered


class Beside(View):
    """The rows of a source with the numbers of their tasks, of a model that has weights for each task, and names.

    names: columns with the names of rows as labels.
    """

    def __init__(self, source: Source, tasks: Slices | None, names: Sequence[Source] = ()) -> None:
        super().__init__(source)
        self.tasks = tasks
        self.names = names
