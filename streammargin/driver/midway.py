"""A bias for weights that were trained without one."""

from __future__ import annotations

import math

import numpy as np

from streammargin.points.base import Point
from streammargin.rows.blocks import Block
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import ALL, TRIALS, K, Sum, f8, i8, of, state
from streammargin.solvers.state import Visited, labels_for

SCORES = 1 << 16  # computed at a time


@state
class Midway(Visited):
    """Finds b such that the hyperplanes x.w + b = 0 lie midway between the classes (homotopic paper, eq. (15)).

    Rows are added in chunks, in any order. For the maximum-margin separator (w*, b*), |b - b*| <= max ||x_i|| ||w -
    w*||. If w separates the rows with b = 0, the smallest y (x.w + b) is at least the smallest y x.w.
    lowest, highest (K,): the smallest score of a row with y = +1, and the largest of one with y = -1.
    wrong (trials,): rows whose largest score is that of another class; of one line it means nothing.
    """

    lowest: Sum[f8] = of(K, fill=math.inf, smallest=ALL)
    highest: Sum[f8] = of(K, fill=-math.inf, largest=ALL)
    wrong: Sum[i8] = of(TRIALS)

    def add(self, scores: np.ndarray, positive: np.ndarray) -> None:
        """Add rows with the scores (m, K); positive (m, K) bool: whether y = +1."""
        self.wrong += np.count_nonzero(~positive[np.arange(len(scores)), scores.argmax(axis=1)])
        np.minimum(self.lowest, scores.min(axis=0, where=positive, initial=np.inf), out=self.lowest)
        np.maximum(self.highest, scores.max(axis=0, where=~positive, initial=-np.inf), out=self.highest)

    @staticmethod
    def add_block(problem: Problem, sums: Midway, point: Point, block: Block, first: int) -> None:
        """Add the present rows of a block; first: number of its first row."""
        piece = max(1, SCORES // point.outputs)
        for low in range(0, block.rows(), piece):  # a block in memory may hold all rows
            high = min(block.rows(), low + piece)
            scores = np.empty((high - low, point.outputs))
            point.score(block, low, scores)
            rows = slice(first + low, first + high)
            present = sums.labels.present(rows)
            sums.add(scores[present], labels_for(sums.labels.of(rows), problem.outputs).own_of_lines()[present])

    def bias(self) -> np.ndarray:
        """b (K,); 0 for a problem that no b separates, or whose rows all have one sign."""
        known = np.isfinite(self.lowest) & np.isfinite(self.highest) & (self.lowest > self.highest)
        return np.where(known, -0.5 * np.where(known, self.lowest, 0.0) - 0.5 * np.where(known, self.highest, 0.0), 0.0)
