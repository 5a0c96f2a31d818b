"""A constant that is not penalised: its best value at w = 0, and the two signs of its duals."""

from __future__ import annotations

import math

import numpy as np

from streammargin.losses.base import coupled, has
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.sums import bound_by_side

FARTHEST, NEAREST = 1e6, 1e-12  # how far it is looked for, and how exactly, as a part of it or of 1


def largest_duals(problem: Problem) -> tuple[float, float]:
    """The largest |alpha| / cap of positive and of negative duals: each counts as a part of it in their sum's bound."""
    return problem.loss.reach() if bound_by_side(problem) else (1.0, 1.0)


def constants_alone(problem: Problem, group: int) -> np.ndarray:
    """The constants (lines,) that are best at w = 0; 0 for a loss of all scores but the softmax's."""
    if not coupled(problem.loss):
        return np.array([constant_alone(problem, k) for k in problem.lines_of(group)])
    found = np.zeros(problem.lines)
    if has(problem.loss, "log_likelihoods"):
        caps = problem.outputs.caps[group * problem.lines] * problem.outputs.mass[group * problem.lines]
        np.log(caps, out=found, where=caps > 0.0)
        found -= found.mean()
    return found


def constant_alone(problem: Problem, k: int) -> float:
    """The constant b that minimises sum_i cap_i phi(y_i b) over all rows; it needs the classes only, no read.

    A b at a kink is moved slightly towards 0, and a b of 0 away from it. There the duals are optimal once the heavier
    side is scaled down, as by `balanced`.
    """
    caps = problem.outputs.caps[k] * problem.outputs.mass[k]
    signs = np.where(np.arange(caps.size) == problem.outputs.positive[k], 1.0, -1.0)
    parts = [(sign, cap) for sign, cap in zip(signs.tolist(), caps.tolist(), strict=True) if cap > 0.0]

    def losses(b: float) -> float:
        return math.fsum(problem.loss.primal(sign * b, cap) for sign, cap in parts)

    side = 1.0 if sum(sign * cap for sign, cap in parts) > 0.0 else -1.0
    low, high = 0.0, 1.0
    while losses(2.0 * high * side) < losses(high * side) and high < FARTHEST:
        high *= 2.0
    high *= 2.0
    while high - low > NEAREST * max(1.0, high):  # by convexity the minimum is not in one of the outer thirds
        third = (high - low) / 3.0
        if losses((low + third) * side) <= losses((high - third) * side):
            high -= third
        else:
            low += third
    return side * max(low * (1.0 - NEAREST), NEAREST)
