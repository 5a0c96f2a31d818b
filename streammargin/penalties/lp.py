"""1/2 ||w||_p^2, the penalty of the lp-norm perceptron paper; l2 is p = 2."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from streammargin.errors import UsageError
from streammargin.kinds import exponent
from streammargin.penalties.base import ByEntry, PenalisedColumns, Penalty, Pieces, Square, single
from streammargin.penalties.domains import HIGH, Ball, Bounded
from streammargin.penalties.mirror_maps import lp_norm, make_norm, mirror, resolve_p
from streammargin.words import entry


class LpSquare(ByEntry, Square):
    """1/2 ||w||_p^2, R*(theta) = 1/2 ||theta||_q^2; a prox for p = 2 only."""

    p: ClassVar[Any]

    @property
    def q(self) -> float:
        """The dual exponent."""
        return self.p / (self.p - 1.0)

    def value(self, w: np.ndarray) -> float:
        size = lp_norm(w, self.p)
        return 0.5 * size * size

    def gauge(self, theta: np.ndarray) -> float:
        return lp_norm(theta, self.q)

    @property
    def norm(self) -> Any:
        return make_norm(self.p)

    def powers(self, theta: np.ndarray) -> np.ndarray:
        return np.sign(theta) * np.abs(theta) ** (self.q - 1.0)

    def mirror(self, theta: np.ndarray) -> np.ndarray:
        return mirror(theta, self.q)

    @property
    def proximal(self) -> bool:
        return self.p == 2.0

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        assert self.proximal, "no closed form"
        return v / (1.0 + steps)

    def pieces(self, size: int) -> tuple[np.ndarray, Pieces] | None:
        return single(size, 0.0, 1.0) if self.p == 2.0 else None


class L2(Bounded, LpSquare):
    """1/2 ||w||^2: the penalty of support vector machines, ridge and most logistic regressions.

    The fields low and high keep each weight between two numbers, low <= w_j <= high, but not that of the constant. The
    field radius keeps the length of all others at most so large.
    """

    name = "l2"
    p: ClassVar[Any] = 2.0
    radius: float | None = entry(None, HIGH, "the most that ||w|| may be", kw_only=True)

    def checked(self) -> L2:
        found = super().checked()
        if found.radius is not None and (found.low, found.high) != (None, None):
            raise UsageError("l2 takes low and high, or a radius, not both")
        return found

    def of_columns(self, columns: PenalisedColumns) -> Penalty:
        if self.radius is not None and self.radius < math.inf:
            return Ball(self, self.radius, int(columns.constant))
        return self.boxed(columns, 0.0) or self


class Lp(LpSquare):
    """1/2 ||w||_p^2: between l2, p = 2, and the square of l1, if few columns tell the rows apart."""

    name = "lp"
    p: float | str = entry(2.0, exponent(), "1 < p <= 2; sparse: p = 1 + 1/ln d of d columns")  # type: ignore[misc]

    def of_columns(self, columns: PenalisedColumns) -> Penalty:
        return Lp(resolve_p(self.p, columns.features))


PENALTIES = (L2, Lp)
