"""Momentum from Nesterov's method on the dual (dual acceleration paper, Algorithm 1, eq. (1.1), Theorem 3.1)."""

from __future__ import annotations

import numpy as np

from streammargin.solvers.papers.gradient_pass import Gradient, SoftmaxPass, ratio
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import Shared, f8, state


@state
class Momentum(Gradient):
    """velocity: g_t; mass: the sum of its coefficients."""

    velocity: Shared[f8]


class DualMomentum(SoftmaxPass[Momentum]):
    """Gradient steps with momentum on a soft minimum of the margins, a read each; C = inf, l2, also joint.

    Rows are divided by the longest. In pass t:
        q <- softmax(-y_i x_i.w) over all rows i                       (logistic: section 5.1, the step is 1/n);
        g <- t/(t+1) (g + sum_i q_i y_i x_i);
        w <- w + g + sum_i q_i y_i x_i.
    The margin of w is within O(log t / t^2) of the largest. As g is a sum of rows with known weights, 2 ||g|| / t
    bounds the margin from above. It stops by the margin gap. For a joint margin the rows are those of pairs of classes.

    Source: dual acceleration paper, Algorithm 1, eq. (1.1), Theorem 3.1.
    """

    name = "dual-momentum"

    def move(
        self, problem: Problem, state: Momentum, group: int, step: float, pull: np.ndarray, mass: float, t: int
    ) -> float:
        beta = t / (t + 1.0)
        g, w = problem.view(state.velocity, group).reshape(-1), problem.view(state.w, group).reshape(-1)
        state.mass[group] = beta * (state.mass[group] + mass)
        length = self.space.mix(beta, g, beta, pull)
        self.space.mix(1.0, w, step, g)
        self.space.mix(1.0, w, step, pull)
        return ratio(length, state.mass[group])
