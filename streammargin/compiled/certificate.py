"""The losses of one block at weights that stay as they are: a look without duals."""

from __future__ import annotations

from typing import Any

import numpy as np

from streammargin.compiled.look import DUAL_SUMS, Frozen, Looked, Prox, look
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, RowNumbers


def sum_losses(
    block: Block, numbers: RowNumbers, labels: Labels, loss: Any, w: np.ndarray, blur: np.ndarray, losses: np.ndarray,
    wrong: np.ndarray,
) -> None:  # fmt: skip
    """Add the losses of the block's rows at w (K, d+1) to losses (K, LOSS_SUMS), and count them in wrong (trials,)."""
    K, width = w.shape
    found = Looked(losses[None], np.zeros((K, 0, DUAL_SUMS)), np.zeros((K, 0, width)), wrong[None])
    none = np.zeros((K, 0))
    point, rule = Frozen(w[None], np.zeros((1, K)), blur[None]), Prox(none, none, np.full(K, np.inf), np.zeros(K))
    look(block, numbers, labels, loss, np.arange(K), point, rule, found, frozen=True)
