"""Sums over rows in memory for Newton's method without a Hessian: gradients, products of the Hessian, line searches.

The scores of all rows (n, lines) are kept beside the weights (lines, d+1) and beside a direction. So a line search
reads no row, and a product of the Hessian reads each row once. The loss is one of a single margin, whose group has one
line, or one of all lines of the group, whose part is in coupled_products.py. The second derivatives by the scores are
the `bends` of the rows: (n, 1), or (n, 2 lines). Kernels take weights as rows read them: of sparse rows (d+1, lines).
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.coupled_products import (
    add_factors,
    bend_scores,
    coupled_constants,
    coupled_pulls,
    coupled_slope,
)
from streammargin.compiled.jit import kernel
from streammargin.compiled.newton import CHUNK, FLAT, SEARCH_STEPS, chunk_slope, narrowed
from streammargin.compiled.overloads import REORDERED
from streammargin.compiled.samples import Sample
from streammargin.losses.base import attained, coupled, smooth
from streammargin.rows.blocks import Block, DenseBlock
from streammargin.rows.labels import Labels

LEAST = 16  # least rows of a chunk, of which CHUNK is the most
VALUES = 1 << 16  # most values of a chunk of more rows than the least


def apart(loss: Any) -> tuple[Any, Any]:
    """(The loss of a single margin, None), or (None, one of all lines): parts for None are not compiled."""
    return (None, loss) if coupled(loss) else (loss, None)


@register_jitable
def _chunk_of(width):
    """How many rows of this many values are in a chunk."""
    return min(CHUNK, max(LEAST, VALUES // width))


@kernel
def add_scores(block, w, scores):
    """Set scores (n, lines) to those of all rows at w."""
    size = _chunk_of(block.features() + 1)
    for start in range(0, block.rows(), size):
        stop = min(start + size, block.rows())
        block.scores_of(start, stop, w, scores[start:stop])


@register_jitable(fastmath=REORDERED)
def _single_terms(loss, caps, margins, a, slopes):
    """Fill the duals and slopes of a chunk; returns the sum of its losses."""
    total = 0.0
    for r in range(caps.size):
        a[r], value, _share, slopes[r] = attained(loss, margins[r], caps[r])
        total += value
    return total


@register_jitable
def _single_pulls(labels, loss, k, start, stop, scores, bends, R):
    """Fill `bends` of the rows start .. stop, and R with what their duals pull; returns the sum of their losses."""
    size = stop - start
    caps, margins, signs, a, slopes = np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    count = 0
    for i in range(start, stop):
        caps[count], signs[count] = labels.cap(k, i), labels.sign(k, i)
        margins[count] = labels.margin(k, i, scores[i, 0])
        count += caps[count] > 0.0
    total = _single_terms(loss, caps[:count], margins[:count], a[:count], slopes[:count])
    count = 0
    for i in range(start, stop):
        present = labels.cap(k, i) > 0.0
        R[i - start, 0] = signs[count] * a[count] if present else 0.0
        bends[i, 0] = slopes[count] if present else 0.0
        count += present
    return total


@kernel
def add_gradient(block, labels, loss, joint, k, scores, bends, image):
    """Fill `bends` at these scores, and add what the duals pull to image; returns the sum of the losses.

    loss, joint: as `apart` returns them. k: the first line of the group.
    """
    lines, size = scores.shape[1], _chunk_of(block.features() + 1)
    R, total = np.empty((size, lines)), 0.0
    for start in range(0, block.rows(), size):
        stop = min(start + size, block.rows())
        if loss is not None:
            total += _single_pulls(labels, loss, k, start, stop, scores, bends, R)
        if joint is not None:
            total += coupled_pulls(labels, joint, k, start, stop, scores, bends, R)
        block.add_pulls(start, stop, R, image)
    return total


@kernel
def add_curved(block, bends, v, scores, image):
    """Add A^T (second derivatives) A v to image, and set scores (n, lines) to those of v."""
    lines, size = scores.shape[1], _chunk_of(block.features() + 1)
    R = np.empty((size, lines))
    for start in range(0, block.rows(), size):
        stop = min(start + size, block.rows())
        Z = scores[start:stop]
        block.scores_of(start, stop, v, Z)
        if bends.shape[1] > lines:
            bend_scores(bends[start:stop], Z, R)
        else:
            for r in range(stop - start):
                R[r, 0] = bends[start + r, 0] * Z[r, 0]
        block.add_pulls(start, stop, R, image)


@kernel
def add_diagonal(block, bends, stride, diagonal):
    """diagonal (lines, d+1) += `stride` times the Hessian's, from one row of `stride`."""
    lines = diagonal.shape[0]
    for i in range(0, block.rows(), stride):
        for g in range(lines):
            bend = bends[i, g]
            if bends.shape[1] > lines:
                bend -= bends[i, lines + g] * bends[i, lines + g]
            if bend > 0.0:
                block.add_squares(i, stride * bend, diagonal[g])


