"""The elastic net (Zou and Hastie 2005): few weights, and their squares small."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from streammargin.penalties.base import Given, Maker, Penalty, Pieces, Square, shrink, single
from streammargin.penalties.mirror_maps import Shrunk, lp_norm
from streammargin.penalties.norms import L1

HALF = 0.5  # the l1_ratio where none is given


@dataclass(frozen=True)
class ElasticNet(Square):
    """R(w) = r ||w||_1 + (1 - r)/2 ||w||_2^2, 0 <= r < 1."""

    r: float
    name: ClassVar[str] = "elasticnet"

    def value(self, w: np.ndarray) -> float:
        size = lp_norm(w, 2.0)
        return self.r * float(np.abs(w).sum()) + 0.5 * (1.0 - self.r) * size * size

    def gauge(self, theta: np.ndarray) -> float:
        return lp_norm(shrink(theta, self.r), 2.0) / math.sqrt(1.0 - self.r)

    def wakes(self, theta: np.ndarray) -> float:
        return self.r * L1().wakes(theta)

    def stretch(self, size: int) -> float:
        return 1.0 / math.sqrt(1.0 - self.r)

    @property
    def norm(self) -> Any:
        return Shrunk(self.r, 1.0 - self.r)

    def mirror(self, theta: np.ndarray) -> np.ndarray:
        return shrink(theta.astype(np.float64), self.r) / (1.0 - self.r)

    def even(self, steps: np.ndarray) -> np.ndarray:
        return steps

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        return shrink(v, steps * self.r) / (1.0 + steps * (1.0 - self.r))

    def pieces(self, size: int) -> tuple[np.ndarray, Pieces] | None:
        return single(size, self.r, 1.0 - self.r)


def _make(given: Given) -> Penalty:
    r = HALF if given.l1_ratio is None else given.l1_ratio
    return L1() if r == 1.0 else ElasticNet(r)


PENALTIES = {"elasticnet": Maker(_make, ("l1_ratio",))}
