"""When is a certificate pass worth its cost?"""

from __future__ import annotations

import math

import numpy as np


class Stopping:
    """Predicts the exact relative gap from the estimates of the passes, and learns from each certificate.

    The estimate of a pass was summed while the weights moved, so it lags behind: the next one will be
    smaller by about the square root of the last ratio. The ratio of the exact gap to the prediction,
    at the last certificate, calibrates what follows.
    """

    def __init__(self, count: int, tol: float) -> None:
        self.tol = tol
        self._previous = np.full(count, math.inf)
        self._prediction = np.full(count, math.inf)
        self._calibration = np.ones(count)
        self._since = 0
        self._patience = 32

    def due(self, estimate: np.ndarray, active: np.ndarray) -> bool:
        """Whether every active problem is now believed to be within the tolerance."""
        now = estimate[active]
        before = self._previous[active]
        ratio = np.ones_like(now)
        known = np.isfinite(before) & (before > 0.0)
        ratio[known] = np.clip(now[known] / before[known], 0.0, 1.0)
        self._prediction[active] = now * np.sqrt(ratio)
        self._previous[active] = now
        self._since += 1
        believed = bool(np.all(self._prediction[active] * self._calibration[active] <= self.tol))
        # an estimate may be wrong in either direction; exact figures come now and then whatever it says
        return believed or self._since >= self._patience

    def learn(self, gaps: np.ndarray, active: np.ndarray) -> None:
        """Exact relative gaps (K,) from a certificate."""
        if self._since >= self._patience:
            self._patience = 64
        self._since = 0
        for k in active:
            if 0.0 < self._prediction[k] < math.inf and 0.0 < gaps[k] < math.inf:
                self._calibration[k] = gaps[k] / self._prediction[k]
