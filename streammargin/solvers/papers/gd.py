"""Gradient descent on the mean exponential or logistic loss (the baseline of the dual acceleration paper, Figure 1)."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled.spectral import gram_product
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.base import State
from streammargin.solvers.old_state import Array, Layout
from streammargin.solvers.papers.gradient_pass import SoftmaxPass
from streammargin.solvers.problem import Problem

PRODUCTS = 8  # of the power iteration, a read each
SAFETY = 1.1  # it comes from below; a step below 2 / L still descends, so that it may miss nearly half of L


class Method(SoftmaxPass):
    """w <- w - (1/L) (gradient of the mean loss).

    A loss of bounded curvature c: L = c ||A||^2 / n, the largest that these rows give it anywhere, ||A||^2 by a power
    iteration in the prologue, times a safety factor (logistic: c = 1/4). A loss without a bound: L is that of rows of
    norm at most 1 where the risk is no more than at w = 0, whatever the data (exponential: L = 1).

    State, with a bound: direction and product (d+1,) of the power iteration.
    """

    name = "gd"
    summary = "gradient descent, one read a step"
    requires = (*SoftmaxPass.requires, "curvature_bound", "curvature_at_start")

    def layout(self, problem: Problem) -> Layout:
        layout = super().layout(problem)
        if _bounded(problem):
            layout |= {name: Array((problem.features + 1,)) for name in ("direction", "product")}
        return layout

    def prologue_passes(self, problem: Problem) -> int:
        return self.prologue + (PRODUCTS if _bounded(problem) else 0)

    def prologue_block(self, problem: Problem, state: State, index: int, block: Block, first: int) -> None:
        if index == 0:
            super().prologue_block(problem, state, index, block, first)
            return
        a = state.arrays
        if first == 0:
            drawn = np.random.default_rng(problem.seed).standard_normal(problem.features + 1)
            v = drawn if index == 1 else a["product"]
            # of length 1 / R, so that the products with rows of any size are numbers
            a["direction"][:] = v / (lp_norm(v, 2.0) or 1.0) / self.largest_norm(state)
            a["product"][:] = 0.0
        gram_product(block, numbered_from(first), problem.labels, a["direction"], a["product"])

    def step(
        self, problem: Problem, state: State, rows: float, total: float, value: float, level: float
    ) -> tuple[float, float]:
        # the gradient is -A^T q times the mean of the slopes phi'
        curvature = problem.loss.curvature_at_start() * self._spread(problem, state, rows)
        return total * math.exp(level) / (rows * curvature), total

    def _spread(self, problem: Problem, state: State, rows: float) -> float:
        """||A||^2 / n for rows of norm at most 1, or 1, which it never passes."""
        if not _bounded(problem):
            return 1.0
        square = lp_norm(state.arrays["product"], 2.0) / self.largest_norm(state) * problem.objective.spread
        return min(1.0, SAFETY * square / rows) or 1.0


def _bounded(problem: Problem) -> bool:
    """Whether the curvature of the loss has a bound everywhere."""
    return math.isfinite(problem.loss.curvature_bound())
