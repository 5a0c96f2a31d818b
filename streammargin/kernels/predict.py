"""Scores of a block of rows."""

from __future__ import annotations

from streammargin.kernels import methods  # noqa: F401
from streammargin.kernels.jit import kernel


@kernel
def decide_block(block, coef, out):
    """out[i, k] = x_i . coef[k], coef of shape (k, d+1) in float64."""
    for i in range(block.rows()):
        for k in range(coef.shape[0]):
            out[i, k] = block.dot(i, coef[k])
