"""Measure the columns in the first pass: their ranges, of which one may warn, and means and standard deviations."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from streammargin.driver.status.outcome import MeasuredColumns
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock, taken
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import EVERY_COLUMN, Count, D, Stored, Sum, Total, f8, of, state
from streammargin.solvers.state import Visited
from streammargin.sources.base import MUCH, Source
from streammargin.sources.schema import Schema, plain_of
from streammargin.wording import short

MOST_RANGE_ROWS = 2_000  # evenly spaced, so that the first pass is as fast as the next
NAMED = 1 << 20  # most bytes of names of columns that are read for a warning


FAR_IN_RANGES, FAR_OF_KERNEL = 1e3, 30.0  # above this |x| of a column, in units of its range, subtract its mean


@state
class Ranges(Visited):
    """The largest |x| of each column, over at most MOST_RANGE_ROWS evenly spaced present rows; 0 for a column of zeros.

    low, high: the smallest and the largest value, of dense rows.
    """

    largest: Sum[Stored] = of(D, largest=EVERY_COLUMN)
    low: Sum[f8] = of(D, fill=math.inf, smallest=EVERY_COLUMN)
    high: Sum[f8] = of(D, fill=-math.inf, largest=EVERY_COLUMN)

    @staticmethod
    def add(problem: Problem, sums: Ranges, block: Block, first: int) -> None:
        """Add one block, in any order; first: number of its first row."""
        labels, step = sums.labels.window(first, first + block.rows()), -(-problem.rows // MOST_RANGE_ROWS)
        rows = np.arange(first + -first % step, first + block.rows(), step)
        for some in pieces(problem, rows[labels.present(rows)] - first):
            part = taken(block, some)
            if isinstance(part, CSRBlock):
                np.maximum.at(sums.largest, part.indices, np.abs(part.data))
                continue
            low, high = part.X.min(axis=0), part.X.max(axis=0)
            np.minimum(sums.low, low, out=sums.low)
            np.maximum(sums.high, high, out=sums.high)
            np.maximum(sums.largest, np.maximum(-low, high), out=sums.largest)

    def remark(self, of_kernel: bool, source: Source) -> str | None:
        """The warning for columns that should be scaled, options in backquotes (see wording.py); or None.

        of_kernel: whether a kernel sees the rows as they are. source: that of the rows.
        """
        far = self._far(FAR_OF_KERNEL if of_kernel else FAR_IN_RANGES)
        if far is not None:
            column, low, high = far
            harm = "the kernel hardly sees the spread" if of_kernel else "training takes more passes"
            return (
                f"column {called(source, column)} is far from 0 for its spread, from {low:.7g} to {high:.7g}, so that "
                f"{harm}; try `scale=std`"
            )
        if not much_apart(self.largest):
            return None
        large, small = extremes(self.largest)
        high, low = float(self.largest[large]), float(self.largest[small])
        return (
            f"the ranges of the columns differ by a factor of {high / low:.1g}: max |x| is {high:.3g} in column "
            f"{called(source, large)} and {low:.3g} in column {called(source, small)}; training takes more passes, and "
            "the penalty weighs most on small columns; try `scale=maxabs`"
        )

    def _far(self, most: float) -> tuple[int, float, float] | None:
        """(number, low, high) of the column with the largest |x| in units of its range, if it is above `most`."""
        with np.errstate(all="ignore"):
            ratio = self.largest / (self.high - self.low)  # nan or inf of a constant one
        ratio[~np.isfinite(ratio)] = 0.0
        column = int(np.argmax(ratio)) if ratio.size else -1
        found = column >= 0 and ratio[column] > most
        return (column, float(self.low[column]), float(self.high[column])) if found else None


def called(source: Source, column: int) -> str:
    """The name of a column, its number if it has none or the names are many."""
    if source.names_bytes() <= NAMED and (names := source.feature_names()) is not None:
        return short(names[column])
    table = plain_of(source)  # with hashed words, beside which others have names
    name = None if table is None else Schema.from_plain(table).name_at(column)
    return str(column) if name is None else short(name)


def pieces(problem: Problem, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Numbers of rows (m,) in pieces of some SQUARES_AT_ONCE values, of which copies are made."""
    count = max(1, int(SQUARES_AT_ONCE * problem.rows / problem.values)) if problem.values else rows.size + 1
    return (rows[start : start + count] for start in range(0, rows.size, count))


