"""Gradient descent on the mean exponential or logistic loss (the baseline of the dual acceleration paper, Figure 1)."""

from __future__ import annotations

import math

from streammargin.solvers.base import Problem
from streammargin.solvers.gradient_pass import SoftmaxPass


class Method(SoftmaxPass):
    """w <- w - (1/L) (gradient of the mean loss), L its curvature for rows of norm at most 1."""

    name = "gd"
    summary = "gradient descent, one read a step"
    requires = (*SoftmaxPass.requires, "curvature_bound")

    def step(self, problem: Problem, rows: float, total: float, value: float, level: float) -> tuple[float, float]:
        # the gradient is -A^T q times the mean of the slopes phi'
        return total * math.exp(level) / (rows * problem.loss.curvature_bound()), total
