"""The length of the residual of several targets: phi(z) = ||z - y||_2. Its duals form a ball of radius cap."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.losses.base import Loss
from streammargin.losses.residuals import AbsoluteError, ResidualTerms


class L2ErrorTerms(NamedTuple):
    """phi(u) = radius ||u||_2, u = z - y."""

    radius: float  # of the ball of the duals, over cap

    def of_numbers(self) -> bool:
        return True

    def has_hard_margin(self) -> bool:
        return False

    def coupled_step(
        self, u: np.ndarray, signs: np.ndarray, off: np.ndarray, centres: np.ndarray, cap: float, L: float,
        a: np.ndarray,
    ) -> tuple[float, float, float]:  # fmt: skip
        square, far, most, held = 0.0, 0.0, self.radius * cap, math.isinf(L)
        for g in range(u.size):
            square += u[g] * u[g]
            far += off[g] * off[g]
        for g in range(u.size):
            a[g] = centres[g] if held else L * centres[g] - u[g]
        if held:
            self.coupled_feasible(signs, cap, a)
        else:
            size = self.size_of(a)
            scale = 1.0 / L if size < L * most else most / size if size > 0.0 else 0.0
            for g in range(u.size):
                a[g] *= scale
        return most * math.sqrt(square), self.coupled_dual(signs, cap, a), most * math.sqrt(far)

    def size_of(self, a: np.ndarray) -> float:
        """The length of a."""
        square = 0.0
        for g in range(a.size):
            square += a[g] * a[g]
        return math.sqrt(square)

    def coupled_feasible(self, signs: np.ndarray, cap: float, a: np.ndarray) -> None:
        size, most = self.size_of(a), self.radius * cap
        for g in range(a.size):
            a[g] *= most / size if size > most else 1.0

    def coupled_dual(self, signs: np.ndarray, cap: float, a: np.ndarray) -> float:
        """The row's share of the dual, without a.y."""
        return 0.0

    def coupled_slopes(
        self, u: np.ndarray, signs: np.ndarray, centres: np.ndarray, cap: float, L: float, a: np.ndarray,
        straight: np.ndarray, crossed: np.ndarray,
    ) -> None:  # fmt: skip
        most, finite = self.radius * cap, not math.isinf(L)
        for g in range(a.size):
            straight[g] = L * centres[g] - u[g] if finite else 0.0
        size = self.size_of(straight)
        inside = size < L * most
        slope = 1.0 / L if inside else most / size if size > 0.0 else 0.0
        for g in range(a.size):
            crossed[g] = 0.0 if inside or size == 0.0 else straight[g] * (math.sqrt(slope) / size)
            straight[g] = slope

    def coupled_middle(self, signs: np.ndarray, cap: float, a: np.ndarray) -> None:
        for g in range(a.size):
            a[g] = 0.0


class L2Error(Loss):
    """||x.W - y||_2 of several targets: the length of a row's error, and far rows weigh no more than others."""

    def terms(self) -> L2ErrorTerms:
        return L2ErrorTerms(1.0)

    def joint(self) -> L2ErrorTerms:
        return self.terms()

    def of_one(self) -> ResidualTerms:
        return AbsoluteError(top=None).terms()


LOSSES = (L2Error,)
