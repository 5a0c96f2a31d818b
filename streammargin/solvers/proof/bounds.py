"""From the sums of compiled/look.py to the objective of the weights and a lower bound on it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.compiled import look
from streammargin.solvers.proof.objectives.base import Candidate, Objective, Sums
from streammargin.solvers.proof.rounding import EPS

CHUNKED = look.CHUNK * EPS  # rounding of a sum over a chunk, relative to the size of its terms
NAMES = look.DUAL, look.ALPHA, look.SUMMED, look.PULLED


class Bounds(NamedTuple):
    """The candidate of the weights, and the bound of the duals, with theta (d+1,) = A^T alpha and their sums `total`.

    The duals are scaled down where necessary to be feasible.
    """

    weights: Candidate
    dual: float
    theta: np.ndarray
    total: Sums

    @property
    def apart(self) -> float:
        """The objective minus its lower bound."""
        return self.weights.primal - self.dual


def bounds(
    objective: Objective, w: np.ndarray, losses: np.ndarray, pull: np.ndarray, duals: np.ndarray, present: int,
    passes: int = 1, budget: float = math.inf, budget_multiplier: float = 0.0,
) -> Bounds:  # fmt: skip
    """Bounds from w (d+1,) with its losses (LOSS_SUMS,), and from duals with sums (S, DUAL_SUMS) and pull (S, d+1).

    present: rows; passes: the duals are a mean over so many passes, whose sums were added; by concavity the mean of
    their dual objectives is a bound; budget: most that the duals may sum to; budget_multiplier: its multiplier, which
    was added to all margins.
    """
    value = float(losses[look.LOSSES]) + (budget * budget_multiplier if budget_multiplier > 0.0 else 0.0)
    rounding = float(losses[look.ROUNDING]) + CHUNKED * value
    sides = []
    for side in duals.tolist():
        dual, alpha, summed, pulled = (side[name] / passes for name in NAMES)
        terms = look.CHUNK + passes + min(int(side[look.ADDED]), present)  # number of additions in an entry of `pull`
        sides.append(Sums(0.0, dual - CHUNKED * summed, alpha, 0.0, 0.0, summed=summed, pulled=pulled, rows=terms))
    theta, total = objective.balanced(pull / passes, sides)
    if total.alpha > budget:
        theta, total = budget / total.alpha * theta, total.part(budget / total.alpha)
    found = objective.weighed(w, value, rounding, int(losses[look.MISTAKES]))
    return Bounds(found, objective.bounds(theta, total)[0], theta, total)
