"""One read that finds the scale of every column, for --scale."""

from __future__ import annotations

import sys

import numpy as np

from streammargin.data.base import Source
from streammargin.data.scaled import ScaledSource
from streammargin.driver.plan import least_budget, make_plan
from streammargin.driver.prefetch import BlockReader
from streammargin.errors import DataError
from streammargin.specs.blocks import Block, DenseBlock


class Scaling:
    """x / max|x|, or (x - mean) / standard deviation, of the columns of the present rows.

    Sparse columns are divided only, never centred; a constant column keeps its scale. The read takes `memory` bytes,
    or the least that can be read in. center, factor (d,) float64 are 0 and 1 until `finish`: what is made of them
    before (`scaled`, the held-out rows) has the right ones then.
    """

    def __init__(self, source: Source, kind: str, codes: np.ndarray, weights: np.ndarray, memory: int) -> None:
        self.source, self.kind, self.codes, self.weights = source, kind, codes, weights
        d = source.features
        self.center, self.factor = np.zeros(d), np.ones(d)
        self.sums = {name: np.zeros(d) for name in ("largest", "total", "squares", "shift")}
        plan = make_plan(source, max(memory, least_budget(source)), 0)
        self.reader = BlockReader(source, plan.bounds, plan.buffers, plan.resident)

    def scaled(self, source: Source) -> ScaledSource:
        """These rows, or held-out ones, in the scale that is found."""
        return ScaledSource(source, self.center, self.factor)

    def arrays(self) -> dict[str, np.ndarray]:
        """All that it carries from block to block, and leaves behind."""
        return {"center": self.center, "factor": self.factor, **self.sums}

    def add(self, first: int, block: Block) -> None:
        """One block; all of them must come in order."""
        from streammargin.kernels.columns import add_columns

        rows = slice(first, first + block.rows())
        codes, weights = self.codes[rows], self.weights[rows] if self.weights.size else self.weights
        largest, total, squares, shift = self.sums.values()
        if isinstance(block, DenseBlock) and first == 0:  # sums about a typical row do not cancel
            shift[:] = block.X[0]
        add_columns(block, codes, weights, shift, largest, total, squares)

    def finish(self) -> None:
        """Center and factor, after the last block. DataError for a column that cannot be scaled."""
        self.reader.release()
        largest, total, squares, shift = self.sums.values()
        name = self.source.name
        if self.kind == "maxabs":
            spread = largest
        else:
            for column in np.flatnonzero(~np.isfinite(squares)):
                raise DataError(
                    f"{name}: the squares of column {column} leave the range of numbers; use `scale=maxabs`"
                )
            present = self.codes >= 0
            mass = float(self.weights[present].sum()) if self.weights.size else float(np.count_nonzero(present))
            mean = total / mass
            spread = np.sqrt(np.maximum(squares / mass - mean**2, 0.0))
            spread[spread <= 1e-12 * largest] = 0.0
            if not self.source.sparse:
                self.center[:] = mean + shift
        for column in np.flatnonzero((spread > 0.0) & (spread < sys.float_info.min)):
            raise DataError(
                f"{name}: the values of column {column} are at most {largest[column]:.3g}, too small to scale; "
                "multiply them by a constant"
            )
        self.factor[:] = 1.0 / np.where(spread > 0.0, spread, 1.0)
