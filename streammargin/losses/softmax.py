"""Softmax, the logistic loss of several classes: phi(z) = log sum_k exp(z_k) - z_own.

Its duals on the unit scale are probabilities p. A line of another class has a_g = cap p_g. The row's own line has
a_own = cap (1 - p_own), the sum of the others. The dual is the entropy of p. The exact step solves

    log p_k + kappa (p_k - q_k) = z_k - mu,  sum p = 1,  kappa = cap L, q: the centre

by Newton's method in log p and mu together, from the softmax. Each log p_k is kept at most 0, as that of the solution
is. The equation is convex in log p_k, so no step from the right of its root is too long.

Source of the dual: Collins, Globerson, Koo, Carreras and Bartlett 2008, Exponentiated gradient algorithms for
conditional random fields and max-margin Markov networks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.losses.choices import where
from streammargin.losses.exponentials import exp_minus, logarithm
from streammargin.losses.simplex import feasible, middle, own_line

LEAST_PROBABILITY = 1e-300  # one below it counts as 0
LARGEST_INVERSE_CAP = 1.7e308  # near the largest float: 1 / cap is inf for a denormal cap
LITTLE = 1e-7  # digits of smaller sums of the other probabilities do not count
SOFTMAX_NEWTON_STEPS = 100  # at most; usual are three to five, or some 25 if kappa is a million


def probability(sign: float, share: float) -> float:
    """The probability of a class whose dual is this share of the cap."""
    return 0.5 * (1.0 + sign) - sign * share


class SoftmaxTerms(NamedTuple):
    """phi(z) = log sum_k exp(z_k) - z_own."""

    tolerance: float  # how much the last Newton step moves the probabilities, relative to those of the other lines

    def has_hard_margin(self) -> bool:
        return False

    def curvature_bound(self) -> float:
        return 0.5

    def takes_arrays(self) -> bool:
        return True

    def of_share(self, p: float, own: bool) -> float:
        """A line's part of minus the dual, on the unit scale."""
        return p * np.log(where(p > 0.0, p, 1.0))

    def coupled_step(
        self, u: np.ndarray, signs: np.ndarray, off: np.ndarray, centres: np.ndarray, cap: float, L: float,
        a: np.ndarray,
    ) -> tuple[float, float, float]:  # fmt: skip
        top, highest, lines = 0, signs[0] * u[0], u.shape[0]
        for g in range(1, lines):
            above = signs[g] * u[g] > highest
            top, highest = where(above, g, top), where(above, signs[g] * u[g], highest)
        for g in range(lines):
            a[g] = exp_minus(highest - signs[g] * u[g])
        rest, met = 0.0, 0.0
        for g in range(lines):  # of the others than the top first: their sum may be far below 1
            beside = where(top == g, 0.0, a[g])
            rest = rest + beside
            met = met + beside * (highest - signs[g] * u[g])
        level, scale = np.log1p(rest), cap / (1.0 + rest)
        for g in range(lines):
            a[g] = where(signs[g] > 0.0, 0.0, a[g] * scale)
        others, moved, widest, score, wide = 0.0, 0.0, off[0], 0.0, 0.0
        for g in range(lines):
            mine = signs[g] > 0.0
            others = others + a[g]
            moved = moved + a[g] * off[g]
            widest = np.maximum(widest, off[g])
            score, wide = score + where(mine, u[g], 0.0), wide + where(mine, off[g], 0.0)
        for g in range(lines):
            a[g] = where(signs[g] > 0.0, np.minimum(others, cap), a[g])
        value = cap * (highest - score + level)
        slip = np.minimum(moved + others * wide + 0.5 * cap * widest * widest, 2.0 * cap * widest)
        if L == 0.0:
            return value, cap * (level + met / (1.0 + rest)), slip
        held, own = math.isinf(L), own_line(signs)
        for g in range(u.size):
            a[g] = centres[g] if held else signs[g] * u[g] - highest - level
        if held:
            feasible(signs, cap, a)
        else:
            self.softened(u, signs, centres, cap, L, own, highest, a)
        return value, self.coupled_dual(signs, cap, a), slip

    def softened(
        self, u: np.ndarray, signs: np.ndarray, centres: np.ndarray, cap: float, L: float, own: int, highest: float,
        a: np.ndarray,
    ) -> None:  # fmt: skip
        """Replace logarithms of probabilities in a by the duals of the step for 0 < L < inf; highest: largest score."""
        kappa, each, mu, lines = cap * L, min(1.0 / cap, LARGEST_INVERSE_CAP), 0.0, a.shape[0]
        for number in range(SOFTMAX_NEWTON_STEPS):
            total, others, bend, met, left = 0.0, 0.0, 0.0, 0.0, 0.0
            for g in range(lines):
                t, p = signs[g] * u[g] - highest + kappa * probability(signs[g], centres[g] * each), exp_minus(-a[g])
                s, r = p / (1.0 + kappa * p), t - kappa * p - a[g]
                total, others = total + p, others + where(signs[g] > 0.0, 0.0, p)
                bend = bend + s
                met = met + s * r
                left = left + s * abs(r - mu)
            before, mu = mu, (met + (total - 1.0)) / bend
            left += abs(mu - before) * bend
            if number > 0 and left <= self.tolerance * (others + LITTLE):
                break
            for g in range(lines):
                t, p = signs[g] * u[g] - highest + kappa * probability(signs[g], centres[g] * each), exp_minus(-a[g])
                v, r = 1.0 + kappa * p, t - mu - kappa * p - a[g]
                # Halley's step; log p + kappa p is convex, so beyond log 1 only the first step can lead
                a[g] = np.minimum(a[g] + 2.0 * r * v / (2.0 * v * v + np.maximum(r, -2.0) * (kappa * p)), 0.0)
        for g in range(lines):
            t, p = signs[g] * u[g] - highest + kappa * probability(signs[g], centres[g] * each), exp_minus(-a[g])
            moved = p * (t - mu - kappa * p - a[g]) / (1.0 + kappa * p)
            a[g] = where(signs[g] > 0.0, 0.0, cap * np.maximum(p + moved, 0.0))
        others = 0.0
        for g in range(lines):
            others = others + a[g]
        a[own] = others
        if others > cap:
            feasible(signs, cap, a)

    def coupled_feasible(self, signs: np.ndarray, cap: float, a: np.ndarray) -> None:
        feasible(signs, cap, a)

    def coupled_dual(self, signs: np.ndarray, cap: float, a: np.ndarray) -> float:
        """The row's share of the dual: the entropy of the probabilities, times cap."""
        entropy = 0.0
        for g in range(a.size):
            if signs[g] > 0.0:
                rest = min(a[g] / cap, 1.0)
                entropy -= (1.0 - rest) * math.log1p(-rest) if rest < 1.0 else 0.0
        for g in range(a.size):
            p = 0.0 if signs[g] > 0.0 else a[g] / cap
            entropy -= p * logarithm(max(p, LEAST_PROBABILITY))
        return cap * entropy

    def coupled_slopes(
        self, u: np.ndarray, signs: np.ndarray, centres: np.ndarray, cap: float, L: float, a: np.ndarray,
        straight: np.ndarray, crossed: np.ndarray,
    ) -> None:  # fmt: skip
        total, lines = 0.0, a.shape[0]
        for g in range(lines):
            p = where(signs[g] > 0.0, np.maximum(cap - a[g], 0.0), a[g])
            straight[g] = where(p > 0.0, p / (1.0 + L * p), 0.0)
            total = total + straight[g]
        scale = where(total > 0.0, 1.0 / np.sqrt(where(total > 0.0, total, 1.0)), 0.0)
        for g in range(lines):
            crossed[g] = straight[g] * scale

    def coupled_middle(self, signs: np.ndarray, cap: float, a: np.ndarray) -> None:
        middle(signs, cap, a)

    def log_likelihoods(self, scores: np.ndarray) -> np.ndarray:
        moved = scores - scores.max(axis=1, keepdims=True)
        return moved - np.log(np.exp(moved).sum(axis=1, keepdims=True))
