"""Pegasos: stochastic subgradients of the regularised hinge (Shalev-Shwartz et al. 2007; Pdprox paper, baseline)."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.compiled import primal as kernel
from streammargin.errors import Refusal
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows import steps
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import mean_rounding, norm_rounding
from streammargin.solvers.streams.primal import Primal, Steps


class Pegasos(Primal[Steps]):
    """Stochastic subgradients of the hinge, also on streams; finite C, l2; stops by the duality gap.

    Rows come in random order, those of a stream as they are. With lambda = 1 / (n C), for the t-th row i:
        w <- (1 - 1/t) w;   if y_i x_i.w < 1:   w <- w + y_i x_i / (lambda t).
    So w_t = (n / t) theta, theta <- theta + C s_i y_i x_i: nothing is ever rescaled.
    After E passes w = sum_i alpha_i y_i x_i; alpha_i is C s_i (passes with y_i x_i.w < 1) / E.
    These duals are feasible, so the dual objective is known without a number per row.
    The reported weights are projected on the ball of the optimum; with average, they are the mean of w after each row.

    Source: Shalev-Shwartz, Singer and Srebro 2007; a baseline of the Pdprox paper.
    """

    name = "pegasos"
    takes: ClassVar[tuple[str, ...]] = ()

    def rule(self, problem: Problem, state: Steps) -> steps.Rule:
        return steps.pegasos(float(problem.present))

    def check(self, problem: Problem) -> None:
        if problem.hard:
            raise Refusal("pegasos needs a finite C", "for the hard margin, C = inf, use `solver=perceptron`")
        super().check(problem)

    def scale(self, problem: Problem, state: Steps, k: int) -> float:
        steps = float(state.carried[k, kernel.ROWS_SEEN])
        return problem.present / steps if steps > 0.0 else 0.0

    def frozen(self, problem: Problem, state: Steps, k: int) -> np.ndarray:
        # the optimum is in this ball, as P(w) <= P(0): the projection of Pegasos, at the end instead of in every step
        w = super().frozen(problem, state, k)
        # P(0) is the sum of the caps: exact after whole passes, else n times their mean so far
        cost = float(state.carried[k, kernel.CAPS]) * self.scale(problem, state, k)
        size, radius = lp_norm(w, 2.0), math.sqrt(2.0 * cost)
        return w * (radius / size) if size > radius else w

    def bounds(self, problem: Problem, state: Steps, k: int, longest: float) -> tuple[float, float]:
        """The dual objective for the multiples times beta, with the best feasible beta <= 1/E, E the passes begun."""
        return self._dual(problem, state, k, longest), self.margin_bound(problem, state, k)

    def _dual(self, problem: Problem, state: Steps, k: int, longest: float) -> float:
        size, total = lp_norm(state.theta[k], 2.0), float(state.carried[k, kernel.TOTAL])
        if total == 0.0:
            return 0.0
        beta = 1.0 / state.number
        if size > 0.0:
            beta = min(beta, total / size / size)
        # rounding of theta, and of the sum of the multiples
        rounding = mean_rounding(float(state.carried[k, kernel.ROWS_SEEN]), 1.0)
        length = beta * (size * (1.0 + norm_rounding(problem.features)) + rounding * total * longest / self.base(state))
        return beta * total * (1.0 - rounding) - 0.5 * length * length

    def rests(self, problem: Problem) -> bool:
        return False  # w shrinks with every step

    def estimate(self, problem: Problem, state: Steps, k: int) -> float:
        size = lp_norm(self._current(problem, state, k), 2.0) * self.scale(problem, state, k)
        primal = 0.5 * size * size + float(state.figures[k, kernel.LOSS])
        dual = self._dual(problem, state, k, 0.0)
        return max(0.0, primal - dual) / max(primal, abs(dual), 1e-300)