def extremes(largest: np.ndarray) -> tuple[int, int]:
    """(argmax, argmin over the nonzero values); -1 if all are 0."""
    if not largest.any():
        return -1, -1
    return int(np.argmax(largest)), int(np.argmin(np.where(largest > 0.0, largest, np.inf)))


def much_apart(largest: np.ndarray) -> bool:
    """Whether the largest |x| of the columns, (d,), differ by more than MUCH, columns of zeros apart."""
    large, small = extremes(largest)
    return small >= 0 and float(largest[large]) > MUCH * float(largest[small])


SPREAD_VALUES, OF_SPARSE = 1 << 19, 1 << 18  # about as many values are measured; of sparse rows, which take longer each
LEAST_SPREAD_ROWS = 1 << 12  # that are measured, if there are so many, evenly spaced
SQUARES_AT_ONCE = 1 << 16  # values whose squares are in memory at once
SPREAD_BUDGET_PART = 32  # one byte of so many of the budget may be used for the spread
CONSTANT = 1e-12  # a variance below this times the mean square is rounding


def bytes_of_spread(features: int, budget: int) -> int:
    """Bytes of its sums and its result; 0 if this is too large a share of the budget: then it is not measured."""
    needed = 8 * 4 * features
    return needed if SPREAD_BUDGET_PART * needed <= budget else 0


@state
class Spread(Visited):
    """Weighted sums of x and x^2 by column over evenly spaced present rows; whole: 1 once all blocks were visited."""

    total: Sum[f8] = of(D)
    squares: Sum[f8] = of(D)
    mass: Total = 0.0
    rows: Count = 0
    whole: int = 0

    @staticmethod
    def add(problem: Problem, sums: Spread, block: Block, first: int) -> None:
        """Add one block, in any order; first: number of its first row."""
        values = max(1.0, problem.values / problem.rows)  # of a row
        most = SPREAD_VALUES if isinstance(block, DenseBlock) else OF_SPARSE
        step = max(1, int(problem.rows / max(LEAST_SPREAD_ROWS, most / values)))
        rows, own = np.arange(-first % step, block.rows(), step), sums.labels.cut(first, first + block.rows())
        rows = rows[own.present(rows)]
        for some in pieces(problem, rows):
            sums._add(taken(block, some), own.weights[some] if own.weights.size else None)

    def _add(self, block: Block, weights: np.ndarray | None) -> None:
        """Add rows with these weights (m,); None: all are 1."""
        self.rows += block.rows()
        self.mass += float(block.rows() if weights is None else weights.sum())
        if isinstance(block, DenseBlock):
            X = block.X.astype(np.float64)
            weighted = X if weights is None else weights[:, None] * X
            self.total += weighted.sum(axis=0)
            self.squares += (weighted * X).sum(axis=0)
            return
        x, columns = block.data.astype(np.float64), block.indices.astype(np.intp)
        weighted = x if weights is None else np.repeat(weights, np.diff(block.indptr)) * x
        for sums, terms in ((self.total, weighted), (self.squares, weighted * x)):
            if x.size > sums.size:
                sums += np.bincount(columns, terms, sums.size)
            else:
                np.add.at(sums, columns, terms)

    @np.errstate(all="ignore")  # of what overflows nothing is told
    def measured(self) -> MeasuredColumns | None:
        """What was measured; None if that is not known, or overflows."""
        if not self.whole or not self.mass > 0.0:
            return None
        mean, square = self.total / self.mass, self.squares / self.mass
        variance = square - mean**2
        variance[variance <= CONSTANT * square] = 0.0
        return MeasuredColumns(mean, np.sqrt(variance), self.rows) if np.isfinite(variance).all() else None
