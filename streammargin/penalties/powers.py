"""Powers of norms: V(||w||) for V(z) = z^p / p, with the prox by bisection (Pdprox paper, Lemma 16)."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from streammargin.errors import UsageError
from streammargin.kinds import Number
from streammargin.penalties.base import Gauged, Norm, Penalty
from streammargin.penalties.singular import EPS
from streammargin.words import entry

BISECTION_WIDTH = 4.0 * EPS  # relative width at which the bisection ends
TRIES = 200  # most evaluations of it

POWER = entry(
    None, Number("a number above 1, at most 2", lambda value: 1.0 < value <= 2.0, metavar="P"),
    "p: the norm to the power of p, divided by p; none: the norm itself", kw_only=True,
)  # fmt: skip


class Power(Gauged):
    """R* is gauge^q / q, finite everywhere."""

    @property
    @abstractmethod
    def q(self) -> float:
        """The exponent of the conjugate, at least 2."""

    def conjugate(self, theta: np.ndarray) -> float:
        with np.errstate(over="ignore"):
            return float(np.power(self.gauge(theta), self.q)) / self.q

    def bound(self, gain: float, theta: np.ndarray, blur: float, rounding: float) -> float:
        gauge = self.longest(theta, blur) * (1.0 + rounding)
        if not 0.0 < gain < math.inf or not gauge < math.inf:
            return 0.0
        # the best factor s has s^(q-1) = gain / gauge^q
        share = (math.log(gain) - self.q * math.log(gauge)) / (self.q - 1.0) if gauge > 0.0 else 0.0
        part = math.exp(min(share, 0.0))
        return max(0.0, part * gain - math.pow(part * gauge, self.q) / self.q * (1.0 + 8.0 * self.q * EPS))


class PowerOfNorm(Power):
    """R(w) = N(w)^p / p of a norm N."""

    base: Norm
    p: float

    @property
    def q(self) -> float:
        return self.p / (self.p - 1.0)

    def __str__(self) -> str:
        return f"{self.base.name}:power={self.p:g}"

    @property
    def of_lines(self) -> bool:
        return self.base.of_lines

    @property
    def groups(self) -> Any:
        """The groups of the norm, which a model has for `verify`; None if it has none."""
        return getattr(self.base, "groups", None)

    def value(self, w: np.ndarray) -> float:
        return self.base.value(w) ** self.p / self.p

    def gauge(self, theta: np.ndarray) -> float:
        return self.base.gauge(theta)

    def stretch(self, size: int) -> float:
        return self.base.stretch(size)

    def even(self, steps: np.ndarray) -> np.ndarray:
        return self.base.even(steps)

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """The prox of eta N, for the eta with eta = V'(N(w)), which falls as eta grows: halves and secants by turns."""
        low, high = 0.0, self.base.value(v) ** (self.p - 1.0)
        above, below, halve = high, -high, True
        for _ in range(TRIES):
            if not high - low > BISECTION_WIDTH * high:
                break
            eta = low + 0.5 * (high - low) if halve else low + above / (above - below) * (high - low)
            halve = not halve
            if not low < eta < high:
                continue
            found = self.base.value(self.base.prox(v, eta * steps)) ** (self.p - 1.0) - eta
            if found > 0.0:
                low, above = eta, found
            else:
                high, below = eta, found
        return self.base.prox(v, high * steps) if high > 0.0 else v.copy()


def powered(norm: Norm, p: float, l1_ratio: float = 1.0) -> Penalty:
    """The power of a norm. Raises UsageError beside a share of the ridge."""
    if l1_ratio != 1.0:
        raise UsageError("the field power of a penalty is of its norm alone; leave l1_ratio out")
    return PowerOfNorm(norm, p)
