"""Scores of a block of rows."""

from __future__ import annotations

import numpy as np

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import Sample, weights


@kernel
def decide_block(block, coef, first, out):
    """out[i, k] = x_(first + i) . coef[k] for the rows of out (m, k); coef (k, d+1), float64."""
    for i in range(out.shape[0]):
        block.prefetch_row(first + i + 2)
        for k in range(coef.shape[0]):
            out[i, k] = block.dot(first + i, coef[k])


@kernel
def total_loss(loss, margins):
    """Sum of the loss over margins (m, k) float64."""
    total = 0.0
    for i in range(margins.shape[0]):
        for k in range(margins.shape[1]):
            total += loss.primal(margins[i, k], 1.0)
    return total


@kernel
def total_coupled_loss(loss, scores, own):
    """Sum of a loss of all scores over the rows of scores (m, K) float64; own (m,): the line of the row's class."""
    total = 0.0
    K = scores.shape[1]
    u, signs, none, a = np.empty(K), np.empty(K), np.zeros(K), np.empty(K)
    for i in range(scores.shape[0]):
        for k in range(K):
            signs[k] = 1.0 if k == own[i] else -1.0
            u[k] = signs[k] * scores[i, k]
        total += loss.coupled_step(u, signs, none, none, 1.0, 0.0, a)[0]
    return total


def warm(sample: Sample) -> None:
    decide_block(sample.block, weights(), 0, np.zeros((2, 1)))
    for loss in sample.losses("primal"):
        total_loss(loss, np.zeros((2, 1)))
