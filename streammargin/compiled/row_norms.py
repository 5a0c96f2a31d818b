"""Row norms, for methods that scale their steps by them."""

from __future__ import annotations

import numpy as np

from streammargin.compiled.jit import kernel
from streammargin.compiled.overloads import along
from streammargin.compiled.samples import SampleBlock
from streammargin.rows.blocks import Block

# columns of the figures over all present rows
LARGEST_NORM, TOTAL, PRESENT_ROWS, EMPTY, ROW_FIGURES = range(5)


@along
def row_norm(block: Block, i: int, q: float) -> float:
    """||x_i||_q, or ||x_i||_2 or ||x_i||_1, which are upper bounds, if powers under- or overflow; 0 for zeros."""
    total = block.sum_powers(i, q)
    return length_of(block, i, np.sqrt(total) if q == 2.0 else total ** (1.0 / q))  # sqrt is much faster than a power


@along
def length_of(block: Block, i: int, size: float) -> float:
    """The result of `row_norm`, given the norm computed from powers."""
    for r in (2.0, 1.0):
        if not (size > 0.0 and np.isfinite(size)):
            size = block.sum_powers(i, r) ** (1.0 / r)
    return size


@kernel
def row_norms(block, numbers, labels, q, figures):
    """Add to figures (ROW_FIGURES,): largest ||x_i||_q, their sum, the rows present, and those of norm 0."""
    for i in range(block.rows()):
        row = numbers.row(i)
        cap = 0.0
        for k in range(labels.positive.size):
            cap = max(cap, labels.cap(k, row))
        if not cap > 0.0:
            continue
        size = row_norm(block, i, q)
        figures[LARGEST_NORM] = max(figures[LARGEST_NORM], size)
        figures[TOTAL] += size
        figures[PRESENT_ROWS] += 1.0
        if size == 0.0:
            figures[EMPTY] += 1.0


def warm(sample: SampleBlock) -> None:
    row_norms(*sample.rows, 2.0, np.zeros(ROW_FIGURES))
