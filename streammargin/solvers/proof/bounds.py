"""From the sums of compiled/look.py to the objective of the weights and a lower bound on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from streammargin.compiled import look
from streammargin.compiled.look import SUM_OF_CAPS, SUM_OF_LENGTHS, SUM_OF_PARTS
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.objectives.base import Candidate, Objective, Sums
from streammargin.solvers.proof.rounding import EPS
from streammargin.solvers.proof.sums import LookSums

CHUNKED = look.CHUNK_ROWS * EPS  # rounding of a sum over a chunk, relative to the size of its terms
SUMS_OF_SIDE = look.DUAL, look.ALPHA, look.SUMMED, look.PULLED


class Bounds(NamedTuple):
    """The candidate of the weights, and the bound of the duals, with theta = A^T alpha and their sums `total`.

    The duals are scaled down if necessary to be feasible.
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
    value = float(losses[look.SUM_OF_LOSSES])
    rounding = float(losses[look.ROUNDING]) + CHUNKED * value
    return objective.weighed(objective.size(w), value, rounding, int(losses[look.SUM_OF_MISTAKES]))


def bounded(objective: Objective, weights: Candidate, theta: np.ndarray, total: Sums) -> Bounds:
    """The bounds from weights, and from feasible duals with A^T alpha and sums as of `balanced_group`."""
    return Bounds(weights, objective.bounds(theta, total)[0], theta, total)


def balanced_lines(
    objective: Objective, pull: np.ndarray, duals: np.ndarray, own: np.ndarray, parts: np.ndarray, present: int,
    passes: int = 1,
) -> tuple[np.ndarray, Sums]:  # fmt: skip
    """`balanced_group` of several lines, from pull (lines, S, d+1) and duals (lines, S, DUAL_SUMS); present: rows.

    own, parts: of compiled/look.py, for a loss whose duals add up to 0 over the lines, with free constants; else
    (0, ...). Without them each line is balanced by itself.
    """
    sides = [_sides(line, present, passes, (1.0, 1.0)) for line in duals]
    if own.shape[0] > 0:
        return sunk(pull / passes, sides, own / passes, parts / passes, present)
    lines = [objective.balanced(*line) for line in zip(pull / passes, sides, strict=True)]
    total = lines[0][1]
    for _, sums in lines[1:]:
        total = total.plus(sums)
    return np.stack([line for line, _ in lines]), total


class OfDuals(Protocol):
    """The sums of a look over the duals of all rows (compiled/look.py)."""

    pull: np.ndarray
    duals: np.ndarray
    own: np.ndarray
    parts: np.ndarray


def bounds_of_group(problem: Problem, k: int, w: np.ndarray, sums: LookSums) -> Bounds:
    """The bounds of group k, from all weights w (K, d+1) and the sums of a look at them."""
    theta, total = balanced_group(problem, k, sums)
    return bounded(problem.objective, weights_of_group(problem, k, w, sums.weights, sums.wrong), theta, total)


def weights_of_group(problem: Problem, k: int, w: np.ndarray, losses: np.ndarray, wrong: np.ndarray) -> Candidate:
    """The candidate of group k, from all weights w (K, d+1), losses (K, LOSS_SUMS) and confused rows (trials,)."""
    if problem.lines == 1:
        return weighed(problem.objective, w[k], losses[k])
    found = weighed(problem.objective, problem.view(w, k), problem.view(losses, k).sum(axis=0))
    return found._replace(mistakes=int(wrong[k])) if problem.compared else found


def balanced_group(
    problem: Problem, k: int, sums: OfDuals, passes: int = 1, budget: float = math.inf,
    largest_duals: tuple[float, float] = (1.0, 1.0),
) -> tuple[np.ndarray, Sums]:  # fmt: skip
    """(A^T alpha (d+1,) or (lines, d+1), its sums) of group k once its duals are feasible.

    `passes`  the duals are the mean of this many, whose sums were added up. The dual objective is concave.
    `budget`  if the group has one line, bounds the sum of its duals, each divided by the entry of `largest_duals` for
              its sign.
    """
    pull, duals = problem.of_group(sums.pull, k), problem.of_group(sums.duals, k)
    if problem.lines > 1:
        own, parts = (problem.view(each, k) if each.size else each for each in (sums.own, sums.parts))
        return balanced_lines(problem.objective, pull, duals, own, parts, problem.present, passes)
    theta, total = problem.objective.balanced(pull / passes, _sides(duals, problem.present, passes, largest_duals))
    if total.mass > budget:
        theta, total = budget / total.mass * theta, total.part(budget / total.mass)
    return theta, total


def _sides(duals: np.ndarray, present: int, passes: int, largest_duals: tuple[float, float]) -> list[Sums]:
    """The sums of a line's duals, of each sign if S = 2; duals (S, DUAL_SUMS)."""
    sides = []
    for side, most in zip(duals.tolist(), largest_duals, strict=False):
        dual, alpha, summed, pulled = (side[name] / passes for name in SUMS_OF_SIDE)
        # of an entry of `pull`: those within a chunk, which has no more rows than there are, and those of chunks
        terms = min(look.CHUNK_ROWS, present) + passes + min(int(side[look.ADDED]), present)
        sides.append(Sums(
            0.0, dual - CHUNKED * summed, alpha, 0.0, 0.0, mass=alpha / most, summed=summed, pulled=pulled, rows=terms
        ))  # fmt: skip
    return sides


def sunk(
    pull: np.ndarray, sides: Sequence[Sequence[Sums]], own: np.ndarray, parts: np.ndarray, present: int
) -> tuple[np.ndarray, Sums]:
    """(A^T alpha (lines, d+1), its sums) once free constants are balanced.

    pull (lines, 2, d+1), sides: of the duals of the line's own class, and of the others; own (lines, d+1), parts
    (lines, PART_SUMS): of compiled/look.py.
    """
    taken, given = np.array([[side.alpha for side in line] for line in sides]).T
    mass = parts[:, SUM_OF_CAPS]
    excess = given - taken  # sum_i cap_i p_ik, minus the caps of class k
    held = np.maximum(mass + excess, 0.0)  # sum_i cap_i p_ik
    factor = np.divide(np.maximum(excess, 0.0), held, out=np.zeros_like(held), where=held > 0.0)
    lacking = np.maximum(-excess, 0.0)
    everything = own - pull.sum(axis=1)  # sum_i cap_i p_ik x_i
    received = np.outer(lacking / max(float(lacking.sum()), 1e-300), factor @ everything)
    theta = own - (everything * (1.0 - factor)[:, None] + received)
    theta[:, -1] = 0.0
    total = sides[0][0].part(0.0)
    for line in sides:
        total = total.plus(line[0]).plus(line[1])
    before = parts[:, SUM_OF_PARTS]
    after = np.where(factor > 0.0, (1.0 - factor) * before, before + lacking)
    slip = (present + 8.0) * EPS * float(np.abs(before).sum() + mass.sum())
    lost = max(0.0, float((after - before).sum())) + slip
    return theta, total._replace(
        duals=total.duals - lost,
        summed=total.summed + lost,
        pulled=total.pulled + 2.0 * float(parts[:, SUM_OF_LENGTHS].sum()),
    )
