"""Losses of all scores of a row, in chunks of rows as in look.py: their duals, slopes, and what balances constants.

For the row's dual a (a number a line) the second derivatives by the scores are diag(straight) - crossed crossed^T. So
the Hessian is one matrix a line, minus one sum of outer products for all lines.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled import overloads  # noqa: F401
from streammargin.losses.base import part_of
from streammargin.rows.blocks import GRAM_ROWS, Block, add_outer_products

# of the rows of a line's own class: PART: sum of cap of_share(p) over all rows (losses/__init__.py); MASS: sum of cap;
# LONG: sum of cap ||x_i||
PART, MASS, LONG, PARTS = range(4)


class Columns(NamedTuple):
    """Quantities of a chunk's rows, (lines, CHUNK) each.

    off: bound on the rounding error of the margin; kept: the dual that is stored; shares: what the dual objective gets.
    """

    caps: np.ndarray
    margins: np.ndarray
    signs: np.ndarray
    targets: np.ndarray
    centres: np.ndarray
    sizes: np.ndarray
    off: np.ndarray
    a: np.ndarray
    kept: np.ndarray
    shares: np.ndarray


@register_jitable
def coupled_steps(
    loss: Any, curvature: float, softness: float, kept: bool, twice: bool, columns: Columns, size: int,
    slopes: np.ndarray | None,
) -> tuple[float, float, float]:  # fmt: skip
    """LOSSES, ROUNDING and GAP of the rows of a chunk, and their duals; a row's share is stored in the first column.

    kept: whether the column `centres` is set; else the loss has its own. twice: the column `a` gets a second step.
    Out: slopes (2 lines, CHUNK), straight and crossed of each line; or None.
    """
    primal, slipped, gap = 0.0, 0.0, 0.0
    lines = columns.caps.shape[0]
    margins, signs, off, middle, a = np.empty(lines), np.empty(lines), np.empty(lines), np.empty(lines), np.empty(lines)
    straight, crossed, first = np.empty(lines), np.empty(lines), np.empty(lines)
    for r in range(size):
        cap = columns.caps[0, r]
        for g in range(lines):
            margins[g], signs[g], off[g] = columns.margins[g, r], columns.signs[g, r], columns.off[g, r]
            middle[g] = columns.centres[g, r]
        if not kept:
            loss.coupled_middle(signs, cap, middle)
        L = curvature + softness / cap
        value, share, slip = loss.coupled_step(margins, signs, off, middle, cap, L, a)
        primal += value
        slipped += slip
        for g in range(lines):
            first[g] = a[g]
        if twice:
            value, share, slip = loss.coupled_step(margins, signs, off, first, cap, L, a)
        met = 0.0
        for g in range(lines):
            columns.a[g, r], columns.kept[g, r], columns.centres[g, r] = a[g], first[g], middle[g]
            met += a[g] * margins[g]
        columns.shares[0, r] = share
        if L > 0.0:
            gap += max(0.0, value - share + met)
        if slopes is not None:
            loss.coupled_slopes(margins, signs, middle, cap, L, a, straight, crossed)
            for g in range(lines):
                slopes[g, r], slopes[lines + g, r] = straight[g], crossed[g]
    return primal, slipped, gap


@register_jitable
def add_crossed(block: Block, rows: np.ndarray, crossed: np.ndarray, H: np.ndarray) -> None:
    """H (L (d+1), L (d+1)) += sum_r (c_r x x_r) (c_r x x_r)^T, upper triangle, over the listed rows; crossed (L, m)."""
    lines = crossed.shape[0]
    width = H.shape[0] // lines
    few = np.empty((GRAM_ROWS, H.shape[0]))
    count = 0
    for r in range(rows.size):
        largest = 0.0
        for g in range(lines):
            largest = max(largest, abs(crossed[g, r]))
        if largest > 0.0:
            few[count] = 0.0
            for g in range(lines):
                if crossed[g, r] != 0.0:
                    block.add(rows[r], crossed[g, r], few[count, g * width : (g + 1) * width])
            count += 1
        if count == GRAM_ROWS or (r + 1 == rows.size and count > 0):
            up = (count + 7) // 8 * 8
            few[count:up] = 0.0
            add_outer_products(few[:up], 1.0, H, 0)
            count = 0


@register_jitable
def add_own(
    block: Block, loss: Any, g: int, rows: np.ndarray, columns: Columns, listed: np.ndarray, factors: np.ndarray,
    own: np.ndarray, parts: np.ndarray,
) -> None:  # fmt: skip
    """own (d+1,) += sum of cap x_i over the rows of the own class of line g, and `parts` of a chunk.

    rows: of the chunk; listed, factors: scratch.
    """
    count, part, mass, long = 0, 0.0, 0.0, 0.0
    for r in range(rows.size):
        cap, mine = columns.caps[g, r], columns.signs[g, r] > 0.0
        share = columns.a[g, r] / cap
        part += cap * part_of(loss, 1.0 - share if mine else share, mine)
        if mine:
            listed[count], factors[count] = rows[r], cap
            count += 1
            mass += cap
            long += cap * columns.sizes[g, r]
    block.add_rows(listed[:count], factors[:count], own)
    parts[PART] += part
    parts[MASS] += mass
    parts[LONG] += long
