"""Gap-safe screening: columns whose weights are 0 in every solution (Ndiaye et al. 2017, JMLR 18)."""

from __future__ import annotations

import math

import numpy as np

from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.objectives.base import Sums
from streammargin.solvers.proof.rounding import norm_rounding

TOO_FAR = (
    "a row or column has a norm too far from 1 to compute with; multiply the data by a constant, or use `scale=maxabs`"
)
BLURRED = 1e-6  # relative allowance for rounding of sums over rows


def proven_zeros(problem: Problem, theta: np.ndarray, sums: Sums, gap: float, bend: np.ndarray) -> np.ndarray:
    """Which columns (d+1,) have weight 0 in every solution, as far as a dual point proves it.

    theta (d+1,): A^T alpha of feasible duals with these sums; gap: the objective of some weights minus the dual bound;
    bend (d+1,): sum_i cap_i a_ij^2 times the largest second derivative of the loss, or more; inf without a bound.

    Bounded curvature makes the dual strongly concave. So A^T alpha in block b is within sqrt(2 gap bend_b) of its
    optimal value, and a block whose norm stays below its threshold at that distance is 0.
    """
    zeros, penalty = np.zeros(theta.size, bool), problem.objective.penalty
    ordered = problem.objective.pieces(theta.size)
    if ordered is None or not gap < math.inf:
        return zeros
    blur = sums.blur * penalty.stretch(theta.size)
    part = penalty.part(penalty.gauge(problem.objective.penalised(theta)) + blur, norm_rounding(theta.size))
    order, pieces = ordered
    bend = np.add.reduceat(bend[order], pieces.starts[:-1]) * (1.0 + BLURRED)
    lengths = part * np.sqrt(np.add.reduceat(theta[order] ** 2, pieces.starts[:-1]))
    still = lengths + np.sqrt(2.0 * max(gap, 0.0) * bend) + blur < pieces.thresholds
    zeros[order] = np.repeat(still, np.diff(pieces.starts))
    return zeros
