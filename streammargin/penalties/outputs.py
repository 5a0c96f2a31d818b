"""Penalties that join several outputs: their arrays are (lines, m), a line of weights for each output.

l21 and l1inf (Pdprox paper, section 4.4) leave out columns for all outputs at once. `trace`, the sum of the singular
values, leaves few directions in which all outputs lie (Fazel, Hindi and Boyd 2001).
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.penalties.base import RATIO, ByEntry, Norm, PenalisedColumns, Penalty, PenaltyWord, Pieces, Square
from streammargin.penalties.elastic import ElasticNet
from streammargin.penalties.lines import EachLine
from streammargin.penalties.lp import L2
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.penalties.norms import L1, L2Norm
from streammargin.penalties.powers import POWER, powered
from streammargin.penalties.singular import EPS, nuclear_bound, spectral_bound, thresholded
from streammargin.words import entry

RATIO_HELP = "r, the share of the norm; the rest is 1/2 ||W||^2, the sum of all squares"


def column_lengths(V: np.ndarray) -> np.ndarray:
    """||V_j||_2 of each column of V (lines, m), without overflow of the squares."""
    top = float(np.abs(V).max(initial=0.0))
    return top * np.sqrt(np.sum((V / top) ** 2, axis=0)) if 0.0 < top < math.inf else np.full(V.shape[1], top)


def _cumulated(sizes: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cumulative sums of both arrays down each column, from the largest of `sizes` (lines, m) on."""
    order = np.argsort(-sizes, axis=0)
    one, other = (np.cumsum(np.take_along_axis(part, order, axis=0), axis=0) for part in (first, second))
    return one, other


class OfLines(Penalty):
    """A penalty of weights (lines, m)."""

    @property
    def of_lines(self) -> bool:
        return True


class ColumnLengths(OfLines, Norm):
    """R(W) = sum over the columns of their lengths."""

    name = "l21"

    def value(self, w: np.ndarray) -> float:
        return float(column_lengths(w).sum())

    def gauge(self, theta: np.ndarray) -> float:
        return float(column_lengths(theta).max(initial=0.0))

    def even(self, steps: np.ndarray) -> np.ndarray:
        return np.broadcast_to(steps.min(axis=0, initial=math.inf), steps.shape)

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        lengths = column_lengths(v)
        parts = np.divide(steps[0], lengths, out=np.ones(lengths.size), where=lengths > 0.0)
        return v * np.maximum(1.0 - parts, 0.0)

    def pieces(self, size: tuple[int, int]) -> tuple[np.ndarray, Pieces] | None:
        lines, m = size
        order = np.arange(lines * m).reshape(size).T.ravel()
        return order, Pieces(np.arange(m + 1) * lines, np.ones(m), np.zeros(m), np.zeros(m))


class ColumnSizes(ByEntry, OfLines, Norm):
    """R(W) = sum over the columns of their largest entry."""

    name = "l1inf"

    def value(self, w: np.ndarray) -> float:
        return float(np.abs(w).max(axis=0, initial=0.0).sum())

    def gauge(self, theta: np.ndarray) -> float:
        return float(np.abs(theta).sum(axis=0).max(initial=0.0))

    def stretch(self, size: int) -> float:
        return math.sqrt(size)

    def longest(self, theta: np.ndarray, blur: float) -> float:
        return self.gauge(theta) + blur * math.sqrt(len(theta))  # that of a column of an error, not of all of it

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        # as of linf, column by column: clipped at the largest height from the k largest sizes
        sizes, shares = np.abs(v), 1.0 / steps
        summed, all_shares = _cumulated(sizes, shares * sizes, shares)
        heights = ((summed - 1.0) / all_shares).max(axis=0, initial=0.0)
        return np.clip(v, -heights, heights)


class SingularValues(OfLines, Norm):
    """R(W) = the sum of the singular values."""

    name = "trace"

    def value(self, w: np.ndarray) -> float:
        return nuclear_bound(w)

    def gauge(self, theta: np.ndarray) -> float:
        return spectral_bound(theta)

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        return thresholded(v, float(steps.min(initial=math.inf)))


