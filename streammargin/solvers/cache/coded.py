"""Rows of a sample in memory, one byte a value if the range of each column is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streammargin.rows.blocks import Block, DenseBlock
from streammargin.solvers.cache.rows import Kept, RowCache

LEVELS = 255  # the largest byte
NO_NUMBERS = np.empty(0)


class Coding(NamedTuple):
    """A byte q stands for low + step q in its column; low, step (d,), or (0,): values are as they are.

    Kernels take rows of bytes with a constant column of 1. Weights and sums of the rows are turned instead.
    """

    low: np.ndarray = NO_NUMBERS
    step: np.ndarray = NO_NUMBERS

    @classmethod
    def between(cls, low: np.ndarray, high: np.ndarray) -> Coding:
        """Bytes for values in these ranges (d,); as they are, if a range is too long to tell."""
        with np.errstate(over="ignore"):
            step = (high - low) / LEVELS
        return cls(low.copy(), step) if np.isfinite(step).all() else PLAIN_CODING

    def rows(self, block: Block) -> Block:
        """The rows of a block in bytes."""
        if not self.low.size:
            return block
        assert isinstance(block, DenseBlock)
        coded = (block.X - self.low) / np.where(self.step > 0.0, self.step, 1.0)
        return DenseBlock(np.clip(np.rint(coded), 0, LEVELS).astype(np.uint8), 1.0)

    def weights(self, w: np.ndarray, column: float) -> np.ndarray:
        """The weights (lines, d+1) by which bytes have the scores of w; column: the value of the constant column."""
        if not self.low.size:
            return w
        return np.column_stack([w[:, :-1] * self.step, w[:, :-1] @ self.low + column * w[:, -1]])

    def sums(self, image: np.ndarray, column: float) -> np.ndarray:
        """The sums of rows (lines, d+1) that belong to those of bytes."""
        if not self.low.size:
            return image
        return np.column_stack([image[:, :-1] * self.step + np.outer(image[:, -1], self.low), column * image[:, -1]])

    def turn_gram(self, gram: np.ndarray, column: float) -> None:
        """Make the Gram matrix (d+1, d+1) of bytes that of the rows; its upper triangle counts."""
        if not self.low.size:
            return
        last, total = gram[:-1, -1].astype(np.float64), float(gram[-1, -1])
        for j in range(self.low.size):
            gram[j, j:-1] = self.step[j] * (self.step[j:] * gram[j, j:-1] + self.low[j:] * last[j]) + self.low[j] * (
                self.step[j:] * last[j:] + self.low[j:] * total
            )
        gram[:-1, -1] = column * (self.step * last + self.low * total)
        gram[-1, -1] = column * column * total


PLAIN_CODING = Coding()


class CodedRows(RowCache):
    """A cache of rows in bytes by a coding, which checkpoints have."""

    def __init__(self, coding: Coding = PLAIN_CODING) -> None:
        super().__init__()
        self.coding = coding

    def keep(self, block: Block, first: int, ids: np.ndarray) -> Kept:
        kept = super().keep(block, first, ids)
        return kept._replace(rows=self.coding.rows(kept.rows))

    def kept_beside(self) -> dict[str, np.ndarray]:
        return super().kept_beside() | self.coding._asdict()

    def load_beside(self, ids: dict[str, np.ndarray], arrays: dict[str, np.ndarray]) -> None:
        if any(name not in arrays for name in Coding._fields):
            raise ValueError("the ranges of its columns are missing")
        self.coding = Coding(*(arrays[name] for name in Coding._fields))
        super().load_beside(ids, arrays)
