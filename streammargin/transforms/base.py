"""The base class of steps on rows: values become others by their own row, and by what a read of all rows learned."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from streammargin.kinds import Number
from streammargin.words import Thing

POSITIVE = Number("a positive number", lambda value: 0.0 < value < math.inf)

Learned = dict[str, np.ndarray]  # arrays (d,) float64 by name


class RowFault(Exception):
    """A row that a step cannot take. row: its number in the block; the text follows `row N`, or `column` of it."""

    def __init__(self, row: int, text: str, column: int | None = None) -> None:
        super().__init__(text)
        self.row, self.column = row, column

    def told(self, names: Sequence[object] | np.ndarray | None) -> str:
        """What follows `row N`; names (d,): of the columns, or None."""
        column = self.column if self.column is None or names is None else names[self.column]
        return str(self) if column is None else f", column {column}{self}"


class TransformSums(NamedTuple):
    """What a step learns from. counts (d,): rows with a value other than 0 in each column; rows: all of them.

    Rows count as often as their weights say. Values are those as stored: no step of ours makes a value 0.
    """

    counts: np.ndarray
    rows: float


class Stored(NamedTuple):
    """Where the stored values (v,) of m rows are: those of row i at starts[i] .. starts[i+1].

    starts (m+1,) int64, from 0; columns (v,): the column of each value, or None for dense rows; width: d; raw (v,): the
    values before all steps, for messages.
    """

    starts: np.ndarray
    columns: np.ndarray | None
    width: int
    raw: np.ndarray | None = None

    def sums(self, values: np.ndarray) -> np.ndarray:
        """The sum (m,) of each row. It does not depend on the rows beside it."""
        found = np.zeros(self.starts.size - 1)
        filled = np.flatnonzero(np.diff(self.starts))
        if filled.size:
            found[filled] = np.add.reduceat(values, self.starts[filled])
        return found

    def of_rows(self, each: np.ndarray) -> np.ndarray:
        """For each value (v,) the number of its row; each (m,)."""
        return np.repeat(each, np.diff(self.starts))

    def of_columns(self, each: np.ndarray) -> np.ndarray:
        """For each value (v,) the number of its column; each (d,)."""
        return np.tile(each, self.starts.size - 1) if self.columns is None else each[self.columns]

    def refuse(self, wrong: np.ndarray, values: np.ndarray, text: str) -> None:
        """Raise RowFault for the first value that is wrong (v,), if there is one."""
        if wrong.any():
            at = int(wrong.argmax())
            row = int(np.searchsorted(self.starts, at, side="right")) - 1
            column = at % self.width if self.columns is None else int(self.columns[at])
            raw = values[at] if self.raw is None else self.raw[at]
            behind = "" if raw == values[at] else f", which other steps make {values[at]:g}"
            raise RowFault(row, f" is {raw:g}{behind}{text}", column)


class Transform(Thing, ABC):
    """A step that rows take. A subclass with `values` is one; it also has `learn` if it names arrays in `learns`.

    A value of 0 must stay 0, so that sparse rows stay sparse. The first line of a subclass's docstring is its help.
    """

    learns: ClassVar[tuple[str, ...]] = ()  # names of the arrays (d,) that `learn` returns

    @abstractmethod
    def values(self, values: np.ndarray, rows: Stored, learned: Learned) -> np.ndarray:
        """The values (v,) after this step, given those before it, float64, which it may overwrite.

        The result for a row must not depend on the rows beside it. Raises RowFault.
        """

    def learn(self, seen: TransformSums) -> Learned:
        """The arrays (d,) that `values` takes; they are stored in the model."""
        return {}

    def refuse_negative(self, values: np.ndarray, rows: Stored) -> None:
        """Raise RowFault for a value below 0."""
        rows.refuse(values < 0.0, values, f", and the step {self} takes no value below 0; leave the step out")
