"""Norms of the rows, for methods that scale their steps by them."""

from __future__ import annotations

import numpy as np

from streammargin.compiled.jit import kernel
from streammargin.compiled.overloads import along
from streammargin.compiled.samples import Sample

# columns of the figures of all rows that are present
LARGEST, TOTAL, ROWS, EMPTY, ROW_FIGURES = 0, 1, 2, 3, 4


@along
def row_norm(block, i, q):
    """||x_i||_q, or the next larger of ||x_i||_2 and ||x_i||_1 where its powers under- or overflow; 0 for 0 alone."""
    total = block.sum_powers(i, q)
    return length_of(block, i, np.sqrt(total) if q == 2.0 else total ** (1.0 / q))  # a power costs as much as the sum


@along
def length_of(block, i, size):
    """What `row_norm` returns, of a row whose norm comes to this size by its powers."""
    for r in (2.0, 1.0):
        if not (size > 0.0 and np.isfinite(size)):
            size = block.sum_powers(i, r) ** (1.0 / r)
    return size


@kernel
def row_norms(block, numbers, labels, q, figures):
    """figures (ROW_FIGURES,): largest ||x_i||_q, their sum, the rows present, and those of norm 0; added to."""
    for i in range(block.rows()):
        row = numbers.row(i)
        cap = 0.0
        for k in range(labels.positive.size):
            cap = max(cap, labels.cap(k, row))
        if not cap > 0.0:
            continue
        size = row_norm(block, i, q)
        figures[LARGEST] = max(figures[LARGEST], size)
        figures[TOTAL] += size
        figures[ROWS] += 1.0
        if size == 0.0:
            figures[EMPTY] += 1.0


def warm(sample: Sample) -> None:
    row_norms(*sample.rows, 2.0, np.zeros(ROW_FIGURES))
