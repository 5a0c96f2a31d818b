"""Step rules of the primal methods, which add multiples of rows to theta.

Every rule has three methods. `factor(seen)` is the factor from mirror(theta) to the weights after `seen` rows.
`moves(u)` says whether a row of margin u is added to theta, and `multiple(u, cap)` by which multiple.
"""

from __future__ import annotations

from typing import NamedTuple


class Perceptron(NamedTuple):
    """Add a misclassified row (rate 1: other rates only scale the weights)."""

    rate: float

    def factor(self, seen: float) -> float:
        return 1.0

    def moves(self, u: float) -> bool:
        return not u > 0.0

    def multiple(self, u: float, cap: float) -> float:
        return self.rate


class MirrorDescent(NamedTuple):
    """Add rate (1 - u)_+ times the row: the gradient of (1 - u)_+^2 / 2 (lp-norm perceptron paper, eq. (10))."""

    rate: float

    def factor(self, seen: float) -> float:
        return 1.0

    def moves(self, u: float) -> bool:
        return u < 1.0

    def multiple(self, u: float, cap: float) -> float:
        return self.rate * (1.0 - u)


class Pegasos(NamedTuple):
    """Add cap times the row if u < 1; w = (horizon / seen) theta: the step 1 / (lambda t) for n = horizon rows."""

    horizon: float

    def factor(self, seen: float) -> float:
        return self.horizon / seen if seen > 0.0 else 0.0

    def moves(self, u: float) -> bool:
        return u < 1.0

    def multiple(self, u: float, cap: float) -> float:
        return cap


Rule = Perceptron | MirrorDescent | Pegasos
