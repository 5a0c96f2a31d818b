"""Penalties for the kernels of coordinate ascent: lp norms and their mirror maps, elastic net, group lasso.

w = mirror(theta) for psi(w) = 1/2 ||w||_p^2 and q = p/(p-1):
w_j = ||theta||_q^(2-q) |theta_j|^(q-1) sign(theta_j), and ||w||_p = ||theta||_q
(lp-norm perceptron paper, section 2).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.errors import UsageError
from streammargin.rows.blocks import Block, add_grouped, add_mirrored, combined_dot, grouped_dot
from streammargin.wording import shown


class L2(NamedTuple):
    """p = 2: the mirror map is the identity, and theta and powers are the same array."""

    q: float

    def curvature(self, block: Block, i: int) -> float:
        """L_i = (q-1) ||a_i||_q^2, the curvature bound of the dual along row i."""
        return block.sum_powers(i, 2.0)

    def scale(self, power_sum: float) -> float:
        """The factor from the stored powers to the weights."""
        return 1.0

    def now(self, block: Block, i: int, theta: np.ndarray, powers: np.ndarray, power_sum: float) -> float:
        """x_i.w for w = mirror(theta)."""
        return np.float64(block.dot(i, powers))

    def now_and_curvature(
        self, block: Block, i: int, theta: np.ndarray, powers: np.ndarray, power_sum: float
    ) -> tuple[float, float]:
        """(now, curvature); for a sparse row in one loop."""
        return block.dot_and_square(i, powers)

    def move(self, block: Block, i: int, t: float, theta: np.ndarray, powers: np.ndarray, power_sum: float) -> float:
        """theta += t x_i; returns the new sum |theta|^q (not needed here)."""
        block.add(i, t, theta)
        return power_sum

    def score(self, block: Block, i: int, theta: np.ndarray, drift: np.ndarray, share: float, square: float) -> float:
        """x_i . mirror(theta + share drift); square is not needed."""
        return np.float64(block.dot(i, theta)) + share * np.float64(block.dot(i, drift))

    def combined_square(self, theta: np.ndarray, drift: np.ndarray, share: float) -> float:
        """||theta + share drift||_q^2 (not needed here)."""
        return 0.0


class Lp(NamedTuple):
    """1 < p < 2: powers = sign(theta)|theta|^(q-1) is stored beside theta, so a dot product needs no pow."""

    q: float

    def curvature(self, block: Block, i: int) -> float:
        """L_i = (q-1) ||a_i||_q^2, the curvature bound of the dual along row i."""
        return (self.q - 1.0) * block.sum_powers(i, self.q) ** (2.0 / self.q)

    def scale(self, power_sum: float) -> float:
        """The factor from the stored powers to the weights: ||theta||_q^(2-q)."""
        return power_sum ** ((2.0 - self.q) / self.q) if power_sum > 0.0 else 0.0

    def now(self, block: Block, i: int, theta: np.ndarray, powers: np.ndarray, power_sum: float) -> float:
        """x_i.w for w = mirror(theta)."""
        return self.scale(power_sum) * np.float64(block.dot(i, powers))

    def now_and_curvature(
        self, block: Block, i: int, theta: np.ndarray, powers: np.ndarray, power_sum: float
    ) -> tuple[float, float]:
        """(now, curvature)."""
        return self.now(block, i, theta, powers, power_sum), self.curvature(block, i)

    def move(self, block: Block, i: int, t: float, theta: np.ndarray, powers: np.ndarray, power_sum: float) -> float:
        """theta += t x_i, and powers accordingly; returns the new sum |theta|^q."""
        return max(power_sum + add_mirrored(block, i, t, theta, powers, self.q), 0.0)

    def score(self, block: Block, i: int, theta: np.ndarray, drift: np.ndarray, share: float, square: float) -> float:
        """x_i . mirror(theta + share drift), where square is (nearly) ||theta + share drift||_q^2."""
        return combined_dot(block, i, theta, drift, share, self.q, math.sqrt(square)) if square > 0.0 else 0.0

    def combined_square(self, theta: np.ndarray, drift: np.ndarray, share: float) -> float:
        """||theta + share drift||_q^2."""
        top = 0.0
        for j in range(theta.size):
            top = max(top, abs(theta[j] + share * drift[j]))
        if top == 0.0:
            return 0.0
        total = 0.0
        for j in range(theta.size):
            total += (abs(theta[j] + share * drift[j]) / top) ** self.q
        return (top * total ** (1.0 / self.q)) ** 2


class Shrunk(NamedTuple):
    """The elastic net r ||w||_1 + rest/2 ||w||_2^2.

    Each dot product computes w_j = sign(theta_j) (|theta_j| - r)_+ / rest. Storing w beside theta would double the
    memory that a sparse row touches: a pass took a third longer.
    """

    r: float
    rest: float

    def curvature(self, block: Block, i: int) -> float:
        """L_i = ||a_i||_2^2 / rest, the curvature bound of the dual along row i."""
        return block.sum_powers(i, 2.0) / self.rest

    def now(self, block: Block, i: int, theta: np.ndarray, powers: np.ndarray, power_sum: float) -> float:
        """x_i.w for w = mirror(theta)."""
        return block.shrunk_dot(i, theta, self.r) / self.rest

    def now_and_curvature(
        self, block: Block, i: int, theta: np.ndarray, powers: np.ndarray, power_sum: float
    ) -> tuple[float, float]:
        """(now, curvature)."""
        return self.now(block, i, theta, powers, power_sum), self.curvature(block, i)

    def move(self, block: Block, i: int, t: float, theta: np.ndarray, powers: np.ndarray, power_sum: float) -> float:
        """theta += t x_i; returns power_sum (not needed here)."""
        block.add(i, t, theta)
        return power_sum


class GroupedNorm(NamedTuple):
    """r sum_g roots_g ||w_g||_2 + rest/2 ||w||_2^2: powers begins with ||theta_g||^2 for each group.

    of (d+1,) int32: the group of each column; roots (G,).
    """

    of: np.ndarray
    roots: np.ndarray
    r: float
    rest: float

    def curvature(self, block: Block, i: int) -> float:
        """L_i = ||a_i||_2^2 / rest, the curvature bound of the dual along row i."""
        return block.sum_powers(i, 2.0) / self.rest

    def now(self, block: Block, i: int, theta: np.ndarray, powers: np.ndarray, power_sum: float) -> float:
        """x_i.w for w = mirror(theta)."""
        return grouped_dot(block, i, theta, powers, self.of, self.roots, self.r) / self.rest

    def now_and_curvature(
        self, block: Block, i: int, theta: np.ndarray, powers: np.ndarray, power_sum: float
    ) -> tuple[float, float]:
        """(now, curvature)."""
        return self.now(block, i, theta, powers, power_sum), self.curvature(block, i)

    def move(self, block: Block, i: int, t: float, theta: np.ndarray, powers: np.ndarray, power_sum: float) -> float:
        """theta += t x_i, and the squares of its groups accordingly; returns power_sum (not needed here)."""
        add_grouped(block, i, t, theta, powers, self.of)
        return power_sum


Norm = L2 | Lp | Shrunk | GroupedNorm


def resolve_p(norm: float | str, features: int) -> float:
    """The field p of the penalty lp: a number in (1, 2], or "sparse" for p = min(2, 1 + 1/ln d).

    Raises UsageError for anything else.
    """
    if norm == "sparse":
        return min(2.0, 1.0 + 1.0 / math.log(features)) if features > 2 else 2.0
    try:
        p = float(norm)
    except (TypeError, ValueError):
        p = math.nan
    if not 1.0 < p <= 2.0:
        raise UsageError(f"p must be a number in (1, 2] or the word sparse, not {shown(norm)}")
    return p


def make_norm(p: float) -> L2 | Lp:
    """The kernels' penalty 1/2 ||w||_p^2, 1 < p <= 2."""
    return L2(2.0) if p == 2.0 else Lp(p / (p - 1.0))


