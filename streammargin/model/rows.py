"""Rows to score: a source, or what is read front to back, and never kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from streammargin.rows.blocks import Block
from streammargin.sources.base import Source

TABLE = "table"  # the entry of a model's header that has its schema


class Rows(NamedTuple):
    """Rows from `first` on, with labels, names of rows, and tasks (m,) if they are asked for."""

    first: int
    block: Block
    labels: np.ndarray | None
    ids: np.ndarray | None
    tasks: np.ndarray | None = None


class Ordered(Protocol):
    """Rows that are read once, in order.

    name: for messages. names: (d,) of the columns, or None. matched: whether the columns are those of the model.
    labelled: whether each block has its labels, if there are any.
    """

    name: str
    features: int
    names: np.ndarray | None
    matched: bool

    def place(self, row: int) -> tuple[str, int]:
        """(name of the file, row), as of a source."""

    def label_place(self, row: int) -> tuple[str, int]:
        """The same of a label."""

    def blocks(self) -> Iterator[Rows]:
        """Some thousand rows at a time."""


AnyRows = Source | Ordered
