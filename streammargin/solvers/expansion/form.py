"""The dual problem of one line: its coefficients have bounds, a slope, a kink at 0 and a bend."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from streammargin.rows.labels import RowLabels
from streammargin.solvers.problem import Problem
from streammargin.solvers.state import VECTOR_CHUNK_ROWS, labels_for

MOST_COEFFICIENT = 1e12  # of a coefficient of a hard margin, if K may not be positive semidefinite


class Form(NamedTuple):
    """Of the rows (n,): sign y, target (0 of classes), cap, and of their coefficients t, low, high, bend.

    The dual objective is the sum of t b - (under if b > 0, else over) |b| - bend b^2 / 2, minus b.K b / 2.
    hard: of a hard margin, C = inf.
    """

    sign: np.ndarray
    target: np.ndarray
    caps: np.ndarray
    t: np.ndarray
    low: np.ndarray
    high: np.ndarray
    bend: np.ndarray
    over: float
    under: float
    hard: bool

    def at(self, rows: np.ndarray | slice) -> Form:
        """The same of some of the rows."""
        sign, target, caps, t, low, high, bend = (one[rows] for one in self[:7])
        return Form(sign, target, caps, t, low, high, bend, self.over, self.under, self.hard)

    def bounded(self) -> Form:
        """The same with bounds for all coefficients: without them steps may not end, if K is not semidefinite.

        If it is, they change nothing: no loss of the optimum is above the losses of weights of 0.
        """
        bent = self.bend > 0.0
        squares = np.divide(1.0, self.bend, out=np.zeros(self.t.size), where=bent)
        most = np.where(bent, np.sqrt(squares * math.fsum(self.t**2 * squares)), MOST_COEFFICIENT)
        low, high = np.where(np.isinf(self.low), -most, self.low), np.where(np.isinf(self.high), most, self.high)
        return self._replace(low=low, high=high)

    def slopes(
        self, f: np.ndarray, b: np.ndarray, constant: float = 0.0
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """The derivatives of the dual along growing b, -inf at its bound, and along falling b, inf at its bound.

        They come by pieces, each after its rows, to avoid copies of length n.
        """
        for start in range(0, f.size, VECTOR_CHUNK_ROWS):
            rows = slice(start, start + VECTOR_CHUNK_ROWS)
            own, at = self if f.size <= VECTOR_CHUNK_ROWS else self.at(rows), b[rows]
            slope = own.t - f[rows] - own.bend * at - constant
            rise = np.where(at >= 0.0, slope - self.under, slope + self.over)
            fall = np.where(at > 0.0, slope - self.under, slope + self.over)
            yield rows, np.where(at < own.high, rise, -math.inf), np.where(at > own.low, fall, math.inf)

    def bounds(self, f: np.ndarray, b: np.ndarray) -> tuple[float, float]:
        """(largest rise, smallest fall): the constant of the optimum lies between them, once they have met."""
        up, down = -math.inf, math.inf
        for _, rise, fall in self.slopes(f, b):
            up, down = max(up, float(rise.max())), min(down, float(fall.min()))
        return up, down

    def violations(self, f: np.ndarray, b: np.ndarray, constant: float) -> np.ndarray:
        """How far each row is from its optimum at this constant; signed, as its coefficient may move."""
        out = np.empty(f.size)
        for rows, rise, fall in self.slopes(f, b, constant):
            out[rows] = np.where(rise > 0.0, rise, np.minimum(fall, 0.0))
        return out

    def slack(self, f: np.ndarray, constant: float) -> np.ndarray:
        """How far each row is from violating its optimum with a coefficient of 0; below 0: by how much it does."""
        slope = self.t - f - constant
        up = np.where(self.high > 0.0, self.under - slope, math.inf)
        return np.minimum(up, np.where(self.low < 0.0, slope + self.over, math.inf))

    def gain(self, b: np.ndarray) -> np.ndarray:
        """The terms of the dual objective that need no K."""
        return self.t * b - np.where(b > 0.0, self.under, self.over) * np.abs(b) - 0.5 * self.bend * b * b

    def gains(self, b: np.ndarray) -> tuple[float, float]:
        """The exact sum of these terms, and their size."""
        return math.fsum(self.gain(b)), math.fsum(np.abs(self.t * b)) + math.fsum(0.5 * self.bend * b * b)


def form_of(problem: Problem, labels: RowLabels, k: int) -> Form:
    """The form of line k for rows with these labels, all of which they are."""
    known, numeric = labels_for(labels, problem.outputs), problem.numeric
    caps = known.caps_of(k)
    low, high, slope, over, under, g = problem.loss.dual_form()
    sign = np.where(known.own_of(k) | numeric, 1.0, -1.0)
    target = labels.targets_of(k) if numeric else np.zeros(caps.size)
    down, up = _times(low, caps), _times(high, caps)
    flipped = sign < 0.0
    return Form(
        sign, target, caps, sign * slope + target, np.where(flipped, -up, down), np.where(flipped, -down, up),
        np.divide(g, caps, out=np.zeros(caps.size), where=caps > 0.0), over, under, problem.hard,
    )  # fmt: skip


def _times(bound: float, caps: np.ndarray) -> np.ndarray:
    """bound times the caps; 0 if one of them is 0, though the other be infinite."""
    return np.multiply(bound, caps, out=np.zeros(caps.size), where=(caps > 0.0) & (bound != 0.0))
