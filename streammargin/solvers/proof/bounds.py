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


def weighed(objective: Objective, w: np.ndarray, losses: np.ndarray) -> Candidate:
    """The candidate of w (d+1,) with the sums of its losses (LOSS_SUMS,)."""
    value = float(losses[look.LOSSES])
    rounding = float(losses[look.ROUNDING]) + CHUNKED * value
    return objective.weighed(objective.size(w), value, rounding, int(losses[look.MISTAKES]))


def bounds(
    objective: Objective, w: np.ndarray, losses: np.ndarray, pull: np.ndarray, duals: np.ndarray, present: int,
    passes: int = 1, budget: float = math.inf, largest_duals: tuple[float, float] = (1.0, 1.0),
) -> Bounds:  # fmt: skip
    """Bounds from w (d+1,) with its losses (LOSS_SUMS,), and from duals with sums (S, DUAL_SUMS) and pull (S, d+1).

    present: rows. passes: the duals are the mean of this many, whose sums were added up; the dual objective is concave.
    budget: bound on the sum of the duals, each divided by the entry of `largest_duals` for its sign.
    """
    sides = []
    for side, most in zip(duals.tolist(), largest_duals, strict=False):
        dual, alpha, summed, pulled = (side[name] / passes for name in NAMES)
        terms = look.CHUNK + passes + min(int(side[look.ADDED]), present)  # of an entry of `pull`, one after the other
        sides.append(Sums(
            0.0, dual - CHUNKED * summed, alpha, 0.0, 0.0, mass=alpha / most, summed=summed, pulled=pulled, rows=terms
        ))  # fmt: skip
    theta, total = objective.balanced(pull / passes, sides)
    if total.mass > budget:
        theta, total = budget / total.mass * theta, total.part(budget / total.mass)
    return Bounds(weighed(objective, w, losses), objective.bounds(theta, total)[0], theta, total)
