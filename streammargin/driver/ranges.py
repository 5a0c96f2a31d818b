"""The ranges of the columns, seen in the first pass: where they differ much, scaling is worth a word."""

from __future__ import annotations

import numpy as np

from streammargin.compiled.columns import dense_ranges, extremes, sparse_ranges
from streammargin.rows.blocks import Block, DenseBlock
from streammargin.rows.labels import RowLabels
from streammargin.solvers.problem import Problem

ROWS = 2_000  # looked at, evenly spread: of large data hardly any, so that the pass is as fast as the next
MUCH = 1e3  # times the smallest range


class Ranges:
    """The largest |x| of each column, over at most ROWS rows that are evenly spread and present.

    largest (d,), of the type of the rows; 0 for a column of zeros.
    """

    def __init__(self, problem: Problem, labels: RowLabels) -> None:
        self.codes, self.weights = labels.codes, labels.weights
        self.step = -(-problem.rows // ROWS)
        self.largest = np.zeros(problem.features, problem.dtype)

    def add(self, first: int, block: Block) -> None:
        """One block, in any order; `first` is the number of its first row."""
        rows = slice(first, first + block.rows())
        codes, weights = self.codes[rows], self.weights[rows]
        start = -first % self.step
        if isinstance(block, DenseBlock):
            dense_ranges(block.X, codes, weights, start, self.step, self.largest)
        else:
            sparse_ranges(block.data, block.indices, block.indptr, codes, weights, start, self.step, self.largest)

    def remark(self) -> str | None:
        """What to say of ranges that differ by more than MUCH, options marked (see wording.py); or None."""
        large, small = extremes(self.largest)
        if small < 0:
            return None
        high, low = float(self.largest[large]), float(self.largest[small])
        if not high > MUCH * low:
            return None
        return (
            f"the ranges of the columns differ by a factor of {high / low:.1g}: column {large} reaches {high:.3g}, "
            f"column {small} only {low:.3g}; that takes more passes and penalises the small columns most; try "
            "`scale=maxabs`"
        )
