"""The base class of penalties, and those of norms and of squared norms."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streammargin.kinds import Number
from streammargin.words import Thing

TINY = 1e-300
RATIO = Number("a number from 0 to 1", lambda value: 0.0 <= value <= 1.0)


class PenalisedColumns(NamedTuple):
    """The penalised columns: their number d, and a function that reads the groups (m,) of all.

    constant: whether the constant column is one more of them, the last. lines: of weights that share one objective.
    """

    features: int
    groups: Callable[[Any], np.ndarray]
    constant: bool = False
    lines: int = 1


class Pieces(NamedTuple):
    """A penalty as a sum over blocks of columns: thresholds_b ||w_b||_2 + cuts_b ||w_b||_1 + ridges_b / 2 ||w_b||_2^2.

    Block b has the columns from starts[b] to starts[b + 1]. starts (B+1,), the others (B,).
    """

    starts: np.ndarray
    thresholds: np.ndarray
    ridges: np.ndarray
    cuts: np.ndarray


class PenaltyWord(Thing, ABC):
    """A word of `penalty`; the penalty itself may depend on the columns."""

    @property
    def of_lines(self) -> bool:
        """Whether it joins the weights of several outputs, so that its arrays are (lines, m) in place of (m,)."""
        return False

    @abstractmethod
    def of_columns(self, columns: PenalisedColumns) -> Penalty:
        """The penalty for these columns."""


class Penalty(PenaltyWord):
    """R(w) >= 0, convex, R(0) = 0, of weights (m,), and its conjugate R*(theta) of theta (m,).

    Without a closed form there is no `prox`. If R is not strongly convex there is no `mirror` and no `norm`.

    Its fields are those of the word; the first line of its docstring is its help.

    Where it is `of_lines` all arrays (m,) are (lines, m): a line of weights for each output.
    """

    def of_columns(self, columns: PenalisedColumns) -> Penalty:
        return self

    @abstractmethod
    def value(self, w: np.ndarray) -> float:
        """R(w)."""

    @abstractmethod
    def conjugate(self, theta: np.ndarray) -> float:
        """R*(theta) = sup over w of theta.w - R(w); inf if theta is not feasible."""

    @abstractmethod
    def bound(self, gain: float, theta: np.ndarray, blur: float, rounding: float) -> float:
        """A lower bound on the maximum over 0 <= s <= 1 of s gain - R*(s theta).

        gain: the loss part of the dual objective of alpha. For losses >= 0 the duals s alpha have at least s gain.
        blur: ||.||_2 of the error of theta (m,); rounding: relative error of a sum over the columns, or of the gauge's
        square. The bound holds for any such errors.
        """

    def part(self, theta: np.ndarray, blur: float, rounding: float) -> float:
        """The largest known factor s <= 1 for which R* is finite near s theta; arguments as of `bound`."""
        return 1.0

    def zero_factor(self, theta: np.ndarray) -> float:
        """The largest factor s with R*(s theta) = 0, up to which w = 0 is optimal; 0 if there is none."""
        return 0.0

    @property
    def nbytes(self) -> int:
        """Bytes of the vectors that it keeps, which the memory plan counts."""
        return sum(getattr(value, "nbytes", 0) for value in vars(self).values())

    def inside(self, w: np.ndarray) -> np.ndarray:
        """The nearest weights for which R is finite, of w (m,) that rounding may have led away from there."""
        return w

    @property
    def norm(self) -> Any:
        """The penalty for kernels (penalties/mirror_maps.py); None if coordinate ascent does not support it."""
        return None

    def powers(self, theta: np.ndarray) -> np.ndarray:
        """The vector (m,) that `norm` keeps beside theta (m,), if it keeps one."""
        raise NotImplementedError

    def mirror(self, theta: np.ndarray) -> np.ndarray:
        """argmax over w of theta.w - R(w), float64; for penalties with a `norm`."""
        raise NotImplementedError

    @property
    def proximal(self) -> bool:
        """Whether there is a `prox`."""
        return True

    def even(self, steps: np.ndarray) -> np.ndarray:
        """The largest steps (m,) <= `steps` that `prox` supports; by default one step for all columns."""
        return np.full(steps.shape, steps.min(initial=math.inf))

    def pieces(self, size: Any) -> tuple[np.ndarray, Pieces] | None:
        """(order, Pieces): the penalty as a sum over blocks of reordered columns; None if it is not one.

        size: the number m of columns, or the shape (lines, m) of which `order` numbers the entries, line by line.
        """
        return None

    @abstractmethod
    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """argmin over w of R(w) + sum_j (w_j - v_j)^2 / (2 steps_j), a new array; steps (m,) > 0 as of `even`."""


class ByEntry(Penalty):
    """A penalty whose `prox` takes a step of its own for each entry."""

    def even(self, steps: np.ndarray) -> np.ndarray:
        return steps


class Gauged(Penalty):
    """R* is a function of one number, the gauge: gauge(theta + e) <= gauge(theta) + stretch(m) ||e||_2."""

    @abstractmethod
    def gauge(self, theta: np.ndarray) -> float:
        """The dual norm of theta (m,), or sqrt(2 R*(theta)) for a `Square`."""

    def stretch(self, size: int) -> float:
        """The Lipschitz constant of the gauge with respect to ||.||_2, for vectors (size,)."""
        return 1.0

    def longest(self, theta: np.ndarray, blur: float) -> float:
        """The gauge at most, if theta may be off by so much."""
        return self.gauge(theta) + blur * self.stretch(theta.size)


class Norm(Gauged):
    """A norm: R* is 0 on the unit ball of the dual norm, and inf outside of it."""

    def conjugate(self, theta: np.ndarray) -> float:
        return 0.0 if self.gauge(theta) <= 1.0 else math.inf

    def bound(self, gain: float, theta: np.ndarray, blur: float, rounding: float) -> float:
        return max(0.0, gain * self.part(theta, blur, rounding))

    def part(self, theta: np.ndarray, blur: float, rounding: float) -> float:
        return 1.0 / max(1.0, self.longest(theta, blur) * (1.0 + rounding))

    def zero_factor(self, theta: np.ndarray) -> float:
        return 1.0 / max(self.gauge(theta), TINY)


class Square(Gauged):
    """R* is half a square, finite everywhere."""

    def conjugate(self, theta: np.ndarray) -> float:
        return 0.5 * self.gauge(theta) ** 2

    def bound(self, gain: float, theta: np.ndarray, blur: float, rounding: float) -> float:
        gauge = self.longest(theta, blur)
        return gain - 0.5 * gauge * gauge * (1.0 + rounding)


def single(size: int, threshold: float, ridge: float) -> tuple[np.ndarray, Pieces]:
    """`pieces` of a penalty that is a sum over columns."""
    each = (np.full(size, threshold), np.full(size, ridge), np.zeros(size))
    return np.arange(size), Pieces(np.arange(size + 1), *each)


def shrink(v: np.ndarray, by: float | np.ndarray) -> np.ndarray:
    """sign(v) (|v| - by)_+."""
    return np.sign(v) * np.maximum(np.abs(v) - by, 0.0)
