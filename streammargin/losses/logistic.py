"""Logistic loss phi(u) = log(1 + exp(-u)).

-phi*(-alpha) = -alpha ln alpha - (1 - alpha) ln(1 - alpha) on [0, 1] (unit scale); the step is a
safeguarded Newton search for the maximiser of the one-dimensional dual, kept inside (0, 1)
(lp-norm perceptron paper, appendix C; Yu, Huang and Lin 2011). Shares as in the dual acceleration paper, section 5.1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.losses.base import Largest
from streammargin.losses.exponentials import exp_minus, log_one_plus
from streammargin.losses.softmax import SoftmaxTerms


class LogisticTerms(NamedTuple):
    """phi(u) = log(1 + exp(-u))."""

    tolerance: float  # relative size of the last Newton step

    def has_hard_margin(self) -> bool:
        return False

    def feasible(self, alpha: float, cap: float) -> float:
        return min(max(alpha, 0.0), cap)

    def slack(self, u: float) -> float:
        return u

    def missed(self, u: float) -> bool:
        return u <= 0.0

    def step(self, alpha: float, u: float, L: float, cap: float) -> float:
        # maximise over a in (0, 1), in z = logit(a):  z + u + cap L (a - alpha/cap) = 0, increasing in z
        kappa = cap * L
        old = alpha / cap
        low = -u - kappa * (1.0 - old)
        high = -u + kappa * old
        # the left side has one inflection point, z = 0: on the root's side of it Newton's method cannot cycle
        if u + kappa * (0.5 - old) > 0.0:
            high = min(high, 0.0)
        else:
            low = max(low, 0.0)
        z = math.log(old / (1.0 - old)) if 0.0 < old < 1.0 else -u
        z = min(max(z, low), high)
        for _ in range(50 if kappa > 0.0 else 0):  # at 0, z = -u is the root
            a = 1.0 / (1.0 + math.exp(-z)) if z >= 0.0 else math.exp(z) / (1.0 + math.exp(z))
            value = z + u + kappa * (a - old)
            new = min(max(z - value / (1.0 + kappa * a * (1.0 - a)), low), high)
            done = abs(new - z) <= self.tolerance * (1.0 + abs(z))
            z = new
            if done:
                break
        return cap / (1.0 + math.exp(-z)) if z >= 0.0 else cap * (math.exp(z) / (1.0 + math.exp(z)))

    def distance(self, u: float) -> float:
        return 0.0

    def slope(self, alpha: float, L: float, cap: float) -> float:
        bend = alpha * (1.0 - alpha / cap)
        return bend / (1.0 + L * bend)

    def primal(self, u: float, cap: float) -> float:
        return cap * (math.log1p(math.exp(-u)) if u >= 0.0 else math.log1p(math.exp(u)) - u)

    def dual(self, alpha: float, cap: float) -> float:
        a = alpha / cap
        b = (cap - alpha) / cap
        entropy = 0.0
        # log1p if the argument is near 1. For the small duals of large rows log(1 - a) would round to 0, and the
        # dual objective would exceed the optimum
        if a > 0.0:
            entropy -= a * (math.log(a) if a < 0.5 else math.log1p(-b))
        if b > 0.0:
            entropy -= b * (math.log(b) if b < 0.5 else math.log1p(-a))
        return cap * entropy

    def attained(self, u: float, cap: float) -> tuple[float, float, float, float]:
        # the dual's share is phi(u) + alpha u, computed without cancellation
        size = abs(u)
        t = exp_minus(size)
        value = log_one_plus(t)
        inverse = 1.0 / (1.0 + t)
        least = t * inverse  # min(alpha, 1 - alpha)
        share = value + (size * least if t > 0.0 else 0.0)
        if u >= 0.0:
            return cap * least, cap * value, cap * share, cap * least * inverse
        return cap * inverse, cap * (value - u), cap * share, cap * least * inverse

    def settled(self, alpha: float, cap: float) -> bool:
        return False

    def gap(self, alpha: float, u: float, cap: float) -> float:
        return self.primal(u, cap) - self.dual(alpha, cap) + alpha * u

    def log_likelihood(self, scores: np.ndarray) -> np.ndarray:
        return -np.logaddexp(0.0, -scores)

    def level(self, score: float) -> float:
        return min(score, 0.0)

    def share(self, score: float, level: float) -> float:
        if score > 0.0:
            return math.exp(-level) / (1.0 + math.exp(-score))
        shifted = math.exp(score - level)
        return shifted / (1.0 + shifted * math.exp(level))

    def value(self, score: float, level: float) -> float:
        if score > 0.0:
            return (score + math.log1p(math.exp(-score))) * math.exp(-level)
        shifted = math.exp(score - level)
        x = shifted * math.exp(level)
        # log(1 + x) / x, by its series if that is exact: the logarithm would take as long as a short row
        return (math.log1p(x) / x if x > 1e-5 else 1.0 - x * (0.5 - x / 3.0)) * shifted

    def divisor(self, total: float, value: float, level: float) -> float:
        risk = value * math.exp(level)
        return value * (-math.expm1(-risk) / risk) if risk > 0.0 else value

    def steepness(self, rows: float) -> float:
        return rows

    def curvature_bound(self) -> float:
        return 0.25

    def curvature_at_start(self) -> float:
        return 0.25


class Logistic(Largest):
    """log(1 + exp(-u)): logistic regression, whose scores are log odds."""

    def terms(self) -> LogisticTerms:
        return LogisticTerms(1e-12)

    def joint(self) -> SoftmaxTerms | None:
        return SoftmaxTerms(1e-8) if self.top is None else None


LOSSES = (Logistic,)
