"""Normalised gradient descent on the exponential or logistic risk (dual acceleration paper, section 3.1)."""

from __future__ import annotations

from streammargin.solvers.papers.gradient_pass import Gradient, SoftmaxPass


class Method(SoftmaxPass[Gradient]):
    """w <- w + A^T q with q = softmax(-A w): Algorithm 1 without momentum."""

    name = "normalized-gd"
    summary = "normalised gradient descent, one read a step"
