"""A penalty of several lines of weights that is the sum of one penalty over the lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from streammargin.errors import UsageError
from streammargin.penalties.base import Gauged, Norm, Penalty, Pieces, Square
from streammargin.penalties.domains import Domain
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.penalties.powers import Power, PowerOfNorm


class EachLine(Penalty):
    """R(W) = the sum of `each` over the lines of W (lines, m). `EachLine.of` makes one of any penalty."""

    each: Any

    @staticmethod
    def of(each: Penalty) -> Penalty:
        """The sum of this penalty over lines; raises UsageError if its bounds do not add up."""
        if isinstance(each, Domain):
            return DomainOfLines(each.word, each)
        if isinstance(each, Norm):
            return NormOfLines(each)
        if isinstance(each, Square):
            return SquareOfLines(each)
        if isinstance(each, PowerOfNorm):
            return PowerOfLines(each)
        raise UsageError(
            f"the penalty {each} cannot be summed up over several outputs; a penalty of your own can be if it derives "
            "from Norm or Square of streammargin.penalties.base"
        )

    def __str__(self) -> str:
        return str(self.each)

    @property
    def of_lines(self) -> bool:
        return True

    @property
    def proximal(self) -> bool:
        return self.each.proximal

    def value(self, w: np.ndarray) -> float:
        return sum(self.each.value(line) for line in w)

    def conjugate(self, theta: np.ndarray) -> float:
        return sum(self.each.conjugate(line) for line in theta)

    def part(self, theta: np.ndarray, blur: float, rounding: float) -> float:
        return min(self.each.part(line, blur, rounding) for line in theta)

    def zero_factor(self, theta: np.ndarray) -> float:
        return min(self.each.zero_factor(line) for line in theta)

    def inside(self, w: np.ndarray) -> np.ndarray:
        return np.stack([self.each.inside(line) for line in w])

    def mirror(self, theta: np.ndarray) -> np.ndarray:
        return np.stack([self.each.mirror(line) for line in theta])

    def even(self, steps: np.ndarray) -> np.ndarray:
        return np.stack([self.each.even(line) for line in steps])

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        return np.stack([self.each.prox(*pair) for pair in zip(v, steps, strict=True)])

    def pieces(self, size: tuple[int, int]) -> tuple[np.ndarray, Pieces] | None:
        lines, m = size
        found = self.each.pieces(m)
        if found is None:
            return None
        order, (starts, *parts) = found
        orders = np.concatenate([order + k * m for k in range(lines)])
        bounds = np.concatenate([starts[:1], *(starts[1:] + k * m for k in range(lines))])
        return orders, Pieces(bounds, *(np.tile(part, lines) for part in parts))


class GaugedLines(EachLine, Gauged):
    """A norm or a square over the lines."""

    each: Any

    def gauges(self, theta: np.ndarray) -> Iterable[float]:
        """The gauges of the lines."""
        return (self.each.gauge(line) for line in theta)

    def stretch(self, size: int) -> float:
        return self.each.stretch(size)  # no line is longer than all together


class NormOfLines(GaugedLines, Norm):
    """The sum of a norm over the lines: its dual norm is the largest of theirs."""

    each: Norm

    def gauge(self, theta: np.ndarray) -> float:
        return max(self.gauges(theta))


class SquareOfLines(GaugedLines, Square):
    """The sum of a square over the lines: the squares of the gauges add up."""

    each: Square

    def gauge(self, theta: np.ndarray) -> float:
        return lp_norm(np.array(list(self.gauges(theta))), 2.0)


class PowerOfLines(GaugedLines, Power):
    """The sum of a power of a norm over the lines: the powers of the gauges add up."""

    each: PowerOfNorm

    @property
    def q(self) -> float:
        return self.each.q

    def gauge(self, theta: np.ndarray) -> float:
        return lp_norm(np.array(list(self.gauges(theta))), self.q)


class DomainOfLines(EachLine, Domain):
    """The sum of a penalty with a domain over the lines."""

    each: Domain

    def best(self, theta: np.ndarray) -> np.ndarray:
        return np.stack([self.each.best(line) for line in theta])

    def above(self, theta: np.ndarray, blur: float) -> float:
        return sum(self.each.above(line, blur) for line in theta)
