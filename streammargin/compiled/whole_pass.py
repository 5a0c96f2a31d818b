"""Passes with frozen weights: the gradient for the next step and the figures that certify the weights, in one read.

Dual acceleration paper, Algorithm 1 and sections 5.1, 5.2; for `perceptron_block`: Cotter, Shalev-Shwartz and
Srebro 2012.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled.chunks import MISTAKES, ROOT, SMALLEST, chunk_add, chunk_look  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import ONE, Sample, counts, weights
from streammargin.rows.labels import Labels, RowNumbers

# further columns of the figures; the classes of a joint margin share those of row 0
LEVEL, TOTAL, VALUE, FIGURES = 2, 3, 4, 5
# the sums are rescaled once the largest score exceeds the level by this; exp(200) is far from overflow
HEADROOM = 200.0


@register_jitable
def top_score(figures: np.ndarray, group: int, joint: bool) -> float:
    """The largest score -a_i.w so far; for a joint margin, over all classes."""
    if not joint:
        return -figures[group, SMALLEST]
    smallest = np.inf
    for k in range(figures.shape[0]):
        smallest = min(smallest, figures[k, SMALLEST])
    return -smallest


@register_jitable
def chunk_shares(
    numbers: RowNumbers, labels: Labels, loss: Any, start: int, size: int, joint: bool, active: np.ndarray,
    cutoff: float, margins: np.ndarray, figures: np.ndarray,
) -> None:  # fmt: skip
    """Replace the margins by the coefficients of the rows in A^T q, times exp(-LEVEL)."""
    for k in active:
        group = 0 if joint else k
        level = figures[group, LEVEL]
        floor = loss.level(top_score(figures, group, joint)) - cutoff
        total = 0.0
        value = 0.0
        for r in range(size):
            score = -margins[k, r]
            margins[k, r] = 0.0
            if score > -np.inf and loss.level(score) >= floor:
                share = loss.share(score, level)
                total += share
                value += loss.value(score, level)
                if joint:
                    margins[k, r] = -ROOT * share
                else:
                    margins[k, r] = labels.sign(k, numbers.row(start + r)) * share
        figures[group, TOTAL] += total
        figures[group, VALUE] += value
    if joint:
        for r in range(size):
            code = labels.code(numbers.row(start + r))
            if code >= 0:
                own = 0.0
                for k in active:
                    own -= margins[k, r]
                margins[code, r] = own


@kernel
def softmax_block(block, numbers, labels, loss, chunk, joint, active, w, scale, cutoff, pull, figures, wrong):
    """Add the rows of the block to the gradient and to the figures of the pass.

    chunk    rows of a chunk;
    joint    whether the problems are the classes of one margin;
    active   problems (int64) whose gradient is wanted (all of a joint margin's); the figures are those of all K;
    w        (K, d+1) weights; scale (K,): a row is `wrong` unless the largest scale_k x.w_k is that of its class;
    cutoff   a row whose level is this far below the largest is lost in rounding, and is skipped;
    pull     (K, d+1), added to: sum_i share_i a_i, times exp(-LEVEL); skipped shares are not in TOTAL either, so
             pull / TOTAL is A^T q for a q in the simplex;
    figures  (K, FIGURES); wrong (1,)
    """
    K = w.shape[0]
    scores = np.empty((K, chunk))
    margins = np.empty((K, chunk))
    for start in range(0, block.rows(), chunk):
        size = min(chunk, block.rows() - start)
        chunk_look(block, numbers, labels, start, size, joint, w, scale, scores, margins, figures, wrong)
        for group in active[:1] if joint else active:
            level = loss.level(top_score(figures, group, joint))
            if level > figures[group, LEVEL] + HEADROOM:
                factor = math.exp(figures[group, LEVEL] - level)
                figures[group, LEVEL] = level
                figures[group, TOTAL] *= factor
                figures[group, VALUE] *= factor
                for k in range(K):
                    if joint or k == group:
                        for j in range(pull.shape[1]):
                            pull[k, j] *= factor
        chunk_shares(numbers, labels, loss, start, size, joint, active, cutoff, margins, figures)
        chunk_add(block, start, size, active, margins, pull)


@kernel
def perceptron_block(
    block, numbers, labels, chunk, joint, active, w, average, scale, nearest, figures, averaged, wrong
):
    """Find the row with the smallest margin under w, and update the figures of w and of the average.

    nearest  (K, d+1) the signed row a_i with the smallest a_i.w_k so far, which is figures[k, SMALLEST]; for a joint
             margin the pseudo-row x (e_own - e_k)/sqrt2 with the smallest one of all classes, which all of them have
    average  (K, d+1) averaged weights, with figures `averaged`; (0, d+1) without averaging;
    scale    and `wrong` refer to the average if there is one, else to w; the rest as in `softmax_block`
    """
    K = w.shape[0]
    scores = np.empty((K, chunk))
    margins = np.empty((K, chunk))
    rows = np.full(K, -1)
    shown = wrong[: 0 if average.shape[0] > 0 else 1]  # counted for w only without averaging
    for start in range(0, block.rows(), chunk):
        size = min(chunk, block.rows() - start)
        before = figures[:, SMALLEST].copy()
        chunk_look(block, numbers, labels, start, size, joint, w, scale, scores, margins, figures, shown)
        for k in active:
            if figures[k, SMALLEST] < before[k]:
                rows[k] = start + np.argmin(margins[k, :size])
        if average.shape[0] > 0:
            chunk_look(block, numbers, labels, start, size, joint, average, scale, scores, margins, averaged, wrong)
    if joint:
        worst = active[0]
        for k in active[1:]:
            least, known = figures[worst, SMALLEST], figures[k, SMALLEST]
            if known < least or (known == least and 0 <= rows[k] < rows[worst]):
                worst = k
        if rows[worst] >= 0:
            nearest[:] = 0.0
            block.add(rows[worst], ROOT, nearest[labels.code(numbers.row(rows[worst]))])
            block.add(rows[worst], -ROOT, nearest[worst])
        figures[:, SMALLEST] = figures[worst, SMALLEST]
        return
    for k in active:
        if rows[k] >= 0:
            nearest[k] = 0.0
            block.add(rows[k], labels.sign(k, numbers.row(rows[k])), nearest[k])


def warm(sample: Sample) -> None:
    figures = np.zeros((1, FIGURES))
    figures[:, SMALLEST], figures[:, LEVEL] = math.inf, -math.inf
    for loss in sample.losses("share"):
        softmax_block(
            *sample.rows, loss, 2, False, ONE, weights(), np.ones(1), 40.0, weights(), figures.copy(), counts()
        )
    perceptron_block(
        *sample.rows, 2, False, ONE, weights(), weights(), np.ones(1), weights(), figures.copy(), figures.copy(),
        counts(),
    )  # fmt: skip
