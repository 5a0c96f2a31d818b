"""Gradient descent on the mean exponential or logistic loss (the baseline of the dual acceleration paper, Figure 1)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from streammargin.solvers.papers.gradient_pass import Gradient, SoftmaxPass
from streammargin.solvers.papers.of_kernel import FromZero, PowerOfKernel, in_kernel
from streammargin.solvers.papers.power import PowerIteration
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.whole_pass import WholePass
from streammargin.solvers.roles import Shared, Sum, W, f8, of, state


def _bounded(problem: Problem) -> bool:
    """Whether the loss has bounded curvature."""
    return math.isfinite(problem.loss.curvature_bound())


@state
class Descent(Gradient):
    """direction, product: vectors of the power method, for a loss of bounded curvature."""

    direction: Shared[f8] = of(W.where(_bounded))
    product: Sum[f8] = of(W.where(_bounded))


class Gd(PowerIteration[Descent], SoftmaxPass[Descent]):
    """Gradient descent on the mean exponential or logistic loss, a read each; C = inf, l2, also joint.

    In pass t, with rows divided by the longest:
        w <- w + (1/L) (1/n) sum_i (-phi'(y_i x_i.w)) y_i x_i
    A loss of bounded curvature c (logistic: 1/4): L = c ||A||^2 / n, the largest that these rows give it anywhere, by
    a power iteration of 8 reads before the first pass, times a factor of safety. A loss without a bound (exponential):
    L = 1, that of rows of norm at most 1 if the risk is no more than at w = 0.
    The lengths of the gradients over the sums of their multiples bound the margin. It stops by the margin gap.

    Source: the baseline of the dual acceleration paper, Figure 1.
    """

    name = "gd"
    requires: ClassVar[tuple[str, ...]] = ("curvature_bound", "curvature_at_start")

    def of(self, problem: Problem) -> WholePass[Any]:
        return self if problem.kernel is None else in_kernel(self, FromZero, PowerOfKernel)

    def iterates(self, problem: Problem) -> bool:
        return _bounded(problem)

    def step_and_divisor(
        self, problem: Problem, state: Descent, rows: float, total: float, value: float, level: float
    ) -> tuple[float, float]:
        # the gradient is -A^T q times the mean of phi'
        curvature = problem.loss.curvature_at_start() * self._spread(problem, state, rows)
        return total * math.exp(level) / (rows * curvature), total

    def _spread(self, problem: Problem, state: Descent, rows: float) -> float:
        """||A||^2 / n for rows of norm at most 1; 1, its upper bound, if it is not computed."""
        if not _bounded(problem):
            return 1.0
        square = self.square_norm(state) * problem.margin.spread
        return min(1.0, square / rows) or 1.0  # steps below 2 / L descend
