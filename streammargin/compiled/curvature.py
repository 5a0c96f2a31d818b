"""The curvature of a row, with under- and overflow reported as inf."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled.jit import kernel
from streammargin.compiled.overloads import along
from streammargin.compiled.samples import NORMS, ONLY_PROBLEM, SampleBlock
from streammargin.penalties.mirror_maps import GroupedNorm, Norm, Shrunk
from streammargin.rows.blocks import Block

OTHER_NORMS = (Shrunk(0.5, 0.5), GroupedNorm(np.zeros(3, np.int32), np.ones(1), 0.5, 0.5))


@along
def row_curvature(block: Block, norm: Norm, i: int) -> float:
    """L_i = (q-1) ||a_i||_q^2: 0 only for a row of zeros, inf if the powers under- or overflow."""
    return _checked(norm.curvature(block, i), block, i)


@along
def now_and_curvature(
    block: Block, norm: Norm, i: int, theta: np.ndarray, powers: np.ndarray, power_sum: float
) -> tuple[float, float]:
    """(x_i.w, L_i) at the first visit of a row; reading a sparse row twice would take a quarter longer."""
    score, L = norm.now_and_curvature(block, i, theta, powers, power_sum)
    return score, _checked(L, block, i)


@along
def _checked(L, block, i):
    if (L == 0.0 and block.sum_powers(i, 1.0) > 0.0) or not np.isfinite(L):
        return math.inf
    return L


@kernel
def curvatures(block, norm, rows, L):
    """Write the curvature of these rows of the block to L (m,) if that is 0."""
    for i in rows:
        if L[i] == 0.0:
            L[i] = row_curvature(block, norm, i)


def warm(sample: SampleBlock) -> None:
    for norm in (*NORMS, *OTHER_NORMS):
        curvatures(sample.block, norm, ONLY_PROBLEM, np.zeros(2))
