"""The curvature of a row, with under- and overflow reported as inf."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled.overloads import along


@along
def row_curvature(block, norm, i):
    """L_i = (q-1) ||a_i||_q^2: 0 only for a row of zeros, inf where the powers under- or overflow."""
    return _checked(norm.curvature(block, i), block, i)


@along
def now_and_curvature(block, norm, i, theta, powers, power_sum):
    """(x_i.w, L_i) at the first visit of a row; reading a sparse row twice would take a quarter longer."""
    score, L = norm.now_and_curvature(block, i, theta, powers, power_sum)
    return score, _checked(L, block, i)


@along
def _checked(L, block, i):
    if (L == 0.0 and block.sum_powers(i, 1.0) > 0.0) or not np.isfinite(L):
        return math.inf
    return L