@kernel
def add_constants(labels, loss, joint, k, scores, pull, bend):
    """Add what the duals at scores (n, lines) pull the constants of a group to pull (lines,); returns the sum of
    |duals|.

    The sum of the second derivatives by the scores is added to bend (lines, lines). k: the first line.
    """
    total = 0.0
    if joint is not None:
        total = coupled_constants(labels, joint, k, scores, pull, bend)
    if loss is not None:
        total = _single_constants(labels, loss, k, scores, pull, bend)
    return total


@register_jitable
def _single_constants(labels, loss, k, scores, pull, bend):
    """The same for a loss of a single margin."""
    total = 0.0
    for i in range(scores.shape[0]):
        cap = labels.cap(k, i)
        if cap > 0.0:
            dual, _value, _share, slope = attained(loss, labels.margin(k, i, scores[i, 0]), cap)
            pull[0] += labels.sign(k, i) * dual
            total += abs(dual)
            bend[0, 0] += slope
    return total


@register_jitable
def _single_slope(labels, loss, k, scores, along, t):
    """(First, second derivative) by t of the losses at scores + t along, both (n, lines)."""
    rows = scores.shape[0]
    first, second = 0.0, 0.0
    caps, margins, products, none = np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK), np.empty(0)
    for start in range(0, rows, CHUNK):
        stop = min(start + CHUNK, rows)
        count = 0
        for i in range(start, stop):
            caps[count], margins[count] = labels.cap(k, i), labels.margin(k, i, scores[i, 0])
            products[count] = labels.sign(k, i) * along[i, 0]
            count += caps[count] > 0.0
        down, bend = chunk_slope(loss, 0.0, caps[:count], margins[:count], none, products[:count], t)
        first += down
        second += bend
    return first, second


@kernel
def lowest_along(labels, loss, joint, k, scores, along, slope, square, down):
    """An approximate minimiser t > 0 of the losses at scores + t along, plus slope t + square t^2 / 2.

    down < 0: the derivative of all at 0. Newton's method from t = 1, inside an interval that contains the minimum.
    """
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(SEARCH_STEPS):
        first, second = 0.0, 0.0
        if joint is not None:
            first, second = coupled_slope(labels, joint, k, scores, along, t)
        if loss is not None:
            first, second = _single_slope(labels, loss, k, scores, along, t)
        first += slope + square * t
        if abs(first) <= FLAT * abs(down):
            break
        low, high, t = narrowed(low, high, t, first, second + square)
    return t


def warm(sample: Sample) -> None:
    for loss in sample.losses("slope"):
        warm_loss(sample, sample.labels, loss, 1)
    for loss in sample.joint_losses():
        if smooth(loss):
            warm_loss(sample, sample.joint_labels, loss, 2)
            numbers, blocks = np.zeros((2, 2)), [sample.block]
            coupled_pulls(sample.joint_labels, loss, 0, 0, 2, numbers, np.zeros((2, 4)), numbers.copy())
            if sample.kind == "dense float32":  # or in bytes
                blocks += [DenseBlock(np.ones((2, 2), np.uint8), 1.0)]
                warm_rows(blocks[1], sample.joint_labels, loss, np.zeros((2, 3)))
            for block, kind in product(blocks, (np.float32, np.float64)):
                add_factors(block, np.zeros((2, 4)), 1, np.zeros((2, 2)), np.zeros((3, 3), kind))


def warm_loss(sample: Sample, labels: Labels, loss: Any, lines: int) -> None:
    w = np.zeros((3, lines) if sample.sparse else (lines, 3))
    scores, both = np.zeros((2, lines)), apart(loss)
    warm_rows(sample.block, labels, loss, w)
    add_constants(labels, *both, 0, scores, np.zeros(lines), np.zeros((lines, lines)))
    lowest_along(labels, *both, 0, scores, scores.copy(), 0.0, 1.0, -1.0)
    add_diagonal(sample.block, np.zeros((2, 1 if lines == 1 else 2 * lines)), 1, np.zeros((lines, 3)))


def warm_rows(block: Block, labels: Labels, loss: Any, w: np.ndarray) -> None:
    lines = w.size // 3
    scores, bends = np.zeros((2, lines)), np.zeros((2, 1 if lines == 1 else 2 * lines))
    add_scores(block, w, scores)
    add_gradient(block, labels, *apart(loss), 0, scores, bends, w.copy())
    add_curved(block, bends, w, scores, w.copy())
