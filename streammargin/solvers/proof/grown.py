"""Weights that miss a margin of 1 by their rounding are divided by the least margin, and then have no loss at all.

Steps in float32 leave margins of some 1 - 2e-6. If a plane separates the rows, the objective does not grow with C, but
so small losses times C do: no pass lessens them, and at a large C they are more than the tolerance.
"""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled.vectors import square
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.objectives.base import Candidate, Objective

SHORT = 4.0  # roundings of float32 that a margin misses 1 by, times the root of the number of columns
LEAST = 64.0  # columns at the least
SINGLE = 2.0**-24


def far(problem: Problem, found: Candidate, dual: float) -> bool:
    """Whether the weights are not within the tolerance by this bound."""
    return not found.primal - dual <= problem.tol * abs(found.primal)


def missed_by_rounding(least: float, columns: int) -> bool:
    """Whether a least margin is below 1 by no more than rounding explains."""
    return 1.0 > least >= 1.0 - 2.0 * SHORT * SINGLE * math.sqrt(max(LEAST, columns))


def grown(objective: Objective, w: np.ndarray, least: float, longest: float) -> tuple[np.ndarray, Candidate]:
    """The weights of a group, (d+1,) or (lines, d+1), with all margins at least 1, and their figures.

    least: a lower bound (> 0) on the margins; longest: an upper bound on the lengths of the rows.
    """
    # a weight is rounded to its type once more, which moves a score by no more than this times its lines
    moved = float(np.finfo(w.dtype).eps) * longest * sum(lp_norm(one, 2.0, square(one)) for one in np.atleast_2d(w))
    found = ((1.0 + 2.0 * moved) / least * w.astype(np.float64)).astype(w.dtype)
    return found, objective.weighed(objective.size(found), 0.0, 0.0, 0)
