"""Sums over rows in memory for Newton's method without a Hessian: gradients, products of the Hessian, line searches.

The scores of all rows (n, lines) are kept beside the weights (lines, d+1) and beside a direction. So a line search
reads no row, and a product of the Hessian reads each row once. The loss is called by address (judged.py). It is one of
a single margin, whose group has one line, or one of all lines of the group. The second derivatives by the scores of a
row are the `bends` of the rows: (n, 1), or (n, 2 lines), straight and then crossed. Kernels take weights as rows read
them: of sparse rows (d+1, lines).
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled.jit import kernel
from streammargin.compiled.judged import (
    APART,
    CAPS,
    FIELDS,
    MARGINS,
    SAID,
    SIGNS,
    TARGETS,
    VALUE,
    A,
    StepAsked,
    judge_of,
)
from streammargin.compiled.look import CHUNK_ROWS, MOST_CHUNK_VALUES, told_of_rows
from streammargin.compiled.newton import FLAT_SLOPE_SHARE, SEARCH_STEPS, narrowed
from streammargin.compiled.samples import SampleBlock
from streammargin.losses.base import smooth
from streammargin.rows.blocks import GRAM_ROWS, Block, DenseBlock
from streammargin.rows.labels import Labels, RowNumbers

LEAST_CHUNK_ROWS = 16  # of which CHUNK_ROWS is the most


@register_jitable
def chunk_of(width: int, lines: int) -> int:
    """How many rows of this many values and scores are in a chunk."""
    return min(CHUNK_ROWS, max(LEAST_CHUNK_ROWS, MOST_CHUNK_VALUES // max(width, lines)))


@kernel
def add_scores(block, w, scores):
    """Set scores (n, lines) to those of all rows at w."""
    size = chunk_of(block.features() + 1, 1)
    for start in range(0, block.rows(), size):
        stop = min(start + size, block.rows())
        block.scores_of(start, stop, w, scores[start:stop])


class Scored(NamedTuple):
    """Temporary arrays for a chunk of m rows whose scores are kept; here (m,): those that are present."""

    columns: np.ndarray
    slopes: np.ndarray
    said: np.ndarray
    here: np.ndarray


@register_jitable
def _scored(lines, m):
    columns, slopes = np.zeros((FIELDS, lines, m + APART)), np.empty((2 * lines, m + APART))
    return Scored(columns, slopes, np.empty(SAID), np.empty(m, np.int64))


@register_jitable
def _judge(labels, judge, k, start, stop, scores, along, t, chunk):
    """Duals and second derivatives of the rows start .. stop at scores + t along; returns how many are present.

    scores, along (n, lines), or (0, lines): 0.
    """
    c, here, lines = chunk.columns, chunk.here, scores.shape[1]
    numbers, m, size = RowNumbers(0, np.empty(0, np.int64)), stop - start, 0
    for g in range(lines):
        told_of_rows(labels, numbers, k + g, start, m, c[CAPS, g], c[SIGNS, g], c[TARGETS, g])
        for r in range(m):
            score = scores[start + r, g] + (t * along[start + r, g] if along.shape[0] > 0 else 0.0)
            c[MARGINS, g, r] = c[SIGNS, g, r] * score - c[TARGETS, g, r]
    for r in range(m):
        here[size] = r
        if size < r:
            for g in range(lines):
                c[CAPS, g, size], c[SIGNS, g, size] = c[CAPS, g, r], c[SIGNS, g, r]
                c[MARGINS, g, size] = c[MARGINS, g, r]
        size += c[CAPS, 0, size] > 0.0
    judge.call(
        StepAsked(0.0, 0.0, 0.0, 0.0, 0.0, False, True, True, False, False, False), c, chunk.slopes, size, chunk.said
    )
    return size


@register_jitable
def _pulls(labels, judge, k, start, stop, scores, bends, R, chunk):
    """Fill `bends` of the rows start .. stop, and R with what their duals pull; returns the sum of their losses."""
    size, c, lines = _judge(labels, judge, k, start, stop, scores, scores[:0], 0.0, chunk), chunk.columns, R.shape[1]
    if size < stop - start:
        R[: stop - start] = 0.0
        bends[start:stop] = 0.0
    for r in range(size):
        row = chunk.here[r]
        for g in range(lines):
            R[row, g] = c[SIGNS, g, r] * c[A, g, r]
        for g in range(bends.shape[1]):
            bends[start + row, g] = chunk.slopes[g, r]
    return chunk.said[VALUE]


@kernel
def find_bends(labels, judge, k, scores, bends):
    """Fill `bends` of all rows at these scores (n, lines)."""
    rows, lines = scores.shape
    m = chunk_of(1, lines)
    R, chunk = np.empty((m, lines)), _scored(lines, m)
    for start in range(0, rows, m):
        _pulls(labels, judge, k, start, min(start + m, rows), scores, bends, R, chunk)


@kernel
def add_gradient(block, labels, judge, k, scores, bends, image):
    """Fill `bends` at these scores, and add what the duals pull to image; returns the sum of the losses.

    judge: of the loss (`judge_of`). k: the first line of the group.
    """
    lines, size = scores.shape[1], chunk_of(block.features() + 1, scores.shape[1])
    R, total, chunk = np.empty((size, lines)), 0.0, _scored(lines, size)
    for start in range(0, block.rows(), size):
        stop = min(start + size, block.rows())
        total += _pulls(labels, judge, k, start, stop, scores, bends, R, chunk)
        block.add_pulls(start, stop, R, image)
    return total


@register_jitable
def _bend_scores(bends: np.ndarray, Z: np.ndarray, R: np.ndarray) -> None:
    """Set R to the products of the scores Z (m, lines) of some rows and their second derivatives."""
    lines = Z.shape[1]
    for r in range(Z.shape[0]):
        met = 0.0
        for g in range(lines):
            met += bends[r, lines + g] * Z[r, g]
        for g in range(lines):
            R[r, g] = bends[r, g] * Z[r, g] - bends[r, lines + g] * met


@kernel
def add_curved(block, bends, v, scores, image):
    """Add A^T (second derivatives) A v to image, and set scores (n, lines) to those of v."""
    lines, size = scores.shape[1], chunk_of(block.features() + 1, scores.shape[1])
    R = np.empty((size, lines))
    for start in range(0, block.rows(), size):
        stop = min(start + size, block.rows())
        Z = scores[start:stop]
        block.scores_of(start, stop, v, Z)
        if bends.shape[1] > lines:
            _bend_scores(bends[start:stop], Z, R)
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
def add_factors(block, bends, stride, of_lines, of_columns):
    """Factors of a Kronecker product near the Hessian, from one row of `stride`.

    D_i are the second derivatives of row i by its scores. Both are upper triangles:

        of_lines (lines, lines) += sum D_i / sum trace D_i;
        of_columns (d+1, d+1) += stride sum trace(D_i) x_i x_i^T.
    """
    lines, count, total = of_lines.shape[0], 0, 0.0
    listed, traces = np.empty(-(-block.rows() // stride), np.int64), np.empty(-(-block.rows() // stride))
    for i in range(0, block.rows(), stride):
        trace = 0.0
        for g in range(lines):
            trace += bends[i, g] - bends[i, lines + g] * bends[i, lines + g]
        if trace > 0.0:
            listed[count], traces[count] = i, stride * trace
            count += 1
            total += trace
    for r in range(count):
        i = listed[r]
        for g in range(lines):
            of_lines[g, g] += bends[i, g] / total
            for h in range(g, lines):
                of_lines[g, h] -= bends[i, lines + g] * bends[i, lines + h] / total
    few = np.zeros((GRAM_ROWS, of_columns.shape[0]))
    block.add_gram(listed[:count], traces[:count], few, of_columns)


@kernel
def add_constants(labels, judge, k, scores, pull, bend):
    """Add what the duals at scores (n, lines) pull the constants of a group to pull (lines,); returns the sum of
    |duals|.

    The sum of the second derivatives by the scores is added to bend (lines, lines). k: the first line.
    """
    rows, lines = scores.shape
    m = chunk_of(1, lines)
    chunk, total = _scored(lines, m), 0.0
    c, slopes = chunk.columns, chunk.slopes
    for start in range(0, rows, m):
        size = _judge(labels, judge, k, start, min(start + m, rows), scores, scores[:0], 0.0, chunk)
        for g in range(lines):
            for r in range(size):
                pull[g] += c[SIGNS, g, r] * c[A, g, r]
                total += abs(c[A, g, r])
                bend[g, g] += slopes[g, r]
            for h in range(lines if lines > 1 else 0):
                for r in range(size):
                    bend[g, h] -= slopes[lines + g, r] * slopes[lines + h, r]
    return total


@register_jitable
def _slope(labels, judge, k, scores, along, t, chunk):
    """(First, second derivative) by t of the losses at scores + t along, both (n, lines)."""
    rows, lines = scores.shape
    c, slopes, m, first, second = chunk.columns, chunk.slopes, chunk.here.size, 0.0, 0.0
    for start in range(0, rows, m):
        size = _judge(labels, judge, k, start, min(start + m, rows), scores, along, t, chunk)
        for r in range(size):
            row, met = start + chunk.here[r], 0.0
            for g in range(lines):
                first -= c[SIGNS, g, r] * c[A, g, r] * along[row, g]
                second += slopes[g, r] * along[row, g] * along[row, g]
                met += slopes[lines + g, r] * along[row, g] if lines > 1 else 0.0
            second -= met * met
    return first, second


@kernel
def lowest_along(labels, judge, k, scores, along, slope, square, down):
    """An approximate minimiser t > 0 of the losses at scores + t along, plus slope t + square t^2 / 2.

    down < 0: the derivative of all at 0. Newton's method from t = 1, inside an interval that contains the minimum.
    """
    low, high, t, chunk = 0.0, np.inf, 1.0, _scored(scores.shape[1], chunk_of(1, scores.shape[1]))
    for _ in range(SEARCH_STEPS):
        first, second = _slope(labels, judge, k, scores, along, t, chunk)
        first += slope + square * t
        if abs(first) <= FLAT_SLOPE_SHARE * abs(down):
            break
        low, high, t = narrowed(low, high, t, first, second + square)
    return t


def warm(sample: SampleBlock) -> None:
    for loss in sample.losses("slope"):
        warm_loss(sample, sample.labels, loss, 1)
    for loss in sample.joint_losses():
        if smooth(loss):
            warm_loss(sample, sample.joint_labels, loss, 2)
            find_bends(sample.joint_labels, judge_of(loss), 0, np.zeros((2, 2)), np.zeros((2, 4)))
            blocks = [sample.block]
            if sample.kind == "dense float32":  # or in bytes
                blocks += [DenseBlock(np.ones((2, 2), np.uint8), 1.0)]
                warm_rows(blocks[1], sample.joint_labels, loss, np.zeros((2, 3)))
            for block, kind in product(blocks, (np.float32, np.float64)):
                add_factors(block, np.zeros((2, 4)), 1, np.zeros((2, 2)), np.zeros((3, 3), kind))


def warm_loss(sample: SampleBlock, labels: Labels, loss: Any, lines: int) -> None:
    w = np.zeros((3, lines) if sample.sparse else (lines, 3))
    scores, judge = np.zeros((2, lines)), judge_of(loss)
    warm_rows(sample.block, labels, loss, w)
    add_constants(labels, judge, 0, scores, np.zeros(lines), np.zeros((lines, lines)))
    lowest_along(labels, judge, 0, scores, scores.copy(), 0.0, 1.0, -1.0)
    add_diagonal(sample.block, np.zeros((2, 1 if lines == 1 else 2 * lines)), 1, np.zeros((lines, 3)))


def warm_rows(block: Block, labels: Labels, loss: Any, w: np.ndarray) -> None:
    lines = w.size // 3
    scores, bends = np.zeros((2, lines)), np.zeros((2, 1 if lines == 1 else 2 * lines))
    add_scores(block, w, scores)
    add_gradient(block, labels, judge_of(loss), 0, scores, bends, w.copy())
    add_curved(block, bends, w, scores, w.copy())
