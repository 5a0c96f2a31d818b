"""Normalised gradient descent on the exponential or logistic risk (dual acceleration paper, section 3.1)."""

from __future__ import annotations

import math

import numpy as np

from streammargin.kinds import Word
from streammargin.solvers.papers.gradient_pass import Gradient, SoftmaxPass
from streammargin.solvers.problem import Problem
from streammargin.words import entry


class NormalizedGd(SoftmaxPass[Gradient]):
    """Normalised gradient steps, one read each; C = inf, l2, also joint; stops by the margin gap.

    Rows are divided by the longest. In pass t:
        q <- softmax(-y_i x_i.w) over all rows i                       (logistic: section 5.1, the step is 1/n);
        w <- w + sum_i q_i y_i x_i                                     (step=sqrt: divided by sqrt t).
    This is dual-momentum without momentum. The length of sum_i q_i y_i x_i bounds the margin from above. So
    does that of w over the sum of its multiples.

    Source: dual acceleration paper, section 3.1; step=sqrt: Nacson et al. 2019, Convergence of gradient descent on
    separable data.
    """

    name = "normalized-gd"
    step: str = entry("one", Word(("one", "sqrt")), "one: steps of 1; sqrt: of 1 / sqrt t", kw_only=True)

    def move(
        self, problem: Problem, state: Gradient, group: int, step: float, pull: np.ndarray, mass: float, t: int
    ) -> float:
        shorter = math.sqrt(t + 1.0) if self.step == "sqrt" else 1.0
        return super().move(problem, state, group, step / shorter, pull, mass, t)
