"""A bias for weights that were trained without one."""

from __future__ import annotations

import numpy as np

from streammargin.points.base import Point
from streammargin.rows.blocks import Block
from streammargin.rows.labels import RowLabels

SCORES = 1 << 16  # computed at a time


class Midway:
    """Finds b such that the hyperplanes x.w + b = 0 lie midway between the classes (homotopic paper, eq. (15)).

    Rows are added in chunks, in any order. For the maximum-margin separator (w*, b*), |b - b*| <= max ||x_i|| ||w -
    w*||. Where w separates the rows with b = 0, the smallest y (x.w + b) is at least the smallest y x.w.
    """

    highest: np.ndarray
    lowest: np.ndarray

    def __init__(self, count: int) -> None:
        self.lowest, self.highest = np.empty(count), np.empty(count)
        self.begin()

    def begin(self) -> None:
        """Forget all rows added so far."""
        self.lowest[:], self.highest[:] = np.inf, -np.inf

    def add(self, scores: np.ndarray, positive: np.ndarray) -> None:
        """Add rows with the scores x.w (m, K); positive (m, K) bool: whether y = +1."""
        np.minimum(self.lowest, scores.min(axis=0, where=positive, initial=np.inf), out=self.lowest)
        np.maximum(self.highest, scores.max(axis=0, where=~positive, initial=-np.inf), out=self.highest)

    def add_block(self, block: Block, first: int, point: Point, positive: np.ndarray, labels: RowLabels) -> None:
        """Add the present rows of a block; first: number of its first row."""
        piece = max(1, SCORES // point.outputs)
        for low in range(0, block.rows(), piece):  # a block in memory may hold all rows
            high = min(block.rows(), low + piece)
            scores = np.empty((high - low, point.outputs))
            point.score(block, low, scores)
            rows = slice(first + low, first + high)
            present = labels.present(rows)
            self.add(scores[present], labels.of(rows).codes[present, None] == positive)

    def bias(self) -> np.ndarray:
        """b (K,); 0 for a problem that no b separates, or whose rows all have one sign."""
        known = np.isfinite(self.lowest) & np.isfinite(self.highest) & (self.lowest > self.highest)
        return np.where(known, -0.5 * np.where(known, self.lowest, 0.0) - 0.5 * np.where(known, self.highest, 0.0), 0.0)
