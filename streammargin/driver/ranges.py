"""Measure the columns' ranges during the first pass, and warn if they differ so much that scaling would help."""

from __future__ import annotations

import numpy as np

from streammargin.compiled.columns import add_ranges, extremes
from streammargin.rows.blocks import Block
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import ALL, D, Stored, Sum, of, state
from streammargin.solvers.state import Visited
from streammargin.sources.base import MUCH

ROWS = 2_000  # most rows measured, evenly spaced, so that the first pass is as fast as the next


@state
class Ranges(Visited):
    """The largest |x| of each column, over at most ROWS evenly spaced present rows; 0 for a column of zeros."""

    largest: Sum[Stored] = of(D, largest=ALL)

    @staticmethod
    def add(problem: Problem, sums: Ranges, block: Block, first: int) -> None:
        """Add one block, in any order; first: number of its first row."""
        own, step = sums.labels.cut(first, first + block.rows()), -(-problem.rows // ROWS)
        codes, weights = own.codes_of(0), own.weights
        add_ranges(block, codes, weights, -first % step, step, sums.largest)

    def remark(self) -> str | None:
        """The warning for ranges that differ by more than MUCH, options in backquotes (see wording.py); or None."""
        if not much_apart(self.largest):
            return None
        large, small = extremes(self.largest)
        high, low = float(self.largest[large]), float(self.largest[small])
        return (
            f"the ranges of the columns differ by a factor of {high / low:.1g}: max |x| is {high:.3g} in column "
            f"{large} and {low:.3g} in column {small}; training takes more passes, and the penalty weighs most on "
            "small columns; try `scale=maxabs`"
        )


def much_apart(largest: np.ndarray) -> bool:
    """Whether the largest |x| of the columns, (d,), differ by more than MUCH, columns of zeros apart."""
    large, small = extremes(largest)
    return small >= 0 and float(largest[large]) > MUCH * float(largest[small])
