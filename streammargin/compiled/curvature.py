"""The curvature of a row, told apart from what under- or overflows."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled.overloads import along


@along
def row_curvature(block, norm, i):
    """L_i = (q-1) ||a_i||_q^2: 0 for a row of norm 0 only, inf where its powers leave the range of numbers."""
    return _told_apart(norm.curvature(block, i), block, i)


@along
def now_and_curvature(block, norm, i, theta, powers, power_sum):
    """(x_i.w, L_i) at the first visit of a row: to read a sparse row twice would take a quarter longer."""
    score, L = norm.now_and_curvature(block, i, theta, powers, power_sum)
    return score, _told_apart(L, block, i)


@along
def _told_apart(L, block, i):
    if (L == 0.0 and block.sum_powers(i, 1.0) > 0.0) or not np.isfinite(L):
        return math.inf
    return L
