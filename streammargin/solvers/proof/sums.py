"""The sums of a look at rows (compiled/look.py), as states keep them, and their axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from streammargin.compiled import look as kernel
from streammargin.compiled.look import PART_SUMS, Curvature, Frozen, Looked, Prox
from streammargin.losses.base import has
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, RowNumbers
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import blur
from streammargin.solvers.roles import EVERY_COLUMN, TRIALS, Axis, Count, K, Sum, W, f8, i8, of, state

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
    parts: Sum[f8] = of(SUNK, PART_SUMS)
    rows: Count = 0


@state
class LookSums(DualSums):
    """The same, with the losses of the weights and the rows that they confuse."""

    weights: Sum[f8] = of(K, kernel.LOSS_SUMS, carried=kernel.LOSS_CARRIED)
    wrong: Sum[i8] = of(TRIALS)

    def add(
        self, loss: Any, rows: tuple[Block, RowNumbers, Labels], lines: np.ndarray, w: np.ndarray, step: Prox,
        H: Curvature | None = None, at: slice = EVERY_COLUMN, norms: np.ndarray = kernel.NO_NORMS,
        by: Callable[..., None] | None = None, **found: np.ndarray,
    ) -> None:  # fmt: skip
        """Add the sums of these rows at w (K, d+1), and what else is to be found of them (compiled/look.py).

        lines: the active ones of w, which are the lines `at` of these sums; by: the loop over the rows.
        """
        point = Frozen(w[None], np.zeros((1, len(w))), blur(w)[None], norms)
        sums = self.weights[None, at], self.duals[at], self.pull[at], self.wrong[None]
        own = Looked(*sums, class_sums=self.own, parts=self.parts, **found)
        (by or kernel.look)(*rows, loss, lines, point, step, own, H)
