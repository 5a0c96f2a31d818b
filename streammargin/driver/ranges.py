"""Measure the columns' ranges during the first pass, and warn if they differ so much that scaling would help."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled.columns import add_ranges, extremes
from streammargin.rows.blocks import Block, DenseBlock
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import ALL, D, Stored, Sum, f8, of, state
from streammargin.solvers.state import Visited
from streammargin.sources.base import MUCH

ROWS = 2_000  # most rows measured, evenly spaced, so that the first pass is as fast as the next


FAR, FAR_OF_KERNEL = 1e3, 30.0  # |x| of a column, in units of its range, from which on its mean should be subtracted


@state
class Ranges(Visited):
    """The largest |x| of each column, over at most ROWS evenly spaced present rows; 0 for a column of zeros.

    low, high: the smallest and the largest value, of dense rows.
    """

    largest: Sum[Stored] = of(D, largest=ALL)
    low: Sum[f8] = of(D, fill=math.inf, smallest=ALL)
    high: Sum[f8] = of(D, fill=-math.inf, largest=ALL)

    @staticmethod
    def add(problem: Problem, sums: Ranges, block: Block, first: int) -> None:
        """Add one block, in any order; first: number of its first row."""
        own, step = sums.labels.cut(first, first + block.rows()), -(-problem.rows // ROWS)
        codes, weights = own.codes_of(0), own.weights
        add_ranges(block, codes, weights, -first % step, step, sums.largest)
        if isinstance(block, DenseBlock):
            rows = np.arange(-first % step, block.rows(), step)
            X = block.X[rows[own.present(rows)]]
            np.minimum(sums.low, X.min(axis=0, initial=math.inf), out=sums.low)
            np.maximum(sums.high, X.max(axis=0, initial=-math.inf), out=sums.high)

    def remark(self, of_kernel: bool, told: bool) -> str | None:
        """The warning for columns that should be scaled, options in backquotes (see wording.py); or None.

        of_kernel: whether a kernel sees the rows as they are. told: it was said whether ranges differ.
        """
        far = self._far(FAR_OF_KERNEL if of_kernel else FAR)
        if far is not None:
            column, low, high = far
            harm = "the kernel hardly sees the spread" if of_kernel else "training takes more passes"
            return (
                f"column {column} is far from 0 for its spread, from {low:.7g} to {high:.7g}, so that {harm}; "
                "try `scale=std`"
            )
        if told or not much_apart(self.largest):
            return None
        large, small = extremes(self.largest)
        high, low = float(self.largest[large]), float(self.largest[small])
        return (
            f"the ranges of the columns differ by a factor of {high / low:.1g}: max |x| is {high:.3g} in column "
            f"{large} and {low:.3g} in column {small}; training takes more passes, and the penalty weighs most on "
            "small columns; try `scale=maxabs`"
        )

    def _far(self, most: float) -> tuple[int, float, float] | None:
        """(number, low, high) of the column with the largest |x| in units of its range, if it is above `most`."""
        with np.errstate(all="ignore"):
            ratio = self.largest / (self.high - self.low)  # nan or inf of a constant one
        ratio[~np.isfinite(ratio)] = 0.0
        column = int(np.argmax(ratio)) if ratio.size else -1
        found = column >= 0 and ratio[column] > most
        return (column, float(self.low[column]), float(self.high[column])) if found else None


def much_apart(largest: np.ndarray) -> bool:
    """Whether the largest |x| of the columns, (d,), differ by more than MUCH, columns of zeros apart."""
    large, small = extremes(largest)
    return small >= 0 and float(largest[large]) > MUCH * float(largest[small])
