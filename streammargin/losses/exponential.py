"""Exponential loss phi(u) = exp(-u), for whole-pass methods (dual acceleration paper, section 2)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.losses.base import Loss
from streammargin.losses.choices import where

LARGEST_EXPONENT = 709.0  # exp overflows beyond


class ExponentialTerms(NamedTuple):
    """phi(u) = exp(-u); psi of eq. (2.1) is the log-sum-exp, and its gradient the softmax."""

    bound_at_start: float  # bound on the mean of phi'' = phi while the risk is at most that of w = 0

    def has_hard_margin(self) -> bool:
        return True

    def primal(self, u: float, cap: float) -> float:
        return where(u > -LARGEST_EXPONENT, cap * np.exp(np.minimum(-u, LARGEST_EXPONENT)), math.inf)

    def level(self, score: float) -> float:
        return score

    def share(self, score: float, level: float) -> float:
        return np.exp(score - level)

    def value(self, score: float, level: float) -> float:
        return np.exp(score - level)

    def divisor(self, total: float, value: float, level: float) -> float:
        return total

    def steepness(self, rows: float) -> float:
        return 1.0

    def curvature_bound(self) -> float:
        return math.inf

    def curvature_at_start(self) -> float:
        return self.bound_at_start


class Exponential(Loss):
    """exp(-u): the largest margin in the limit (gd, normalized-gd, dual-momentum)."""

    def terms(self) -> ExponentialTerms:
        return ExponentialTerms(1.0)


LOSSES = (Exponential,)
