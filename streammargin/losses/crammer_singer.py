"""The hinge of several classes (Crammer and Singer 2001): phi(z) = max_k (z_k + ahead [k != own]) - z_own.

A line of another class has a dual a_g >= 0, the row's own line the sum of the others, at most cap. The exact step is a
projection on the simplex. Newton's method on its level is exact after as many steps as sets of classes are tried, of
which there are few (Michelot 1986).

Source of the step: Keerthi, Sundararajan, Chang, Hsieh and Lin 2008, A sequential dual method for large scale
multi-class linear SVMs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.losses.simplex import feasible, middle, own_line

EDGE = 1e-14  # a probability below it is one of 0 that was rounded


class CrammerSingerTerms(NamedTuple):
    """phi(z) = max_k (z_k + ahead [k != own]) - z_own."""

    ahead: float  # how far the own score is to be ahead of the others

    def has_hard_margin(self) -> bool:
        return False

    def of_share(self, p: float, own: bool) -> float:
        """A line's part of minus the dual, on the unit scale, but for a constant of the row."""
        return self.ahead * p if own else 0.0

    def coupled_step(
        self, u: np.ndarray, signs: np.ndarray, off: np.ndarray, centres: np.ndarray, cap: float, L: float,
        a: np.ndarray,
    ) -> tuple[float, float, float]:  # fmt: skip
        own = own_line(signs)
        value, grown, best = 0.0, 0.0, own
        for g in range(u.size):
            if g != own:
                beyond = self.ahead - u[g] - u[own]
                grown = max(grown, beyond + off[g] + off[own])
                if beyond > value:
                    value, best = beyond, g
        held = math.isinf(L)
        for g in range(u.size):
            a[g] = centres[g] if held else 0.0
        if held:
            feasible(signs, cap, a)
        elif L > 0.0:
            self.projected(u, signs, centres, cap, L, own, a)
        elif best != own:
            a[best] = a[own] = cap
        return cap * value, self.coupled_dual(signs, cap, a), cap * (grown - value)

    def projected(
        self, u: np.ndarray, signs: np.ndarray, centres: np.ndarray, cap: float, L: float, own: int, a: np.ndarray
    ) -> None:
        """Fill a with cap p, p the projection on the simplex of the centre's p plus scores / L."""
        highest = -math.inf
        for g in range(u.size):
            held = cap - centres[g] if g == own else centres[g]
            a[g] = L * held + (u[g] if g == own else self.ahead - u[g])
            highest = max(highest, a[g])
        for g in range(u.size):
            a[g] = (a[g] - highest) / L  # at most 0
        level, free = -cap, 0  # a level that is too low, and the number of lines above it
        for _ in range(u.size + 1):
            total, count = 0.0, 0
            for g in range(u.size):
                if a[g] > level:
                    total += a[g]
                    count += 1
            if count == free:
                break
            level, free = max(level, (total - cap) / count), count
        others = 0.0
        for g in range(u.size):
            a[g] = 0.0 if g == own else max(a[g] - level, 0.0)
            others += a[g]
        a[own] = others
        if others > cap:
            feasible(signs, cap, a)

    def coupled_feasible(self, signs: np.ndarray, cap: float, a: np.ndarray) -> None:
        feasible(signs, cap, a)

    def coupled_dual(self, signs: np.ndarray, cap: float, a: np.ndarray) -> float:
        """The row's share of the dual."""
        return self.ahead * a[own_line(signs)]

    def coupled_slopes(
        self, u: np.ndarray, signs: np.ndarray, centres: np.ndarray, cap: float, L: float, a: np.ndarray,
        straight: np.ndarray, crossed: np.ndarray,
    ) -> None:  # fmt: skip
        count = 0
        for g in range(a.size):
            free = cap - a[g] > EDGE * cap if signs[g] > 0.0 else a[g] > 0.0
            straight[g] = 1.0 if free else 0.0
            count += free
        slope = 1.0 / L if count > 1 and L > 0.0 else 0.0
        for g in range(a.size):
            straight[g] *= slope
            crossed[g] = straight[g] / math.sqrt(count * slope) if slope > 0.0 else 0.0

    def coupled_middle(self, signs: np.ndarray, cap: float, a: np.ndarray) -> None:
        middle(signs, cap, a)