class ExclusiveColumns(ByEntry, OfLines, Square):
    """R(W) = 1/2 sum over the columns of ||W_j||_1^2, R*(T) = 1/2 sum of ||T_j||_inf^2."""

    name = "exclusive"

    def value(self, w: np.ndarray) -> float:
        return 0.5 * lp_norm(np.abs(w).sum(axis=0), 2.0) ** 2

    def gauge(self, theta: np.ndarray) -> float:
        return lp_norm(np.abs(theta).max(axis=0, initial=0.0), 2.0)

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        # as of ExclusiveLasso, column by column
        sizes = np.abs(v)
        summed, stepped = _cumulated(sizes / steps, sizes, steps)
        s = (summed / (1.0 + stepped)).max(axis=0, initial=0.0)
        return np.sign(v) * np.maximum(sizes - steps * s, 0.0)


class Net(Square):
    """r R(w) + (1 - r)/2 ||w||_2^2 of a norm R, 0 < r < 1: R*(theta) = ||theta - S||_2^2 / (2 (1 - r)).

    S is the nearest to theta with dual norm at most r; theta - S is the prox of r R.
    """

    base: Norm
    r: float

    def __str__(self) -> str:
        return f"{self.base.name}:{self.r:g}"

    @property
    def of_lines(self) -> bool:
        return self.base.of_lines

    def value(self, w: np.ndarray) -> float:
        size = lp_norm(w.ravel(), 2.0)
        return self.r * self.base.value(w) + 0.5 * (1.0 - self.r) * size * size

    def gauge(self, theta: np.ndarray) -> float:
        near = theta - self.base.prox(theta, np.full(theta.shape, self.r))
        part = min(1.0, self.r / max(self.base.gauge(near), self.r))  # any S in the ball is a bound
        return lp_norm((theta - part * near).ravel(), 2.0) / math.sqrt(1.0 - self.r)

    def longest(self, theta: np.ndarray, blur: float) -> float:
        return super().longest(theta, blur + 2.0 * EPS * lp_norm(theta.ravel(), 2.0))  # S rounds as well

    def stretch(self, size: int) -> float:
        return 1.0 / math.sqrt(1.0 - self.r)

    def zero_factor(self, theta: np.ndarray) -> float:
        return self.r * self.base.zero_factor(theta)

    def even(self, steps: np.ndarray) -> np.ndarray:
        return self.base.even(steps)

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        rest = 1.0 + steps * (1.0 - self.r)
        return self.base.prox(v / rest, self.r * steps / rest)

    def pieces(self, size: tuple[int, int]) -> tuple[np.ndarray, Pieces] | None:
        found = self.base.pieces(size)
        if found is None:
            return None
        order, (starts, thresholds, ridges, cuts) = found
        return order, Pieces(starts, self.r * thresholds, self.r * ridges + 1.0 - self.r, self.r * cuts)


def net(base: Norm, r: float) -> Penalty:
    """r R(W) + (1 - r)/2 ||W||^2, 0 <= r <= 1."""
    if r == 0.0:
        ridge = L2(radius=None)
        return EachLine.of(ridge) if base.of_lines else ridge
    return base if r == 1.0 else Net(base, r)


class Joining(PenaltyWord):
    """A word of a norm that joins outputs: `joined` of several, `alone` of a single one."""

    joined: ClassVar[type[Norm]]
    alone: ClassVar[type[Norm]] = L1
    l1_ratio: float = entry(1.0, RATIO, RATIO_HELP)
    power: float | None = POWER

    @property
    def of_lines(self) -> bool:
        return True

    def of_columns(self, columns: PenalisedColumns) -> Penalty:
        norm = (self.alone if columns.lines == 1 else self.joined)()
        if self.power is not None:
            return powered(norm, self.power, self.l1_ratio)
        return ElasticNet(self.l1_ratio).of_columns(columns) if isinstance(norm, L1) else net(norm, self.l1_ratio)


class L21(Joining):
    """r sum over the columns of ||w_j||_2, w_j the weights of all outputs: a column is 0 for all of them, or for none.

    With one output it is elasticnet, and l1 at an l1_ratio of 1.
    """

    joined = ColumnLengths


class L1inf(Joining):
    """r sum over the columns of max |w_j|, w_j the weights of all outputs: a column costs as its largest weight.

    With one output it is elasticnet, and l1 at an l1_ratio of 1.
    """

    joined = ColumnSizes


class Trace(Joining):
    """r times the sum of the singular values of W: all outputs are mixtures of a few.

    With one output it is the length of w, l2norm at an l1_ratio of 1.
    """

    joined = SingularValues
    alone = L2Norm


PENALTIES = (L21, L1inf, Trace)
