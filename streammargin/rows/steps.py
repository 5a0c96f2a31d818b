"""What a primal step adds to theta, the sum of the rows it went along: one rule for each method.

Every rule has `factor(seen)`, the factor from mirror(theta) to the weights after so many rows were seen, `moves(u)`,
whether a row of margin u is gone along, and `multiple(u, cap)`, the multiple of it that is added.
"""

from __future__ import annotations

from typing import NamedTuple


class Perceptron(NamedTuple):
    """The row itself where it is misclassified (rate 1: any other only scales the weights)."""

    rate: float

    def factor(self, seen):
        return 1.0

    def moves(self, u):
        return not u > 0.0

    def multiple(self, u, cap):
        return self.rate


class MirrorDescent(NamedTuple):
    """rate (1 - u)_+: the gradient of (1 - u)_+^2 / 2 (lp-norm perceptron paper, eq. (10))."""

    rate: float

    def factor(self, seen):
        return 1.0

    def moves(self, u):
        return u < 1.0

    def multiple(self, u, cap):
        return self.rate * (1.0 - u)


class Pegasos(NamedTuple):
    """The cap where u < 1, and w = (horizon / seen) theta: the step 1 / (lambda t) of n = horizon rows."""

    horizon: float

    def factor(self, seen):
        return self.horizon / seen if seen > 0.0 else 0.0

    def moves(self, u):
        return u < 1.0

    def multiple(self, u, cap):
        return cap


Rule = Perceptron | MirrorDescent | Pegasos
