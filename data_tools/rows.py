"""The rows of a source as batches for the writer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streammargin.errors import UsageError
from streammargin.rows.blocks import Block, CSRBlock
from streammargin.sources.base import Source
from streammargin.sources.batch import Batch
from streammargin.sources.labels import LabelCursor

BATCH_BYTES = 8 << 20


def check_seed(seed: int) -> None:
    """Raise UsageError unless seed is a whole number >= 0."""
    if not isinstance(seed, (int, np.integer)) or seed < 0:
        raise UsageError(f"`seed` must be a whole number and >= 0, not {seed!r}")


def batch_of(block: Block, labels: np.ndarray | None, weights: np.ndarray | None) -> Batch:
    """A block of a source as a batch of views."""
    if isinstance(block, CSRBlock):
        return Batch(None, block.data, block.indices.view(np.int32), block.indptr, labels, weights)
    return Batch(block.X, None, None, None, labels, weights)


def batches(source: Source, memory: int | None = None, held: int = 0) -> Iterator[Batch]:
    """The rows of a source in their order, with labels and weights; valid until the next one.

    memory: bytes for the rows being read plus `held`; None for a few batches, or the need of the file's largest chunk.
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
