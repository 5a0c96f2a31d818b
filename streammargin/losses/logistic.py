"""Logistic loss phi(u) = log(1 + exp(-u)).

-phi*(-alpha) = -alpha ln alpha - (1 - alpha) ln(1 - alpha) on [0, 1] (unit scale); the step is a
safeguarded Newton search for the maximiser of the one-dimensional dual, kept inside (0, 1)
(lp-norm perceptron paper, appendix C; Yu, Huang and Lin 2011). Shares as in the dual acceleration paper, section 5.1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streammargin.losses.base import Largest
from streammargin.losses.choices import every, where, within
from streammargin.losses.exponentials import exp_minus, log_one_plus, logarithm, sigmoid
from streammargin.losses.softmax import LEAST_PROBABILITY, SoftmaxTerms


class LogisticTerms(NamedTuple):
    """phi(u) = log(1 + exp(-u))."""

    tolerance: float  # relative size of the last Newton step

    def has_hard_margin(self) -> bool:
        return False

    def feasible(self, alpha: float, cap: float) -> float:
        return within(alpha, 0.0, cap)

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
        left = u + kappa * (0.5 - old) > 0.0
        high = where(left & (high > 0.0), 0.0, high)
        low = where(left | (low > 0.0), low, 0.0)
        inside = (old > 0.0) & (old < 1.0)
        odds = where(inside, old, 0.5)
        z = within(where(inside, np.log(odds / (1.0 - odds)), -u), low, high)
        a = sigmoid(z)
        for _ in range(50):
            value = z + u + kappa * (a - old)
            new = within(z - value / (1.0 + kappa * a * (1.0 - a)), low, high)
            done = every(abs(new - z) <= self.tolerance * (1.0 + abs(z)))
            z = new
            a = sigmoid(z)
            if done:
                break
        return cap * a

    def distance(self, u: float) -> float:
        return 0.0

    def slope(self, alpha: float, L: float, cap: float) -> float:
        bend = alpha * (1.0 - alpha / cap)
        return bend / (1.0 + L * bend)

    def primal(self, u: float, cap: float) -> float:
        return cap * (np.log1p(np.exp(-abs(u))) - np.minimum(u, 0.0))

    def dual(self, alpha: float, cap: float) -> float:
        a = alpha / cap
        b = (cap - alpha) / cap
        least, most = np.maximum(np.minimum(a, b), 0.0), np.maximum(a, b)
        # -log(most) as log(1 + least / most). For the small duals of large rows log(1 - a) would round to 0. The dual
        # objective would then exceed the optimum
        return cap * (most * log_one_plus(least / most) - least * logarithm(np.maximum(least, LEAST_PROBABILITY)))

    def attained(self, u: float, cap: float) -> tuple[float, float, float, float]:
        # the dual's share is phi(u) + alpha u, computed without cancellation
        size = abs(u)
        t = exp_minus(size)
        value = log_one_plus(t)
        inverse = 1.0 / (1.0 + t)
        least = t * inverse  # min(alpha, 1 - alpha)
        share = value + where(t > 0.0, size * least, 0.0)
        alpha = where(u >= 0.0, least, inverse)
        return cap * alpha, cap * (value - np.minimum(u, 0.0)), cap * share, cap * least * inverse

    def settled(self, alpha: float, cap: float) -> bool:
        return False

    def gap(self, alpha: float, u: float, cap: float) -> float:
        return self.primal(u, cap) - self.dual(alpha, cap) + alpha * u

    def log_likelihood(self, scores: np.ndarray) -> np.ndarray:
        return -np.logaddexp(0.0, -scores)

    def level(self, score: float) -> float:
        return np.minimum(score, 0.0)

    def share(self, score: float, level: float) -> float:
        return np.exp(np.minimum(score, 0.0) - level) / (1.0 + np.exp(-abs(score)))

    def value(self, score: float, level: float) -> float:
        x = np.exp(-abs(score))
        found, near = log_one_plus(x), x <= 1e-5  # then its series over x
        ratio = where(near, 1.0 - x * (0.5 - x / 3.0), found / where(near, 1.0, x))
        return np.exp(np.minimum(score, 0.0) - level) * where(score > 0.0, score + found, ratio)

    def divisor(self, total: float, value: float, level: float) -> float:
        risk = value * np.exp(level)
        return value * where(risk > 0.0, -np.expm1(-risk) / where(risk > 0.0, risk, 1.0), 1.0)

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
