"""Columns whose weights are 0 in every solution: gap-safe spheres (Ndiaye et al. 2017, JMLR 18)."""

from __future__ import annotations

import math

import numpy as np

from streammargin.solvers.base import Problem


def proven_zeros(problem: Problem, theta: np.ndarray, blur: float, gap: float, bend: np.ndarray) -> np.ndarray:
    """Which columns (d+1,) have the weight 0 in every solution, as far as a dual point proves it.

    theta (d+1,): A^T alpha of feasible duals, within `blur` of it; gap: between the objective of some weights and the
    bound of these duals. bend (d+1,): sum_i cap_i a_ij^2 times the largest second derivative of the loss; inf where
    it has none.

    Where no loss bends more than that, the dual falls by at least half the square of the distance from its maximum, in
    the metric of the bends: A^T alpha of block b is within sqrt(2 gap bend_b) of the optimal one, and a block that
    stays below its threshold even so is 0.
    """
    zeros = np.zeros(theta.size, bool)
    ordered = problem.objective.pieces(theta.size)
    if ordered is None or not gap < math.inf:
        return zeros
    order, pieces = ordered
    lengths = np.sqrt(np.add.reduceat(theta[order] ** 2, pieces.starts[:-1]))
    radius = np.sqrt(2.0 * max(gap, 0.0) * np.add.reduceat(bend[order], pieces.starts[:-1]))
    still = lengths + radius + blur < pieces.thresholds
    zeros[order] = np.repeat(still, np.diff(pieces.starts))
    return zeros
