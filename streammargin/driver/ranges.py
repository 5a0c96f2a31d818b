"""Measure the columns' ranges during the first pass, and warn where they differ so much that scaling would help."""

from __future__ import annotations

import numpy as np

from streammargin.compiled.columns import dense_ranges, extremes, sparse_ranges
from streammargin.rows.blocks import Block, DenseBlock
from streammargin.rows.labels import RowLabels
from streammargin.solvers.problem import Problem
from streammargin.sources.base import MUCH

ROWS = 2_000  # most rows measured, evenly spaced, so that the first pass is as fast as the next


class Ranges:
    """The largest |x| of each column, over at most ROWS evenly spaced rows that are present.

    largest (d,), with the rows' dtype; 0 for a column of zeros.
    """

    def __init__(self, problem: Problem) -> None:
        self.step: int = -(-problem.rows // ROWS)
        self.largest: np.ndarray = np.zeros(problem.features, problem.dtype)

    def add(self, first: int, block: Block, labels: RowLabels) -> None:
        """Add one block, in any order; first: number of its first row; labels: they cover its rows."""
        own = labels.cut(first, first + block.rows())
        codes, weights = own.codes_of(0), own.weights
        start = -first % self.step
        if isinstance(block, DenseBlock):
            dense_ranges(block.X, codes, weights, start, self.step, self.largest)
        else:
            sparse_ranges(block.data, block.indices, block.indptr, codes, weights, start, self.step, self.largest)

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
