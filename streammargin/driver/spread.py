"""Measure mean and standard deviation of each column in the first pass; the model keeps them, to rank its weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streammargin.rows.blocks import Block, DenseBlock, taken
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import Count, D, Sum, Total, f8, of, state
from streammargin.solvers.state import Visited

VALUES, OF_SPARSE = 1 << 19, 1 << 18  # about as many values are measured; of sparse rows, which take longer each
LEAST = 1 << 12  # rows that are measured, if there are so many, evenly spaced
PIECE = 1 << 16  # values whose squares are in memory at once
SHARE = 32  # one byte of so many of the budget may be used for it
CONSTANT = 1e-12  # a variance below this times the mean square is rounding


class Measured(NamedTuple):
    """Means and standard deviations (d,) of the columns, 0 for a constant one, over so many rows."""

    means: np.ndarray
    deviations: np.ndarray
    rows: int


def bytes_of_spread(features: int, budget: int) -> int:
    """Bytes of its sums and its result; 0 if this is too large a share of the budget: then it is not measured."""
    needed = 8 * 4 * features
    return needed if SHARE * needed <= budget else 0


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
        most = VALUES if isinstance(block, DenseBlock) else OF_SPARSE
        step = max(1, int(problem.rows / max(LEAST, most / values)))
        rows, own = np.arange(-first % step, block.rows(), step), sums.labels.cut(first, first + block.rows())
        rows = rows[own.present(rows)]
        count = max(1, int(PIECE / values))
        for some in (rows[start : start + count] for start in range(0, rows.size, count)):
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
    def measured(self) -> Measured | None:
        """What was measured; None if that is not known, or overflows."""
        if not self.whole or not self.mass > 0.0:
            return None
        mean, square = self.total / self.mass, self.squares / self.mass
        variance = square - mean**2
        variance[variance <= CONSTANT * square] = 0.0
        return Measured(mean, np.sqrt(variance), self.rows) if np.isfinite(variance).all() else None
