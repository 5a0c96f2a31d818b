"""Primal stochastic mirror descent (lp-norm perceptron paper, eq. (10), Theorem 1 and Corollary 2)."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import primal as kernel
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.steps import Rule, mirror_descent
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.streams.hard_primal import HardPrimal, HardSteps
from streammargin.solvers.visits import Visit


class Mirror(HardPrimal):
    """Mirror descent on the squared hinge, also on streams; C = inf, l2 and lp; ends when every y x.w >= 1 - tol.

    With gamma = (p - 1) / R_q^2, for each row i, in random order (of a stream: as they come):
        theta <- theta + gamma max(0, 1 - y_i x_i.w) y_i x_i,   w <- mirror(theta)    (for l2: w = theta)
    R_q is the largest norm of a row: of all rows by a read before the first pass, of a stream of those so far.
    The sum of the losses met is at most ||w*||^2 R_q^2 / (2 (p - 1)), whatever the order (Theorem 1).
    average reports the mean of w after each row (Corollary 2).

    Source: lp-norm perceptron paper, eq. (10), Theorem 1 and Corollary 2.
    """

    name = "mirror"
    prologue = 1

    def prologue_visit(self, problem: Problem, state: HardSteps, index: int) -> Visit:
        return Visit("prologue", self.measure, leaves=False, lines=problem.count)

    def rule(self, problem: Problem, state: HardSteps) -> Rule:
        largest = self.longest(state) / self.base(state)
        return mirror_descent((problem.p - 1.0) / largest / largest if largest > 0.0 else 0.0)

    def begin_certificate(self, problem: Problem, state: HardSteps, active: np.ndarray) -> None:
        # convergence is defined for the latest weights, not for the best direction so far
        state.best.lower[active] = -math.inf
        super().begin_certificate(problem, state, active)

    def estimate(self, problem: Problem, state: HardSteps, k: int) -> float:
        # these are margins of the last iterate; the average is certified every `patience` passes
        done = self.rests(problem) and state.figures[k, kernel.MIN_MARGIN] >= 1.0 - problem.tol
        return 0.0 if done else super().estimate(problem, state, k)

    def satisfied(self, problem: Problem, state: HardSteps, k: int, figures: Figures) -> bool:
        """Whether every a_i.w >= 1 - tol: the minimum of its objective."""
        if figures.margin_lower is None or not figures.margin_lower > 0.0:
            return False
        return figures.margin_lower * lp_norm(self.certified(state)[k], problem.p) >= 1.0 - problem.tol
