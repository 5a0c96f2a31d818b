"""Two rows of every kind, to compile kernels in advance.

Each file of kernels has a function `warm(sample)` that calls each of them once; `warmup` finds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from streammargin.losses import LOSSES
from streammargin.losses.base import has
from streammargin.penalties.mirror_maps import L2, Lp, make_norm
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock, values_of
from streammargin.rows.labels import Labels, RowNumbers, numbered_from
from streammargin.rows.visits import Turns, all_at_once

ONLY_PROBLEM = np.array([0])  # the problems to update, or an order of one group
NORMS = (make_norm(2.0), make_norm(1.5))


class SampleBlock(NamedTuple):
    """A block of two rows and two columns, with labels for one binary problem."""

    kind: str
    block: Block
    numbers: RowNumbers
    labels: Labels

    @property
    def rows(self) -> tuple[Block, RowNumbers, Labels]:
        """The first arguments of most kernels."""
        return self.block, self.numbers, self.labels

    @property
    def turns(self) -> Turns:
        """The same rows for kernels that visit several blocks."""
        return all_at_once(self.block, self.numbers, ONLY_PROBLEM, 2)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the values."""
        return values_of(self.block).dtype

    @property
    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Two columns with one value each: starts, ends, rows and values."""
        ends = np.array([1, 2])
        return ends - 1, ends, np.array([0, 1, 0], np.int32), np.ones(3, self.dtype)

    @property
    def sparse(self) -> bool:
        """Whether the rows are sparse."""
        return isinstance(self.block, CSRBlock)

    @property
    def joint_labels(self) -> Labels:
        """The same labels for one problem of two lines."""
        return self.labels._replace(positive=np.array([0, 1]), caps=np.ones((2, 2)))

    def joint_losses(self) -> list[Any]:
        """The losses of all lines of weights together."""
        return [joint for _, cls in sorted(LOSSES.items()) if (joint := cls().joint()) is not None]

    def losses(self, method: str) -> list[Any]:
        """One loss of each class of terms that has this method; others differ only in their numbers."""
        families = {type(loss): loss for loss in (cls().terms() for _, cls in sorted(LOSSES.items()))}
        return [loss for kind, loss in families.items() if has(kind, method)]

    def dual_steps(self) -> Iterator[tuple[Any, L2 | Lp, np.dtype]]:
        """(loss, penalty, dtype of the weights) in dual coordinate ascent."""
        for loss in self.losses("step"):
            for norm in NORMS:
                yield loss, norm, np.dtype(np.float64)
            if self.dtype == np.float32:
                yield loss, NORMS[0], self.dtype


def weights(dtype: np.dtype | type = np.float64) -> np.ndarray:
    """Weights (1, d+1) of 0."""
    return np.zeros((1, 3), dtype)


def counts(size: int = 1) -> np.ndarray:
    """Integers of 0."""
    return np.zeros(size, np.int64)


def samples() -> Iterator[SampleBlock]:
    """Dense and sparse rows of float32 and float64."""
    none = np.empty(0)
    labels = Labels(np.array([0, 1], np.int16), np.array([1]), np.ones((1, 2)), none, none)
    for dtype in (np.float32, np.float64):
        dense = DenseBlock(np.ones((2, 2), dtype), 0.0)
        sparse = CSRBlock(np.ones(2, dtype), np.array([0, 1], np.uint32), np.array([0, 1, 2], np.int64), 2, 0.0)
        yield SampleBlock(f"dense {np.dtype(dtype)}", dense, numbered_from(0), labels)
        yield SampleBlock(f"sparse {np.dtype(dtype)}", sparse, numbered_from(0), labels)
