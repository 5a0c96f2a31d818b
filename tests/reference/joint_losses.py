"""Losses of all lines of weights together, of one row, in NumPy: values, and steps by bisection."""

from typing import NamedTuple

import numpy as np
from scipy.special import entr, logsumexp, wrightomega


class Row(NamedTuple):
    """A row of K lines. own: its class, or None for numbers; z (K,): scores, for numbers less their targets."""

    z: np.ndarray
    own: int | None
    cap: float

    @property
    def mine(self):
        """1 for the own class, else 0."""
        return (np.arange(self.z.size) == (-1 if self.own is None else self.own)).astype(float)

    @property
    def signs(self):
        return np.ones(self.z.size) if self.own is None else 2.0 * self.mine - 1.0

    @property
    def u(self):
        return self.signs * self.z

    def duals(self, p):
        """The duals of probabilities p; the own one is the sum of the others."""
        others = np.where(self.mine > 0, 0.0, self.cap * p)
        return np.where(self.mine > 0, others.sum(), others)

    def probabilities(self, a):
        return self.mine - self.signs * a / self.cap


def bisected(falling, low, high):
    """The zero of a falling function."""
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return middle


def softmax(row):
    return row.cap * (logsumexp(row.z) - row.z[row.own])


def entropy(row, a):
    return row.cap * float(entr(np.clip(row.probabilities(a), 0.0, 1.0)).sum())


def softmax_step(row, centres, L):
    """The p with log p + kappa (p - q) = z - mu that add up to 1."""
    kappa, q = row.cap * L, row.probabilities(centres)
    v = row.z + kappa * q
    v -= v.max()

    def p(mu):
        return np.exp(v - mu) if kappa == 0.0 else wrightomega(v - mu + np.log(kappa)) / kappa

    return row.duals(p(bisected(lambda mu: p(mu).sum() - 1.0, -kappa - 1e-9, logsumexp(v) + 1e-9)))


def crammer_singer(row):
    return row.cap * np.max(row.z + 1.0 - row.mine - row.z[row.own])


def linear(row, a):
    return float(a[row.own])


def crammer_singer_step(row, centres, L):
    """The projection of q + (z + 1 - e_own) / (cap L) on the simplex, by a sort."""
    v = row.probabilities(centres) + (row.z + 1.0 - row.mine) / (row.cap * L)
    v = v - v.max()
    falling = np.sort(v)[::-1]
    levels = (np.cumsum(falling) - 1.0) / np.arange(1, v.size + 1)
    return row.duals(np.maximum(v - levels[np.flatnonzero(falling > levels)[-1]], 0.0))


def l2_error(row):
    return row.cap * np.linalg.norm(row.z)


def nothing(row, a):
    return 0.0


def l2_error_step(row, centres, L):
    """The projection of c - z / L on the ball of radius cap."""
    moved = L * centres - row.z
    return moved / max(L, np.linalg.norm(moved) / row.cap)


class Twin(NamedTuple):
    """primal(row); dual(row, a); step(row, centres, L) for L > 0."""

    primal: object
    dual: object
    step: object


TWINS = {
    "softmax": Twin(softmax, entropy, softmax_step),
    "crammer_singer": Twin(crammer_singer, linear, crammer_singer_step),
    "l2_error": Twin(l2_error, nothing, l2_error_step),
}
