"""From the sums of compiled/look.py to the objective of the weights and a lower bound on it."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from streammargin.compiled import look
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.objectives.base import Candidate, Objective, Sums
from streammargin.solvers.proof.rounding import EPS
from streammargin.solvers.proof.sink import sunk

CHUNKED = look.CHUNK * EPS  # rounding of a sum over a chunk, relative to the size of its terms
NAMES = look.DUAL, look.ALPHA, look.SUMMED, look.PULLED


class Bounds(NamedTuple):
    """The candidate of the weights, and the bound of the duals, with theta = A^T alpha and their sums `total`.

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
    """Bounds of a group of one line, from w (d+1,) with its losses (LOSS_SUMS,), and from duals with sums
    (S, DUAL_SUMS) and pull (S, d+1).

    present: rows. passes: the duals are the mean of this many, whose sums were added up; the dual objective is concave.
    budget: bound on the sum of the duals, each divided by the entry of `largest_duals` for its sign.
    """
    theta, total = objective.balanced(pull / passes, _sides(duals, present, passes, largest_duals))
    if total.mass > budget:
        theta, total = budget / total.mass * theta, total.part(budget / total.mass)
    return Bounds(weighed(objective, w, losses), objective.bounds(theta, total)[0], theta, total)


def bounds_of_lines(
    objective: Objective, w: np.ndarray, losses: np.ndarray, pull: np.ndarray, duals: np.ndarray, own: np.ndarray,
    parts: np.ndarray, present: int,
) -> Bounds:  # fmt: skip
    """Bounds of a group of several lines, from w (lines, d+1) with its losses (lines, LOSS_SUMS), and from duals with
    sums (lines, S, DUAL_SUMS) and pull (lines, S, d+1).

    own, parts: of compiled/coupled.py, for a loss whose duals add up to 0 over the lines, with free constants; else
    (0, ...). Without them each line is balanced by itself.
    """
    sides = [_sides(line, present, 1, (1.0, 1.0)) for line in duals]
    if own.shape[0] > 0:
        theta, total = sunk(pull, sides, own, parts, present)
    else:
        lines = [objective.balanced(*line) for line in zip(pull, sides, strict=True)]
        theta, total = np.stack([line for line, _ in lines]), lines[0][1]
        for _, sums in lines[1:]:
            total = total.plus(sums)
    weights = weighed(objective, w, losses.sum(axis=0))
    return Bounds(weights, objective.bounds(theta, total)[0], theta, total)


class Looked(Protocol):
    """The sums of a look at all rows (compiled/look.py)."""

    pull: np.ndarray
    weights: np.ndarray
    duals: np.ndarray
    wrong: np.ndarray
    own: np.ndarray
    parts: np.ndarray


def bounds_of_group(problem: Problem, k: int, w: np.ndarray, sums: Looked) -> Bounds:
    """The bounds of group k, from all weights w (K, d+1) and the sums of a look at them."""
    mine, losses, pull, duals = (problem.of_group(each, k) for each in (w, sums.weights, sums.pull, sums.duals))
    if problem.lines == 1:
        return bounds(problem.objective, mine, losses, pull, duals, problem.present)
    own, parts = (problem.view(each, k) if each.size else each for each in (sums.own, sums.parts))
    found = bounds_of_lines(problem.objective, mine, losses, pull, duals, own, parts, problem.present)
    mistakes = int(losses[:, look.MISTAKES].sum() if problem.outputs.several else sums.wrong[k])
    return found._replace(weights=found.weights._replace(mistakes=mistakes))


def _sides(duals: np.ndarray, present: int, passes: int, largest_duals: tuple[float, float]) -> list[Sums]:
    """The sums of a line's duals, of each sign where S = 2; duals (S, DUAL_SUMS)."""
    sides = []
    for side, most in zip(duals.tolist(), largest_duals, strict=False):
        dual, alpha, summed, pulled = (side[name] / passes for name in NAMES)
        terms = look.CHUNK + passes + min(int(side[look.ADDED]), present)  # of an entry of `pull`, one after the other
        sides.append(Sums(
            0.0, dual - CHUNKED * summed, alpha, 0.0, 0.0, mass=alpha / most, summed=summed, pulled=pulled, rows=terms
        ))  # fmt: skip
    return sides
