"""The part of a loss of all scores of a row in products.py: its duals, second derivatives and line searches.

The second derivatives by the scores of a row are diag(straight) - crossed crossed^T, as in coupled.py. So its `bends`
(n, 2 lines) are straight, then crossed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.compiled.overloads import along
from streammargin.rows.blocks import GRAM_ROWS
from streammargin.rows.labels import Labels


@along
def fill_row(labels: Labels, k: int, row: int, scores: np.ndarray, u: np.ndarray, signs: np.ndarray) -> float:
    """Fill the margins u and signs of a row in the lines k, k + 1, ...; returns its cap."""
    for g in range(u.size):
        signs[g], u[g] = labels.sign(k + g, row), labels.margin(k + g, row, scores[row, g])
    return labels.cap(k, row)


@kernel
def coupled_pulls(labels, loss, k, start, stop, scores, bends, R):
    """Fill `bends` of the rows start .. stop, and R with what their duals pull; returns the sum of their losses."""
    lines = R.shape[1]
    u, signs, none, a = np.empty(lines), np.empty(lines), np.zeros(lines), np.empty(lines)
    straight, crossed = np.empty(lines), np.empty(lines)
    total = 0.0
    for i in range(start, stop):
        cap = fill_row(labels, k, i, scores, u, signs)
        if not cap > 0.0:
            R[i - start] = 0.0
            bends[i] = 0.0
            continue
        value, _share, _slip = loss.coupled_step(u, signs, none, none, cap, 0.0, a)
        loss.coupled_slopes(u, signs, none, cap, 0.0, a, straight, crossed)
        total += value
        for g in range(lines):
            R[i - start, g] = signs[g] * a[g]
            bends[i, g], bends[i, lines + g] = straight[g], crossed[g]
    return total


@register_jitable
def bend_scores(bends: np.ndarray, Z: np.ndarray, R: np.ndarray) -> None:
    """Set R to the products of the scores Z (m, lines) of some rows and their second derivatives."""
    lines = Z.shape[1]
    for r in range(Z.shape[0]):
        met = 0.0
        for g in range(lines):
            met += bends[r, lines + g] * Z[r, g]
        for g in range(lines):
            R[r, g] = bends[r, g] * Z[r, g] - bends[r, lines + g] * met


@register_jitable
def coupled_slope(
    labels: Labels, loss: Any, k: int, scores: np.ndarray, along: np.ndarray, t: float
) -> tuple[float, float]:
    """(First, second derivative) by t of the losses at scores + t along, both (n, lines)."""
    lines = scores.shape[1]
    u, signs, none, a = np.empty(lines), np.empty(lines), np.zeros(lines), np.empty(lines)
    straight, crossed = np.empty(lines), np.empty(lines)
    first, second = 0.0, 0.0
    for i in range(scores.shape[0]):
        cap = fill_row(labels, k, i, scores, u, signs)
        if not cap > 0.0:
            continue
        for g in range(lines):
            u[g] += t * signs[g] * along[i, g]
        loss.coupled_step(u, signs, none, none, cap, 0.0, a)
        loss.coupled_slopes(u, signs, none, cap, 0.0, a, straight, crossed)
        met = 0.0
        for g in range(lines):
            first -= signs[g] * a[g] * along[i, g]
            second += straight[g] * along[i, g] * along[i, g]
            met += crossed[g] * along[i, g]
        second -= met * met
    return first, second


@register_jitable
def coupled_constants(
    labels: Labels, loss: Any, k: int, scores: np.ndarray, pull: np.ndarray, bend: np.ndarray
) -> float:
    """`add_constants` of products.py."""
    lines = scores.shape[1]
    u, signs, none, a = np.empty(lines), np.empty(lines), np.zeros(lines), np.empty(lines)
    straight, crossed = np.empty(lines), np.empty(lines)
    total = 0.0
    for i in range(scores.shape[0]):
        cap = fill_row(labels, k, i, scores, u, signs)
        if not cap > 0.0:
            continue
        loss.coupled_step(u, signs, none, none, cap, 0.0, a)
        loss.coupled_slopes(u, signs, none, cap, 0.0, a, straight, crossed)
        for g in range(lines):
            pull[g] += signs[g] * a[g]
            total += abs(a[g])
            bend[g, g] += straight[g]
            for h in range(lines):
                bend[g, h] -= crossed[g] * crossed[h]
    return total


@kernel
def add_factors(block, bends, stride, of_lines, of_columns):
    """Factors of a Kronecker product near the Hessian, from one row of `stride`.

    With D_i the second derivatives of row i by its scores, of_lines (lines, lines) += sum D_i / sum trace D_i and
    of_columns (d+1, d+1) += stride sum trace(D_i) x_i x_i^T, both as upper triangles.
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
