"""The matrix-vector product of a power iteration on A^T A."""

from __future__ import annotations

import numpy as np

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import Sample


@kernel
def gram_product(block, numbers, labels, v, product):
    """product (d+1,) += sum_i (x_i.v) x_i over the present rows of the block; v (d+1,)."""
    for i in range(block.rows()):
        if labels.weight(numbers.row(i)) > 0.0:
            block.prefetch_row(i + 2)
            block.add(i, block.exact_dot(i, v), product)


def warm(sample: Sample) -> None:
    gram_product(*sample.rows, np.ones(2), np.zeros(2))
