"""Step rules of the primal methods, which add multiples of rows to theta: one named tuple, so one kernel for all."""

from __future__ import annotations

from typing import NamedTuple

BELOW_ONE = 1.0 - 2.0**-53  # the largest number below 1


class Rule(NamedTuple):
    """A row of margin u <= edge is added to theta, rate (1 - bend u) times, or cap times if there is a horizon.

    The weights are mirror(theta). With a horizon they are horizon / t times that after t rows, which is the step
    1 / (lambda t) for n = horizon rows.
    """

    edge: float
    rate: float = 1.0
    bend: float = 0.0
    horizon: float = 0.0

    def factor(self, seen: float) -> float:
        """The factor from mirror(theta) to the weights after `seen` rows."""
        if not self.horizon > 0.0:
            return 1.0
        return self.horizon / seen if seen > 0.0 else 0.0

    def moves(self, u: float) -> bool:
        """Whether a row of margin u is added."""
        return not u > self.edge

    def multiple(self, u: float, cap: float) -> float:
        """How many times it is added."""
        return cap if self.horizon > 0.0 else self.rate * (1.0 - self.bend * u)


def perceptron(rate: float = 1.0) -> Rule:
    """Add a misclassified row; other rates only scale the weights."""
    return Rule(0.0, rate)


def mirror_descent(rate: float) -> Rule:
    """Add rate (1 - u)_+ times the row: the gradient of (1 - u)_+^2 / 2 (lp-norm perceptron paper, eq. (10))."""
    return Rule(BELOW_ONE, rate, 1.0)


def pegasos(horizon: float) -> Rule:
    """Add cap times the row if u < 1."""
    return Rule(BELOW_ONE, horizon=horizon)