_ONE_THREAD_SIZE = 8192  # for longer vectors BLAS uses several threads


def _square(theta: np.ndarray) -> float:
    """sum_j theta_j^2 of theta (m,) float64: twice as fast as einsum."""
    if theta.size <= _ONE_THREAD_SIZE:
        return float(np.dot(theta, theta))
    pieces = (theta[start : start + _ONE_THREAD_SIZE] for start in range(0, theta.size, _ONE_THREAD_SIZE))
    return sum(float(np.dot(piece, piece)) for piece in pieces)


def lp_norm(x: np.ndarray, p: float, square: float | None = None) -> float:
    """||x||_p in float64, without overflow of the powers.

    x (m,), p >= 1; square: ||x||_2^2, if known.
    """
    if p == 2.0:
        with np.errstate(over="ignore"):
            if square is None and x.dtype == np.float64:
                square = _square(x)
            elif square is None:
                square = float(np.einsum("i,i", x, x, dtype=np.float64))  # no temporary, one thread
        if 1e-280 < square < 1e280:
            return math.sqrt(square)
    top = float(np.max(np.abs(x), initial=0.0))
    if top == 0.0 or not math.isfinite(top):
        return top
    return top * float(np.sum(np.abs(x / top) ** p)) ** (1.0 / p)


def mirror(theta: np.ndarray, q: float) -> np.ndarray:
    """w = mirror(theta), float64; mirror(0) = 0 by definition."""
    if q == 2.0:
        return np.array(theta, dtype=np.float64)
    size = lp_norm(theta, q)
    if size == 0.0:
        return np.zeros(theta.shape)
    scaled = np.abs(theta) / size
    return size * np.sign(theta) * scaled ** (q - 1.0)
