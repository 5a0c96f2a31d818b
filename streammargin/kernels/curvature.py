"""The curvature of a row, told apart from what under- or overflows."""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from streammargin.kernels import overloads  # noqa: F401


@register_jitable
def row_curvature(block, norm, i):
    """L_i = (q-1) ||a_i||_q^2: 0 for a row of norm 0 only, inf where its powers leave the range of numbers."""
    L = norm.curvature(block, i)
    if (L == 0.0 and block.sum_powers(i, 1.0) > 0.0) or not np.isfinite(L):
        return math.inf
    return L
