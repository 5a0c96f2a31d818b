"""Norms as penalties (Pdprox paper, section 4.4): l1 gives few nonzero weights, linf few different sizes.

Their prox is v minus its projection on a ball of the dual norm (Moreau's decomposition).
"""

from __future__ import annotations

import numpy as np

from streammargin.penalties.base import ByEntry, Norm, PenalisedColumns, Penalty, Pieces, shrink, single
from streammargin.penalties.domains import Bounded
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.penalties.powers import POWER, powered


class L1(ByEntry, Bounded, Norm):
    """sum |w_j|: many weights become 0.

    The fields low and high keep each weight between two numbers, low <= w_j <= high, but not that of the constant.
    """

    name = "l1"

    def of_columns(self, columns: PenalisedColumns) -> Penalty:
        return self.boxed(columns, 1.0) or self

    def value(self, w: np.ndarray) -> float:
        return float(np.abs(w).sum())

    def gauge(self, theta: np.ndarray) -> float:
        return float(np.abs(theta).max(initial=0.0))

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        return shrink(v, steps)

    def pieces(self, size: int) -> tuple[np.ndarray, Pieces] | None:
        return single(size, 1.0, 0.0)


class L2Norm(Norm):
    """||w||_2, not squared: all weights become 0 at a small C."""

    name = "l2norm"
    power: float | None = POWER

    def of_columns(self, columns: PenalisedColumns) -> Penalty:
        return self if self.power is None else powered(L2Norm(), self.power)

    def value(self, w: np.ndarray) -> float:
        return lp_norm(w, 2.0)

    def gauge(self, theta: np.ndarray) -> float:
        return lp_norm(theta, 2.0)

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        size = lp_norm(v, 2.0)
        return v * max(0.0, 1.0 - steps[0] / size) if size > 0.0 else v.copy()


class Linf(ByEntry, Norm):
    """max |w_j|: many weights take the same size."""

    name = "linf"
    power: float | None = POWER

    def of_columns(self, columns: PenalisedColumns) -> Penalty:
        return self if self.power is None else powered(Linf(), self.power)

    def value(self, w: np.ndarray) -> float:
        return float(np.abs(w).max(initial=0.0))

    def gauge(self, theta: np.ndarray) -> float:
        return float(np.abs(theta).sum())

    def stretch(self, size: int) -> float:
        return float(np.sqrt(size))

    def prox(self, v: np.ndarray, steps: np.ndarray) -> np.ndarray:
        # sizes are clipped at h with sum (|v_j| - h)_+ / steps_j = 1; h is the largest h_k from the k largest sizes
        sizes = np.abs(v)
        order = np.argsort(-sizes)
        shares = 1.0 / steps[order]
        heights = (np.cumsum(shares * sizes[order]) - 1.0) / np.cumsum(shares)
        height = heights.max(initial=0.0)
        return np.clip(v, -height, height)


PENALTIES = (L1, L2Norm, Linf)
