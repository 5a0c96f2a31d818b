"""The sums of a look at rows (compiled/look.py), as states keep them, and their axes."""

from __future__ import annotations

from streammargin.compiled import look as kernel
from streammargin.compiled.look import PARTS
from streammargin.losses.base import has
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import TRIALS, Axis, Count, K, Sum, W, f8, i8, of, state

LINES = Axis(lambda problem: problem.lines, name="lines")  # of a group
# duals that pull a free constant down have sums of their own, as the part of them that fits the others counts; those of
# numbers whose sum is bound as well, as each sign has its own `reach`
SIDES = Axis(lambda problem: 2 if problem.objective.free or bound_by_side(problem) else 1, name="sides")
# lines with free constants that are balanced together
SUNK = K.where(lambda problem: problem.objective.free and has(problem.loss, "of_share"))


def bound_by_side(problem: Problem) -> bool:
    """Whether duals of both signs are bound in all."""
    return problem.numeric and problem.top < float("inf")


@state
class DualSums:
    """The sums of the duals, and of how many rows."""

    pull: Sum[f8] = of(K, SIDES, W)
    duals: Sum[f8] = of(K, SIDES, kernel.DUAL_SUMS, carried=kernel.DUAL_CARRIED)
    own: Sum[f8] = of(SUNK, W)
    parts: Sum[f8] = of(SUNK, PARTS)
    rows: Count = 0


@state
class LookSums(DualSums):
    """The same, with the losses of the weights and the rows that they confuse."""

    weights: Sum[f8] = of(K, kernel.LOSS_SUMS, carried=kernel.LOSS_CARRIED)
    wrong: Sum[i8] = of(TRIALS)
