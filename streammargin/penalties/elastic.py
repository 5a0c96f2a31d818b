"""The elastic net (Zou and Hastie 2005): l1 plus squared l2."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streammargin.penalties.base import RATIO, ByEntry, PenalisedColumns, Penalty, Pieces, Square, shrink, single
from streammargin.penalties.domains import Bounded
from streammargin.penalties.mirror_maps import Shrunk, lp_norm
from streammargin.penalties.norms import L1
from streammargin.words import entry


class ElasticNet(ByEntry, Bounded, Square):
    """r ||w||_1 + (1 - r)/2 ||w||^2, r the l1_ratio: weights become 0, and columns that go together share theirs.

    The fields low and high keep each weight between two numbers, low <= w_j <= high, but not that of the constant.
    """

    name = "elasticnet"
    l1_ratio: float = entry(0.5, RATIO, "r, the share of the l1 norm; 1 is the penalty l1")

    def of_columns(self, columns: PenalisedColumns) -> Penalty:
        return self.boxed(columns, self.l1_ratio) or (L1() if self.l1_ratio == 1.0 else self)

    def value(self, w: np.ndarray) -> float:
        size = lp_norm(w, 2.0)
        return self.l1_ratio * float(np.abs(w).sum()) + 0.5 * (1.0 - self.l1_ratio) * size * size

    def gauge(self, theta: np.ndarray) -> float:
        return lp_norm(shrink(theta, self.l1_ratio), 2.0) / math.sqrt(1.0 - self.l1_ratio)

    def zero_factor(self, theta: np.ndarray) -> float:
        return self.l1_ratio * L1().zero_factor(theta)

    def stretch(self, size: int) -> float:
        return 1.0 / math.sqrt(1.0 - self.l1_ratio)

    @property
    def norm(self) -> Any:
        return Shrunk(self.l1_ratio, 1.0 - self.l1_ratio)

    def mirror(self, theta: np.ndarray) -> np.ndarray:
        return shrink(theta.astype(np.float64), self.l1_ratio) / (1.0 - self.l1_ratio)

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        return shrink(v, steps * self.l1_ratio) / (1.0 + steps * (1.0 - self.l1_ratio))

    def pieces(self, size: int) -> tuple[np.ndarray, Pieces] | None:
        return single(size, self.l1_ratio, 1.0 - self.l1_ratio)


PENALTIES = (ElasticNet,)
