"""The exact sums that certify frozen weights (compiled/look.py), by NumPy, for a loss of all scores of a row.

Bounds on rounding hold as they are. Sums are pairwise, which rounds less than a chunk does. Each entry of a combination
of rows counts as added up row by row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streammargin.compiled.careful import LARGEST_FLOAT, carried_sum
from streammargin.compiled.look import (
    ADDED,
    ALPHA,
    CARRY,
    DUAL,
    LOSS_CARRY,
    PULLED,
    ROUNDING,
    SUM_OF_LOSSES,
    SUM_OF_MISTAKES,
    SUMMED,
    Frozen,
    Looked,
    Prox,
)
from streammargin.rows import products as rows
from streammargin.rows.blocks import DenseBlock
from streammargin.rows.labels import Labels, RowNumbers


def look(
    block: DenseBlock, numbers: RowNumbers, labels: Labels, loss: Any, problems: np.ndarray, point: Frozen, rule: Prox,
    found: Looked, H: None = None,
) -> None:  # fmt: skip
    """`look` at one set of weights, with the duals that are best there; no number of a row is kept, no H is summed."""
    trials, (count, width) = found.confused.shape[1], point.w[0].shape
    known, each = labels.rows_of(numbers.first, block.rows()), count // trials
    scores, sizes = rows.scores(block, point.w[0]), rows.lengths(block)
    for trial in range(trials if each > 1 else 0):
        lines = slice(trial * each, (trial + 1) * each)
        found.confused[0, trial] += known.confused_of(lines.start, scores[lines])
    for k in problems[::each].tolist():
        lines = slice(k, k + each)
        pulls = _judge(known, loss, k, scores[lines], sizes, point.blur[0, lines], width, found)
        added = np.zeros((each, width))
        rows.add_pulls(block, pulls, added)
        found.pull[lines, 0] += added
        found.duals[lines, 0, ADDED] += np.count_nonzero(pulls, axis=1)


def _judge(
    labels: Labels, loss: Any, k: int, scores: np.ndarray, sizes: np.ndarray, blur: np.ndarray, width: int,
    found: Looked,
) -> np.ndarray:  # fmt: skip
    """Add the losses and duals of a group, whose first line is k; returns what its rows pull, (lines, m)."""
    lines = range(len(scores))
    there = labels.caps_of(k) > 0.0
    caps, sizes = labels.caps_of(k)[there], sizes[there]
    signs = np.array([labels.signs_of(k + g)[there] for g in lines])
    u, a, terms = signs * scores[:, there], np.empty(signs.shape), width + 2.0
    # `margin_rounding` of compiled/careful.py
    off = 0.5 * min(terms, 4.0 * terms**0.5) * (np.minimum(sizes, LARGEST_FLOAT) * blur[:, None])
    value, share, slip = loss.coupled_step(u, signs, off, np.zeros(u.shape), caps, 0.0, a)
    losses = found.losses[0]
    losses[k, SUM_OF_LOSSES], losses[k, LOSS_CARRY] = carried_sum(
        losses[k, SUM_OF_LOSSES], losses[k, LOSS_CARRY], value.sum()
    )
    losses[k, ROUNDING] += slip.sum()
    for g in lines:
        own, mass = found.duals[k + g, 0], np.abs(a[g])
        losses[k + g, SUM_OF_MISTAKES] += np.count_nonzero((u[g] < 0.0) | ((u[g] == 0.0) & (signs[g] > 0.0)))
        if g == 0:
            own[DUAL], own[CARRY] = carried_sum(own[DUAL], own[CARRY], share.sum())
            own[SUMMED] += np.abs(share).sum()
        own[ALPHA], own[CARRY + 1] = carried_sum(own[ALPHA], own[CARRY + 1], mass.sum())
        own[SUMMED] += ((2.0 + np.abs(u[g])) * mass).sum()
        own[PULLED] += (mass * sizes).sum()
    pulls = np.zeros(scores.shape)
    pulls[:, there] = signs * a
    return pulls
