"""A bias for weights that were found without one."""

from __future__ import annotations

import numpy as np

from streammargin.points.base import Point
from streammargin.rows.blocks import Block
from streammargin.rows.labels import RowLabels

SCORES = 1 << 16  # that are worked on at a time


class Midway:
    """b that puts the hyperplanes x.w + b = 0 midway between the classes (homotopic paper, eq. (15)).

    Rows come in pieces, in any order. For the widest separator (w*, b*), |b - b*| <= max ||x_i|| ||w - w*||; and where
    w separates the rows with b = 0, the smallest y (x.w + b) is no smaller than the smallest y x.w.
    """

    def __init__(self, count: int) -> None:
        self.lowest, self.highest = np.empty(count), np.empty(count)
        self.begin()

    def begin(self) -> None:
        """No row is added yet."""
        self.lowest[:], self.highest[:] = np.inf, -np.inf

    def add(self, scores: np.ndarray, positive: np.ndarray) -> None:
        """Rows with the scores x.w (m, K); positive (m, K) bool: whether the sign is 1."""
        np.minimum(self.lowest, scores.min(axis=0, where=positive, initial=np.inf), out=self.lowest)
        np.maximum(self.highest, scores.max(axis=0, where=~positive, initial=-np.inf), out=self.highest)

    def add_block(self, block: Block, first: int, point: Point, positive: np.ndarray, labels: RowLabels) -> None:
        """The rows of a block, of which `first` is the number of the first; absent ones do not count."""
        piece = max(1, SCORES // point.outputs)
        for low in range(0, block.rows(), piece):  # a block in memory may be all rows
            high = min(block.rows(), low + piece)
            scores = np.empty((high - low, point.outputs))
            point.score(block, low, scores)
            rows = slice(first + low, first + high)
            there = labels.present(rows)
            self.add(scores[there], labels.codes[rows][there, None] == positive)

    def bias(self) -> np.ndarray:
        """b (K,); 0 for a problem that it would not separate, or that had no row of one of the signs."""
        known = np.isfinite(self.lowest) & np.isfinite(self.highest) & (self.lowest > self.highest)
        return np.where(known, -0.5 * np.where(known, self.lowest, 0.0) - 0.5 * np.where(known, self.highest, 0.0), 0.0)
