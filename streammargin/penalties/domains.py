"""Weights that have to lie within a set around 0: between two numbers, or in a ball (Pdprox paper, section 4.5).

R is inf outside of it. R* is then no function of one number, and the part of the duals that proves most is looked for.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from streammargin.kinds import Number
from streammargin.penalties.base import TINY, ByEntry, PenalisedColumns, Penalty, shrink
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.words import entry

LOW = Number("a number of at most 0", lambda value: value <= 0.0, metavar="0")
HIGH = Number("a number of at least 0", lambda value: value >= 0.0, metavar="1")
EPS = float(np.finfo(np.float64).eps)
HALVINGS = 40  # of the stretch in which the best part of the duals lies


class Domain(ByEntry):
    """R(w) within a set, inf outside of it. word: the penalty as it was asked for."""

    word: Penalty

    def __str__(self) -> str:
        return str(self.word)

    @abstractmethod
    def best(self, theta: np.ndarray) -> np.ndarray:
        """The w (m,) where theta.w - R(w) is largest, for theta (m,) where R* is finite."""

    @abstractmethod
    def above(self, theta: np.ndarray, blur: float) -> float:
        """No less than R* wherever it is no further from theta (m,) than `blur`, but for the rounding of its sum."""

    def conjugate(self, theta: np.ndarray) -> float:
        return self.above(theta, 0.0)

    def bound(self, gain: float, theta: np.ndarray, blur: float, rounding: float) -> float:
        blur += EPS * lp_norm(theta.ravel(), 2.0)  # the factor rounds as well
        if not blur < math.inf:
            return 0.0
        s = self.best_part(gain, theta, blur, rounding)
        return max(0.0, s * gain - self.above(s * theta, s * blur) * (1.0 + rounding))

    def best_part(self, gain: float, theta: np.ndarray, blur: float, rounding: float) -> float:
        """The factor s of `bound`: what it proves is concave in s, and falls from where R* grows faster than s gain."""
        low, high = 0.0, self.part(theta, blur, rounding)
        s = high
        for _ in range(HALVINGS):
            if float((theta * self.best(s * theta)).sum()) <= gain:
                low = s
            else:
                high = s
            if low == high:
                break
            s = 0.5 * (low + high)
        return low


class Boxed(Domain):
    """r ||w||_1 + (1 - r)/2 ||w||^2 where low_j <= w_j <= high_j; low, high (m,)."""

    r: float
    low: np.ndarray
    high: np.ndarray

    def value(self, w: np.ndarray) -> float:
        if not ((self.low <= w) & (w <= self.high)).all():
            return math.inf
        size = lp_norm(w, 2.0)
        return self.r * float(np.abs(w).sum()) + 0.5 * (1.0 - self.r) * size * size

    def best(self, theta: np.ndarray) -> np.ndarray:
        beyond = shrink(theta, self.r)
        if self.r < 1.0:
            return self.inside(beyond / (1.0 - self.r))
        return np.where(beyond > 0.0, self.high, np.where(beyond < 0.0, self.low, 0.0))

    def above(self, theta: np.ndarray, blur: float) -> float:
        if self.r < 1.0:  # its slope is w, which moves by no more than blur / (1 - r)
            w, rest = self.best(theta), 1.0 - self.r
            return float((w * (shrink(theta, self.r) - 0.5 * rest * w)).sum()) + blur * (
                lp_norm(w, 2.0) + 0.5 * blur / rest
            )
        total = 0.0
        for side, ends in ((theta, self.high), (-theta, -self.low)):
            beyond = side + blur - 1.0
            active = beyond > 0.0
            total += float((ends[active] * beyond[active]).sum())
        return total

    def part(self, theta: np.ndarray, blur: float, rounding: float) -> float:
        if self.r < 1.0:
            return 1.0
        pulled = np.where(np.isinf(self.high), theta, 0.0), np.where(np.isinf(self.low), -theta, 0.0)
        most = max(float(part.max(initial=0.0)) for part in pulled)
        return 1.0 / max(1.0, (most + blur) * (1.0 + rounding))

    def zero_factor(self, theta: np.ndarray) -> float:
        pulled = np.where(theta > 0.0, self.high > 0.0, self.low < 0.0) * np.abs(theta)
        return self.r / max(float(pulled.max(initial=0.0)), TINY)

    def inside(self, w: np.ndarray) -> np.ndarray:
        return np.clip(w, self.low, self.high)

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        return self.inside(shrink(v, steps * self.r) / (1.0 + steps * (1.0 - self.r)))


class Ball(Domain):
    """1/2 ||w||^2 if all of w but the last `others` entries are no longer than the radius."""

    radius: float
    others: int

    def value(self, w: np.ndarray) -> float:
        size = lp_norm(w, 2.0)
        return 0.5 * size * size if self._length(w) <= self.radius else math.inf

    def _length(self, w: np.ndarray) -> float:
        return lp_norm(w[: w.size - self.others], 2.0)

    def best(self, theta: np.ndarray) -> np.ndarray:
        return self.inside(theta)

    def above(self, theta: np.ndarray, blur: float) -> float:
        size, rest = self._length(theta), lp_norm(theta[theta.size - self.others :], 2.0)
        own = 0.5 * size * size if size <= self.radius else self.radius * (size - 0.5 * self.radius)
        return own + 0.5 * rest * rest + blur * (min(size, self.radius) + rest + 0.5 * blur)

    def inside(self, w: np.ndarray) -> np.ndarray:
        size = self._length(w)
        if size <= self.radius:
            return w
        moved = w.copy()
        moved[: w.size - self.others] *= self.radius / size * (1.0 - (w.size + 4.0) * EPS)  # not beyond by rounding
        return moved

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        # w_j = v_j / (1 + steps_j (1 + more)), where `more` is the multiplier of ||w|| <= radius. Newton steps on
        # 1 / ||w|| approach it from below and never go beyond it (More and Sorensen 1983)
        w, more, own = v / (1.0 + steps), 0.0, slice(0, v.size - self.others)
        for _ in range(HALVINGS):
            size = self._length(w)
            if not size > self.radius * (1.0 + 4.0 * EPS) or self.radius == 0.0:
                break
            lower = 1.0 + steps[own] * (1.0 + more)
            falls = float(((w[own] / size) ** 2 * (steps[own] / lower)).sum())
            if not falls > 0.0:  # a radius beyond the range of numbers: a projection is as good
                break
            more += (size / self.radius - 1.0) / falls
            w[own] = v[own] / (1.0 + steps[own] * (1.0 + more))
        return self.inside(w)


class Bounded(Penalty):
    """The fields of a penalty whose weights may be kept between two numbers."""

    low: float | None = entry(default=None, kind=LOW, help="the least that a weight may be", kw_only=True)
    high: float | None = entry(default=None, kind=HIGH, help="the most that a weight may be", kw_only=True)

    def boxed(self, columns: PenalisedColumns, r: float) -> Penalty | None:
        """r ||w||_1 + (1 - r)/2 ||w||^2 between these numbers, but for the constant; None if there are none."""
        low, high = -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high
        if low == -math.inf and high == math.inf:
            return None
        end = np.full(int(columns.constant), math.inf)
        lows, highs = np.full(columns.features, low), np.full(columns.features, high)
        return Boxed(self, r, np.append(lows, -end), np.append(highs, end))
