"""Momentum from Nesterov's method on the dual (dual acceleration paper, Algorithm 1, eq. (1.1), Theorem 3.1)."""

from __future__ import annotations

from streammargin.solvers.papers.gradient_pass import SoftmaxPass


class Method(SoftmaxPass):
    """g <- t/(t+1) (g + A^T q), w <- w + g + A^T q: the margin of w is within O(log t / t^2) of the largest.

    The bound ||g_t|| / mass is 2 ||g_t|| / t for the exponential loss; with the logistic loss (section 5.1) the step
    is 1/n.
    """

    name = "dual-momentum"
    summary = "gradient steps with momentum, one read each"
    momentum = True
