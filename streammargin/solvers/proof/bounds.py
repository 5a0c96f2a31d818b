"""From the sums of a look (compiled/look.py) to what they prove: the objective of weights, and a bound below it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.compiled import look
from streammargin.solvers.proof.objectives.base import Candidate, Objective, Sums
from streammargin.solvers.proof.rounding import EPS

CHUNKED = look.CHUNK * EPS  # rounding of a sum over the rows of a chunk, relative to the size of its terms
NAMES = look.DUAL, look.ALPHA, look.SUMMED, look.PULLED


class Bounds(NamedTuple):
    """What weights are worth, and the bound of the duals, whose A^T alpha (d+1,) is `theta` and has these sums.

    They are the largest part of the duals that was feasible.
    """

    weights: Candidate
    dual: float
    theta: np.ndarray
    total: Sums

    @property
    def apart(self) -> float:
        """Between the objective and its bound."""
        return self.weights.primal - self.dual


def bounds(
    objective: Objective, w: np.ndarray, losses: np.ndarray, pull: np.ndarray, duals: np.ndarray, present: int,
    passes: int = 1, budget: float = math.inf, lift: float = 0.0, reach: tuple[float, float] = (1.0, 1.0),
) -> Bounds:  # fmt: skip
    """Of weights w (d+1,) and their losses (LOSS_SUMS,), and of duals by their sums (S, DUAL_SUMS) and pull (S, d+1).

    present: rows. passes: the duals are the mean of so many, whose sums were added up; the dual objective is concave.
    budget: what the duals may sum up to, each as a part of what its side has of `reach`; lift: the multiplier of that,
    by which all margins were raised, or the loss was lifted.
    """
    value = float(losses[look.LOSSES]) + (budget * lift if lift > 0.0 else 0.0)
    rounding = float(losses[look.ROUNDING]) + CHUNKED * value
    sides = []
    for side, most in zip(duals.tolist(), reach, strict=False):
        dual, alpha, summed, pulled = (side[name] / passes for name in NAMES)
        terms = look.CHUNK + passes + min(int(side[look.ADDED]), present)  # of an entry of `pull`, one after the other
        sides.append(Sums(
            0.0, dual - CHUNKED * summed, alpha, 0.0, 0.0, mass=alpha / most, summed=summed, pulled=pulled, rows=terms
        ))  # fmt: skip
    theta, total = objective.balanced(pull / passes, sides)
    if total.mass > budget:
        theta, total = budget / total.mass * theta, total.part(budget / total.mass)
    found = objective.weighed(w, value, rounding, int(losses[look.MISTAKES]))
    return Bounds(found, objective.bounds(theta, total)[0], theta, total)
