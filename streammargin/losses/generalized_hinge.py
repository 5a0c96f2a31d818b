"""The generalized hinge, for classifiers with a reject option: wrong rows cost more (Bartlett and Wegkamp 2008)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.kinds import Number
from streammargin.losses.base import Largest
from streammargin.losses.choices import where, within
from streammargin.words import entry


class GeneralizedHingeTerms(NamedTuple):
    """phi(u) = max(0, 1 - u, 1 - a u), a > 1: the conjugate of -min(alpha, 1) on [0, a] (unit scale)."""

    a: float

    def has_hard_margin(self) -> bool:
        return False

    def pair(self) -> tuple[float, float, float, float]:
        return self.a, 1.0, 1.0, 1.0

    def feasible(self, alpha: float, cap: float) -> float:
        return within(alpha, 0.0, self.a * cap)

    def slack(self, u: float) -> float:
        return u

    def missed(self, u: float) -> bool:
        return u <= 0.0

    def step(self, alpha: float, u: float, L: float, cap: float) -> float:
        bent = L > 0.0  # else the dual is linear on either side of cap; at u = 0 all from cap on are optimal
        flat = where(u > 1.0, 0.0, where(u >= 0.0, cap, self.a * cap))
        # the median of the kink at cap and the maximisers of the two sides
        size = where(bent, L, 1.0)
        moved = within(cap, alpha - u / size, alpha + (1.0 - u) / size)
        return where(bent, self.feasible(moved, cap), flat)

    def slope(self, alpha: float, L: float, cap: float) -> float:
        return where(self.settled(alpha, cap), 0.0, 1.0 / where(L > 0.0, L, 1.0))

    def distance(self, u: float) -> float:
        return np.minimum(abs(u), abs(1.0 - u))

    def curvature_bound(self) -> float:
        return math.inf

    def primal(self, u: float, cap: float) -> float:
        return where(u >= 1.0, 0.0, cap * (1.0 - where(u >= 0.0, u, self.a * u)))

    def dual(self, alpha: float, cap: float) -> float:
        return np.minimum(alpha, cap)

    def settled(self, alpha: float, cap: float) -> bool:
        return (alpha <= 0.0) | (alpha == cap) | (alpha >= self.a * cap)

    def gap(self, alpha: float, u: float, cap: float) -> float:
        return self.primal(u, cap) - where(alpha <= cap, alpha * (1.0 - u), cap - alpha * u)


class GeneralizedHinge(Largest):
    """max(0, 1 - u, 1 - A u), A the slope: of classifiers that may leave rows undecided.

    Source: Bartlett and Wegkamp 2008.
    """

    slope: float = entry(
        2.0, Number("a number above 1", lambda value: 1.0 < value < math.inf, metavar="A"), "A, of rows with u < 0"
    )

    def terms(self) -> GeneralizedHingeTerms:
        return GeneralizedHingeTerms(self.slope)


LOSSES = (GeneralizedHinge,)
