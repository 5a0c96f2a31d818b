"""Momentum from Nesterov's method on the dual (dual acceleration paper, Algorithm 1, eq. (1.1), Theorem 3.1)."""

from __future__ import annotations

import numpy as np

from streammargin.compiled.vectors import mix
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.solvers.papers.gradient_pass import Gradient, SoftmaxPass, ratio
from streammargin.solvers.roles import Shared, f8, state


@state
class Momentum(Gradient):
    """velocity: g_t; mass: the sum of its coefficients."""

    velocity: Shared[f8]


class Method(SoftmaxPass[Momentum]):
    """g <- t/(t+1) (g + A^T q), w <- w + g + A^T q: the margin of w is within O(log t / t^2) of the largest.

    The bound ||g_t|| / mass is 2 ||g_t|| / t for the exponential loss; with the logistic loss (section 5.1) the step
    is 1/n.
    """

    name = "dual-momentum"
    summary = "gradient steps with momentum, one read each"
    state_class = Momentum

    def move(self, state: Momentum, k: int, group: slice, step: float, pull: np.ndarray, mass: float, t: int) -> float:
        beta = t / (t + 1.0)
        g, w = state.velocity[group].reshape(-1), state.w[group].reshape(-1)
        state.mass[k] = beta * (state.mass[k] + mass)
        length = lp_norm(g, 2.0, mix(beta, g, beta, pull))
        mix(1.0, w, step, g)
        mix(1.0, w, step, pull)
        return ratio(length, state.mass[k])
