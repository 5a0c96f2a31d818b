"""Exact sums over one block at weights and duals that stay as they are: a look that makes no step."""

from __future__ import annotations

from typing import Any

import numpy as np

from streammargin.compiled.look import DUAL_SUMS, Found, Point, Prox, look
from streammargin.compiled.sleep import AWAKE
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, RowNumbers

STEP = 1.0  # curvature of the step that wakes rows: at a bound, whether one leaves it does not depend on the curvature


def certify_block(
    block: Block, numbers: RowNumbers, labels: Labels, loss: Any, w: np.ndarray, blur: np.ndarray, alpha: np.ndarray,
    sleep: np.ndarray, found: Found,
) -> np.ndarray:  # fmt: skip
    """Add the sums of the rows of the block; returns the sleeping rows whose dual a step would change, bool as `sleep`.

    w (K, d+1) the weights to certify; blur (K,) eps times their norms; alpha (K, m) duals of the m rows of the block,
    or (K, 0) for a method without duals; sleep (K, m), or (groups, m) for a loss of all scores, or (..., 0).
    """
    K, asleep = len(w), sleep > AWAKE
    curvature, steps = (STEP, alpha.astype(np.float64)) if asleep.any() else (np.inf, np.zeros((K, 0)))
    rule = Prox(np.ascontiguousarray(alpha, np.float64), steps, np.full(K, curvature), np.zeros(K), base=numbers.first)
    none = np.zeros((1, K))
    look(block, numbers, labels, loss, np.arange(K), Point(w[None], none, blur[None]), rule, found, frozen=True)
    if not steps.size:
        return np.zeros_like(asleep)
    moved: np.ndarray = (steps.astype(alpha.dtype) != alpha)[:: K // len(sleep)]
    return asleep & moved


def sum_losses(
    block: Block, numbers: RowNumbers, labels: Labels, loss: Any, w: np.ndarray, blur: np.ndarray, losses: np.ndarray,
    wrong: np.ndarray,
) -> None:  # fmt: skip
    """Add the losses of the block's rows at w (K, d+1) to losses (K, LOSS_SUMS), and count them in wrong (trials,)."""
    K, width = w.shape
    found = Found(losses[None], np.zeros((K, 0, DUAL_SUMS)), np.zeros((K, 0, width)), wrong[None])
    certify_block(block, numbers, labels, loss, w, blur, np.zeros((K, 0)), np.zeros((K, 0), np.uint8), found)
