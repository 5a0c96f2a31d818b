"""Sums over rows in memory for Newton's method without a Hessian: gradients, products of the Hessian, line searches.

The scores of all rows (lines, n) are kept beside the weights (lines, d+1) and beside a direction. So a line search
reads no row, and a product of the Hessian reads each row once. The loss is one of a single margin: its group has one
line. The second derivatives by the scores are the `bends` (lines, n) of the rows.
"""

from __future__ import annotations

import numpy as np

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.compiled.newton import narrowed
from streammargin.compiled.samples import Sample, weights
from streammargin.losses.base import attained

CHUNK, LEAST = 512, 16  # most and least rows of a chunk
VALUES = 1 << 16  # most values of a chunk of more rows than the least
FLAT = 0.03  # a line search ends where the slope has fallen to this share of its initial value
SEARCH_STEPS = 60  # most steps of a line search: more halvings of the interval would be below rounding


@kernel
def chunk_of(width):
    """How many rows of this many values are in a chunk."""
    return min(CHUNK, max(LEAST, VALUES // width))


@kernel
def add_scores(block, w, scores):
    """Set scores (lines, n) to those of all rows at w (lines, d+1)."""
    size = chunk_of(w.shape[1])
    Z = np.empty((size, w.shape[0]))
    for start in range(0, block.rows(), size):
        stop = min(start + size, block.rows())
        block.scores_of(start, stop, w, Z)
        for g in range(w.shape[0]):
            for i in range(start, stop):
                scores[g, i] = Z[i - start, g]


@kernel(wide_sums=True)
def single_terms(loss, caps, margins, a, slopes):
    """Fill the duals and slopes of a chunk; returns the sum of its losses."""
    total = 0.0
    for r in range(caps.size):
        a[r], value, _share, slopes[r] = attained(loss, margins[r], caps[r])
        total += value
    return total


@kernel
def add_gradient(block, labels, loss, k, scores, bends, image):
    """Fill `bends` at these scores, and add what the duals pull to image (lines, d+1); returns the sum of the losses.

    k: the first line of the group.
    """
    lines, width = image.shape
    size = chunk_of(width)
    R, total = np.empty((size, lines)), 0.0
    caps, margins, signs, a, slopes = np.empty(size), np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    for start in range(0, block.rows(), size):
        stop = min(start + size, block.rows())
        count = 0
        for i in range(start, stop):
            caps[count], signs[count] = labels.cap(k, i), labels.sign(k, i)
            margins[count] = labels.margin(k, i, scores[0, i])
            count += caps[count] > 0.0
        total += single_terms(loss, caps[:count], margins[:count], a[:count], slopes[:count])
        count = 0
        for i in range(start, stop):
            present = labels.cap(k, i) > 0.0
            R[i - start, 0] = signs[count] * a[count] if present else 0.0
            bends[0, i] = slopes[count] if present else 0.0
            count += present
        block.add_pulls(start, stop, R, image)
    return total


@kernel
def add_curved(block, labels, k, bends, v, scores, image):
    """Add A^T (second derivatives) A v to image (lines, d+1), and set scores (lines, n) to those of v."""
    lines, width = image.shape
    size = chunk_of(width)
    Z = np.empty((size, lines))
    for start in range(0, block.rows(), size):
        stop = min(start + size, block.rows())
        block.scores_of(start, stop, v, Z)
        for g in range(lines):
            for i in range(start, stop):
                scores[g, i] = Z[i - start, g]
        for i in range(start, stop):
            Z[i - start, 0] *= bends[0, i]
        block.add_pulls(start, stop, Z, image)


@kernel
def add_diagonal(block, bends, stride, diagonal):
    """diagonal (d+1,) += `stride` times the sum of bend_i x_ij^2 over one row of `stride`, for a single margin."""
    for i in range(0, block.rows(), stride):
        if bends[0, i] > 0.0:
            block.add_squares(i, stride * bends[0, i], diagonal)


@kernel
def add_constants(labels, loss, k, scores, pull, bend):
    """Add what the duals at scores (lines, n) pull the constant of line k to pull (lines,); returns the sum of |duals|.

    The sum of the second derivatives by the scores is added to bend (lines, lines).
    """
    total = 0.0
    for i in range(scores.shape[1]):
        cap = labels.cap(k, i)
        if cap > 0.0:
            dual, _value, _share, slope = attained(loss, labels.margin(k, i, scores[0, i]), cap)
            pull[0] += labels.sign(k, i) * dual
            total += abs(dual)
            bend[0, 0] += slope
    return total


@kernel(wide_sums=True)
def single_slope(loss, caps, margins, products, t):
    """(First, second derivative) by t of a chunk's losses at margins + t products."""
    first, second = 0.0, 0.0
    for r in range(caps.size):
        a, _value, _share, slope = attained(loss, margins[r] + t * products[r], caps[r])
        first -= a * products[r]
        second += slope * products[r] * products[r]
    return first, second


@kernel
def slope_along(labels, loss, k, scores, along, t):
    """(First, second derivative) by t of the losses at scores + t along, both (lines, n)."""
    rows = scores.shape[1]
    first, second = 0.0, 0.0
    caps, margins, products = np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK)
    for start in range(0, rows, CHUNK):
        stop = min(start + CHUNK, rows)
        count = 0
        for i in range(start, stop):
            caps[count], margins[count] = labels.cap(k, i), labels.margin(k, i, scores[0, i])
            products[count] = labels.sign(k, i) * along[0, i]
            count += caps[count] > 0.0
        down, bend = single_slope(loss, caps[:count], margins[:count], products[:count], t)
        first += down
        second += bend
    return first, second


@kernel
def lowest_along(labels, loss, k, scores, along, slope, square, down):
    """An approximate minimiser t > 0 of the losses at scores + t along, plus slope t + square t^2 / 2.

    down < 0: the derivative of all at 0. Newton's method from t = 1, inside an interval that contains the minimum.
    """
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(SEARCH_STEPS):
        first, second = slope_along(labels, loss, k, scores, along, t)
        first += slope + square * t
        if abs(first) <= FLAT * abs(down):
            break
        low, high, t = narrowed(low, high, t, first, second + square)
    return t


def warm(sample: Sample) -> None:
    block, _numbers, labels = sample.rows
    pair, image = np.zeros((1, 2)), weights()
    add_scores(block, weights(), pair)
    for loss in sample.losses("slope"):
        add_gradient(block, labels, loss, 0, pair, pair.copy(), image)
        add_constants(labels, loss, 0, pair, pair[0, :1].copy(), np.zeros((1, 1)))
        lowest_along(labels, loss, 0, pair, pair.copy(), 0.0, 1.0, -1.0)
    add_curved(block, labels, 0, pair, weights(), pair.copy(), image)
    add_diagonal(block, pair, 1, image[0])
