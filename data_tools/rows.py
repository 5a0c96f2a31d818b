"""Batches of rows on their way from a reader to a writer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from streammargin.errors import UsageError
from streammargin.rows.blocks import Block, CSRBlock
from streammargin.sources.base import Source
from streammargin.sources.labels import LabelCursor

BATCH_BYTES = 8 << 20


def check_seed(seed: int) -> None:
    """Raise UsageError unless seed is a whole number >= 0."""
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise UsageError(f"`seed` must be a whole number and >= 0, not {seed!r}")


class Batch(NamedTuple):
    """Rows, dense or sparse, with their labels and weights (None where there are none).

    Sparse: X (n, d) is None; data (nnz,), indices (nnz,) and indptr (n+1,) int64 from 0.
    """

    X: np.ndarray | None
    data: np.ndarray | None
    indices: np.ndarray | None
    indptr: np.ndarray | None
    labels: np.ndarray | None
    weights: np.ndarray | None

    @property
    def rows(self) -> int:
        """Their number."""
        if self.X is not None:
            return len(self.X)
        assert self.indptr is not None
        return len(self.indptr) - 1

    def take(self, chosen: np.ndarray) -> Batch:
        """These rows (int64 numbers), in this order, copied."""
        labels = None if self.labels is None else self.labels[chosen]
        weights = None if self.weights is None else self.weights[chosen]
        if self.X is not None:
            return Batch(self.X[chosen], None, None, None, labels, weights)
        assert self.data is not None and self.indices is not None and self.indptr is not None
        lengths = np.diff(self.indptr)[chosen]
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        # entry j of the new rows lies at its old row's start plus its place in the row
        where = np.repeat(self.indptr[chosen] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return Batch(None, self.data[where], self.indices[where], indptr, labels, weights)


def batch_of(block: Block, labels: np.ndarray | None, weights: np.ndarray | None) -> Batch:
    """A block of a source as a batch of views."""
    if isinstance(block, CSRBlock):
        return Batch(None, block.data, block.indices.view(np.int32), block.indptr, labels, weights)
    return Batch(block.X, None, None, None, labels, weights)


def batches(source: Source, memory: int | None = None, held: int = 0) -> Iterator[Batch]:
    """The rows of a source in their order, with labels and weights; valid until the next one.

    memory: bytes for the rows in flight, and what is held beside them; None for a few batches, or what the largest
    chunk of the file needs.
    """
    from streammargin.driver.plan import least_budget
    from streammargin.driver.prefetch import read_blocks

    memory = held + max(4 * BATCH_BYTES, least_budget(source)) if memory is None else memory

    cursor = LabelCursor(source.labels()) if source.has_labels() else None
    weights = source.sample_weight()
    for start, stop, block in read_blocks(source, memory, held):
        yield batch_of(
            block,
            None if cursor is None else cursor.take(stop - start),
            None if weights is None else weights[start:stop],
        )
