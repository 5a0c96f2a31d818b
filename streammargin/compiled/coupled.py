"""Losses of all scores of a row, in chunks of rows as in look.py: their duals, slopes, and what balances constants.

For the row's dual a (a number a line) the second derivatives by the scores are diag(straight) - crossed crossed^T. So
the Hessian is one matrix a line, minus one sum of outer products for all lines.
"""

from __future__ import annotations

import numpy as np

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.losses.base import part_of
from streammargin.rows.blocks import GRAM_ROWS, add_outer_products

# columns per row of weights; the last two once per chunk
CAP, MARGIN, SIGN, TARGET, CENTRE, SIZE, OFF, A, KEPT, SHARE, LENGTH, FACTOR, COLUMNS = range(13)
# of the rows of a line's own class: PART: sum of cap of_share(p) over all rows (losses/__init__.py); MASS: sum of cap;
# LONG: sum of cap ||x_i||
PART, MASS, LONG, PARTS = range(4)


@kernel
def coupled_steps(loss, curvature, softness, kept, twice, columns, size, slopes):
    """LOSSES, ROUNDING and GAP of the rows of a chunk, and their duals; a row's share is stored in the first column.

    kept: whether the column CENTRE has the centres; else they are the loss's own. twice: the column A has a second step
    from where the first one led. slopes (2 lines, CHUNK) out: straight and crossed of each line; or None.
    """
    primal, slipped, gap = 0.0, 0.0, 0.0
    lines = columns.shape[1]
    margins, signs, off, middle, a = np.empty(lines), np.empty(lines), np.empty(lines), np.empty(lines), np.empty(lines)
    straight, crossed, first = np.empty(lines), np.empty(lines), np.empty(lines)
    for r in range(size):
        cap = columns[CAP, 0, r]
        for g in range(lines):
            margins[g], signs[g], off[g] = columns[MARGIN, g, r], columns[SIGN, g, r], columns[OFF, g, r]
            middle[g] = columns[CENTRE, g, r]
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
            columns[A, g, r], columns[KEPT, g, r], columns[CENTRE, g, r] = a[g], first[g], middle[g]
            met += a[g] * margins[g]
        columns[SHARE, 0, r] = share
        if L > 0.0:
            gap += max(0.0, value - share + met)
        if slopes is not None:
            loss.coupled_slopes(margins, signs, middle, cap, L, a, straight, crossed)
            for g in range(lines):
                slopes[g, r], slopes[lines + g, r] = straight[g], crossed[g]
    return primal, slipped, gap


@kernel
def add_crossed(block, rows, crossed, H):
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


@kernel
def add_own(block, loss, rows, columns, listed, factors, own, parts):
    """own (d+1,) += sum of cap x_i over the rows of this line's own class, and `parts` of a chunk.

    rows: of the chunk; columns (COLUMNS, CHUNK): of the line; listed, factors: scratch.
    """
    count, part, mass, long = 0, 0.0, 0.0, 0.0
    for r in range(rows.size):
        cap, mine = columns[CAP, r], columns[SIGN, r] > 0.0
        share = columns[A, r] / cap
        part += cap * part_of(loss, 1.0 - share if mine else share, mine)
        if mine:
            listed[count], factors[count] = rows[r], cap
            count += 1
            mass += cap
            long += cap * columns[SIZE, r]
    block.add_rows(listed[:count], factors[:count], own)
    parts[PART] += part
    parts[MASS] += mass
    parts[LONG] += long
