"""Scores of a block of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import SampleBlock, weights
from streammargin.losses.base import coupled


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
def total_coupled_loss(loss: Any, u: np.ndarray, signs: np.ndarray) -> float:
    """Sum over rows of a loss of all lines together; u, signs (m, K) float64, as `coupled_step` takes them."""
    total = 0.0
    none, a = np.zeros(u.shape[1]), np.empty(u.shape[1])
    for i in range(u.shape[0]):
        total += loss.coupled_step(u[i], signs[i], none, none, 1.0, 0.0, a)[0]
    return total


def total_of_residuals(loss: Any, residuals: np.ndarray) -> float:
    """Sum of a loss over residuals (m, K): of each number, or of all numbers of a row together."""
    residuals = np.ascontiguousarray(residuals)
    if coupled(loss):
        return float(total_coupled_loss(loss, residuals, np.ones(residuals.shape)))
    return float(total_loss(loss, residuals))


def warm(sample: SampleBlock) -> None:
    decide_block(sample.block, weights(), 0, np.zeros((2, 1)))
    for loss in sample.losses("primal"):
        total_loss(loss, np.zeros((2, 1)))
    for loss in sample.joint_losses():
        total_coupled_loss(loss, np.zeros((2, 2)), np.zeros((2, 2)))
