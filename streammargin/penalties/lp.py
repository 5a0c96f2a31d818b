"""1/2 ||w||_p^2, the penalty of the lp-norm perceptron paper; its l2 is that of p = 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from streammargin.penalties.base import Maker, Pieces, Square, single
from streammargin.penalties.mirror_maps import lp_norm, make_norm, mirror


@dataclass(frozen=True)
class LpSquare(Square):
    """R(w) = 1/2 ||w||_p^2, R*(theta) = 1/2 ||theta||_q^2; a prox for p = 2 only."""

    p: float
    name: ClassVar[str] = "lp"

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

    def even(self, steps: np.ndarray) -> np.ndarray:
        return steps

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        assert self.proximal, "no closed form"
        return v / (1.0 + steps)

    def pieces(self, size: int) -> tuple[np.ndarray, Pieces] | None:
        return single(size, 0.0, 1.0) if self.p == 2.0 else None


PENALTIES = {
    "lp": Maker(lambda given: LpSquare(given.norm), ("norm",)),
    "l2": Maker(lambda given: LpSquare(2.0)),
}
