"""Exponential loss phi(u) = exp(-u), for whole-pass methods (dual acceleration paper, section 2)."""

from __future__ import annotations

import math
from typing import NamedTuple

from streammargin.losses.base import Loss

LARGEST = 709.0  # exp overflows beyond


class ExponentialTerms(NamedTuple):
    """phi(u) = exp(-u); psi of eq. (2.1) is the log-sum-exp, and its gradient the softmax."""

    bound_at_start: float  # bound on the mean of phi'' = phi while the risk is at most that of w = 0

    def has_hard_margin(self):
        return True

    def primal(self, u, cap):
        return cap * math.exp(-u) if u > -LARGEST else math.inf

    def level(self, score):
        return score

    def share(self, score, level):
        return math.exp(score - level)

    def value(self, score, level):
        return math.exp(score - level)

    def divisor(self, total, value, level):
        return total

    def steepness(self, rows):
        return 1.0

    def curvature_bound(self):
        return math.inf

    def curvature_at_start(self):
        return self.bound_at_start


class Exponential(Loss):
    """exp(-u): the largest margin in the limit (gd, normalized-gd, dual-momentum)."""

    def terms(self) -> ExponentialTerms:
        return ExponentialTerms(1.0)


LOSSES = (Exponential,)
