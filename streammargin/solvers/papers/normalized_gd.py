"""Normalised gradient descent on the exponential or logistic risk (dual acceleration paper, section 3.1)."""

from __future__ import annotations

from streammargin.solvers.papers.gradient_pass import Gradient, SoftmaxPass


class NormalizedGd(SoftmaxPass[Gradient]):
    """Normalised gradient steps, one read each; C = inf, l2, also joint; stops by the margin gap.

    In pass t, with rows divided by the longest:
        q <- softmax(-y_i x_i.w) over all rows i                       (logistic: section 5.1, the step is 1/n);
        w <- w + sum_i q_i y_i x_i.
    This is dual-momentum without momentum. The length of sum_i q_i y_i x_i, and that of w / t, bound the margin from
    above.

    Source: dual acceleration paper, section 3.1.
    """

    name = "normalized-gd"
