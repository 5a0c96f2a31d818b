"""Losses of numbers, of the residual u = x.w - y: one family of five numbers (low, high, over, under, g).

phi is the conjugate of under alpha + g alpha^2 / 2 for alpha >= 0, over |alpha| + g alpha^2 / 2 below, on [low, high].

Half the squared error is (-inf, inf, 0, 0, 1). The absolute error is (-1, 1, 0, 0, 0).
Huber's loss is (-delta, delta, 0, 0, 1) (Huber 1964).
The error beyond epsilon is (-1, 1, epsilon, epsilon, 0) (Vapnik 1995).
The quantile tau is (tau - 1, tau, 0, 0, 0) (Koenker and Bassett 1978).

At C = inf only |u| <= epsilon counts: the least w in the feasibility sets of the lp-norm perceptron paper (section 2.3
and appendix B.1). The duals are signed. The caller, which knows the target y, adds the term alpha y of the dual
objective.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from streammargin.kinds import Number, NumberOrColumn
from streammargin.losses.base import NOT_NEGATIVE, POSITIVE, Largest, Loss
from streammargin.losses.choices import where, within
from streammargin.words import entry


class ResidualTerms(NamedTuple):
    """phi(u) = max over low <= alpha <= high of -alpha u - (under or over) |alpha| - g alpha^2 / 2.

    A score may lie by `over` above its number at no cost, or by `under` below it, if alpha would be positive.
    """

    low: float
    high: float
    over: float
    under: float
    g: float

    def of_numbers(self) -> bool:
        return True

    def level(self) -> float | None:
        return self.high / (self.high - self.low) if self.g == 0.0 else None

    def quadratic(self) -> bool:
        return self.g > 0.0 and self.low == -math.inf and self.high == math.inf and self.over == self.under == 0.0

    def most(self) -> float:
        return self.high / self.g if self.g > 0.0 else math.inf

    def reach(self) -> tuple[float, float]:
        return self.high, -self.low

    def lifted(self, multiplier: float) -> ResidualTerms:
        return ResidualTerms(
            self.low, self.high, self.over - multiplier / self.low, self.under + multiplier / self.high, self.g
        )

    def pair(self) -> tuple[float, float, float, float] | None:
        absolute = self.high == -self.low == 1.0 and self.over == self.under == 0.0
        if self.g > 0.0 or absolute:
            return None
        return self.high, -self.under * self.high, self.low, self.over * self.low

    def has_hard_margin(self) -> bool:
        return True

    def dual_form(self) -> tuple[float, float, float, float, float, float]:
        return self.low, self.high, 0.0, self.over, self.under, self.g

    def feasible(self, alpha: float, cap: float) -> float:
        return within(alpha, self.low * cap, self.high * cap)

    def slack(self, u: float) -> float:
        return -np.maximum(np.maximum(u - self.over, -u - self.under), 0.0)

    def missed(self, u: float) -> bool:
        return (u > self.over) | (-u > self.under)

    def step(self, alpha: float, u: float, L: float, cap: float) -> float:
        curvature = L + self.g / cap
        bent = curvature > 0.0  # else its dual is linear; at C = inf the dual of a row of norm 0 has no effect
        end = where(self.missed(u), where(u < 0.0, self.high * cap, self.low * cap), 0.0)
        size = where(bent, curvature, 1.0)
        moved = alpha - (u + self.g * alpha / cap) / size
        left = abs(moved) - where(moved > 0.0, self.under, self.over) / size
        shrunk = where(left > 0.0, left, 0.0)
        found = self.feasible(where(moved > 0.0, shrunk, -shrunk), cap)
        return where(bent, found, where(cap < math.inf, end, alpha))

    def slope(self, alpha: float, L: float, cap: float) -> float:
        curvature = L + self.g / cap
        return where(self.settled(alpha, cap), 0.0, 1.0 / where(curvature > 0.0, curvature, 1.0))

    def curvature_bound(self) -> float:
        return 1.0 / self.g if self.g > 0.0 else math.inf

    def primal(self, u: float, cap: float) -> float:
        beyond = abs(u) - where(u < 0.0, self.under, self.over)
        best = where(u < 0.0, self.high, -self.low)
        if self.g > 0.0:
            best = np.minimum(best, beyond / self.g)
        return where(beyond <= 0.0, 0.0, cap * (best * (beyond - 0.5 * self.g * best)))

    def dual(self, alpha: float, cap: float) -> float:
        return -where(alpha > 0.0, self.under, self.over) * abs(alpha) - 0.5 * self.g * alpha * (alpha / cap)

    def settled(self, alpha: float, cap: float) -> bool:
        kink = (alpha == 0.0) & (self.over + self.under > 0.0)
        return (alpha <= self.low * cap) | (alpha >= self.high * cap) | kink

    def gap(self, alpha: float, u: float, cap: float) -> float:
        return self.primal(u, cap) - self.dual(alpha, cap) + alpha * u


class SquaredError(Loss):
    """u^2 / 2, u = x.w - y: least squares, which predicts the mean.

    It has no field `top`: its duals have no bound of their own that ROWS of them could be measured by.
    """

    def terms(self) -> ResidualTerms:
        return ResidualTerms(-math.inf, math.inf, 0.0, 0.0, 1.0)


class AbsoluteError(Largest):
    """|u|, u = x.w - y: predicts the median, and far numbers weigh no more than others."""

    def terms(self) -> ResidualTerms:
        return ResidualTerms(-1.0, 1.0, 0.0, 0.0, 0.0)


class EpsilonInsensitive(Largest):
    """max(0, |u| - epsilon), u = x.w - y: support vector regression (Vapnik 1995)."""

    epsilon: float = entry(0.0, NOT_NEGATIVE, "how far from its number a score may be at no cost, in units of y")

    def terms(self) -> ResidualTerms:
        return ResidualTerms(-1.0, 1.0, self.epsilon, self.epsilon, 0.0)


class Huber(Largest):
    """u^2 / 2 for |u| <= delta, delta (|u| - delta/2) beyond, u = x.w - y: like the mean, but far numbers count less.

    Source: Huber 1964.
    """

    delta: float = entry(1.0, POSITIVE, "the error from which on it is linear, in units of y")

    def terms(self) -> ResidualTerms:
        return ResidualTerms(-self.delta, self.delta, 0.0, 0.0, 1.0)


class Quantile(Largest):
    """quantile (y - x.w) if the number is larger, (1 - quantile) (x.w - y) else (Koenker and Bassett 1978)."""

    quantile: float = entry(
        0.5, Number("a number between 0 and 1", lambda value: 0.0 < value < 1.0),
        "the share of targets that are to be below their scores",
    )  # fmt: skip

    def terms(self) -> ResidualTerms:
        return ResidualTerms(self.quantile - 1.0, self.quantile, 0.0, 0.0, 0.0)


class Interpolate(Loss):
    """Not a cost but a demand, C = inf: the smallest w with |x.w - y| <= epsilon for every row.

    Source: lp-norm perceptron paper, section 2.3 and appendix B.1.
    """

    only_hard = True
    epsilon: Any = entry(
        0.0, NumberOrColumn("EPSILON", number=NOT_NEGATIVE), "how far from its number a score may be, in units of y; "
        "of each row for itself: NAME of a dataset, FILE:NAME or FILE.npy, in Python an array (n,) too",
    )  # fmt: skip

    @property
    def epsilons(self) -> Any:
        """The column or array of the rows' own epsilons, by which the terms are lifted; None for a number."""
        return None if isinstance(self.epsilon, Real) else self.epsilon

    def terms(self) -> ResidualTerms:
        epsilon = self.epsilon if self.epsilons is None else 0.0
        return ResidualTerms(-1.0, 1.0, epsilon, epsilon, 0.0)


LOSSES = (SquaredError, AbsoluteError, EpsilonInsensitive, Huber, Quantile, Interpolate)
