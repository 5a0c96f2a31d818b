"""The hinge, its square and its smoothed form, as a family with two parameters (g, U).

phi is the conjugate of alpha - g alpha^2 / 2 on [0, U] (unit scale).
(g, U) = (0, 1), (1/2, inf), (width, 1) give (1-u)_+, (1-u)_+^2 and the smoothed hinge.

Source: lp-norm perceptron paper, appendix C; Shalev-Shwartz and Zhang 2013.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.losses.base import POSITIVE, Largest
from streammargin.losses.choices import every, where, within
from streammargin.losses.crammer_singer import CrammerSingerTerms
from streammargin.words import entry


class HingeTerms(NamedTuple):
    """phi(u) = max over 0 <= alpha <= U of alpha (1 - u) - g alpha^2 / 2."""

    g: float
    U: float

    def has_hard_margin(self) -> bool:
        return True

    def dual_form(self) -> tuple[float, float, float, float, float, float]:
        return 0.0, self.U, 1.0, 0.0, 0.0, self.g

    def feasible(self, alpha: float, cap: float) -> float:
        return within(alpha, 0.0, self.U * cap)

    def slack(self, u: float) -> float:
        return u

    def missed(self, u: float) -> bool:
        return u <= 0.0

    def step(self, alpha: float, u: float, L: float, cap: float) -> float:
        curvature = L + self.g / cap
        slope, bent = 1.0 - u - self.g * alpha / cap, curvature > 0.0
        if every(bent):
            return self.feasible(alpha + slope / curvature, cap)
        # rows of norm 0 have a linear dual
        flat = where(cap < math.inf, self.U * cap, alpha)
        return where(bent, self.feasible(alpha + slope / where(bent, curvature, 1.0), cap), flat)

    def slope(self, alpha: float, L: float, cap: float) -> float:
        curvature = L + self.g / cap
        return where(self.settled(alpha, cap), 0.0, 1.0 / where(curvature > 0.0, curvature, 1.0))

    def distance(self, u: float) -> float:
        beyond = np.maximum(0.0, 1.0 - self.g * self.U - u) if math.isfinite(self.U) else 0.0
        return where(u >= 1.0, u - 1.0, beyond)

    def curvature_bound(self) -> float:
        return 1.0 / self.g if self.g > 0.0 else math.inf

    def primal(self, u: float, cap: float) -> float:
        r = 1.0 - u
        if self.g == 0.0:
            return where(r <= 0.0, 0.0, cap * r)
        best = np.minimum(r / self.g, self.U)
        return where(r <= 0.0, 0.0, cap * best * (r - 0.5 * self.g * best))

    def dual(self, alpha: float, cap: float) -> float:
        return alpha - 0.5 * self.g * alpha * (alpha / cap)

    def settled(self, alpha: float, cap: float) -> bool:
        return (alpha <= 0.0) | (alpha >= self.U * cap)

    def gap(self, alpha: float, u: float, cap: float) -> float:
        r = 1.0 - u
        if self.g == 0.0:
            return where(r > 0.0, cap * r, 0.0) - alpha * r
        best = within(r / self.g, 0.0, self.U)
        return cap * best * (r - 0.5 * self.g * best) - alpha * (r - 0.5 * self.g * (alpha / cap))


class Hinge(Largest):
    """max(0, 1 - u): the loss of support vector machines."""

    def terms(self) -> HingeTerms:
        return HingeTerms(0.0, 1.0)

    def joint(self) -> CrammerSingerTerms | None:
        return CrammerSingerTerms(1.0) if self.top is None else None


class SquaredHinge(Largest):
    """max(0, 1 - u)^2: smooth, and large errors cost more."""

    def terms(self) -> HingeTerms:
        return HingeTerms(0.5, math.inf)


class SmoothHinge(Largest):
    """The hinge with its corner rounded: (1 - u)^2 / (2 width) for 1 - width <= u <= 1, 1 - u - width/2 below.

    Source: Shalev-Shwartz and Zhang 2013.
    """

    width: float = entry(1.0, POSITIVE, "of the margins for which it is quadratic")

    def terms(self) -> HingeTerms:
        return HingeTerms(self.width, 1.0)


LOSSES = (Hinge, SquaredHinge, SmoothHinge)
