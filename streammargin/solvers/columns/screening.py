"""Gap-safe screening: columns whose weights are 0 in every solution (Ndiaye et al. 2017, JMLR 18)."""

from __future__ import annotations

import math

import numpy as np

from streammargin.penalties.base import shrink
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import Best
from streammargin.solvers.proof.bounds import Bounds
from streammargin.solvers.proof.rounding import norm_rounding

TOO_FAR = (
    "a row or column has a norm too far from 1 to compute with; multiply the data by a constant, or use `scale=maxabs`"
)
BLURRED = 1e-6  # relative allowance for rounding of sums over rows


def proven_zeros(problem: Problem, k: int, best: Best, proof: Bounds, bend: np.ndarray) -> np.ndarray:
    """Which columns (d+1,) have weight 0 in every solution of line k, as far as a dual point proves it.

    best: the figures of some weights; bend (d+1,): sum_i cap_i a_ij^2 times the largest second derivative of the loss,
    or more; inf without a bound.

    Bounded curvature makes the dual strongly concave. So A^T alpha in block b is within sqrt(2 gap bend_b) of its
    optimal value. A block that stays below its threshold at that distance, counted beyond its cut, is 0. So is a column
    that stays below its cut.
    """
    theta, gap = proof.theta, float(best.primal[k] + best.rounding[k]) - proof.dual
    zeros, penalty = np.zeros(theta.size, bool), problem.objective.penalty
    ordered = problem.objective.pieces(theta.shape)
    if ordered is None or not gap < math.inf:
        return zeros
    blur = proof.total.blur
    part = penalty.part(problem.objective.penalised(theta), blur, norm_rounding(theta.size))
    order, pieces = ordered
    first, sizes = pieces.starts[:-1], np.diff(pieces.starts)
    away, found, cuts = 2.0 * max(gap, 0.0) * bend[order], part * theta[order], np.repeat(pieces.cuts, sizes)
    away *= 1.0 + BLURRED
    lengths = np.sqrt(np.add.reduceat(shrink(found, cuts) ** 2, first))
    still = lengths + np.sqrt(np.add.reduceat(away, first)) + blur < pieces.thresholds
    zeros[order] = np.repeat(still, sizes) | (np.abs(found) + np.sqrt(away) + blur < cuts)
    return zeros
