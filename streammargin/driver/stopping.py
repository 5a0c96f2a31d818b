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
        self._previous = [math.inf] * count
        self._prediction = [math.inf] * count
        self._calibration = [1.0] * count
        self._since = 0
        self._patience = 32

    def due(self, estimate: np.ndarray, active: np.ndarray) -> bool:
        """Whether every active problem is now believed to be within the tolerance."""
        believed = True
        for k in active.tolist():  # plain numbers: for the usual few problems, array operations would cost more
            now, before = float(estimate[k]), self._previous[k]
            ratio = min(max(now / before, 0.0), 1.0) if 0.0 < before < math.inf else 1.0
            self._previous[k] = now
            self._prediction[k] = now * math.sqrt(ratio)
            believed = believed and self._prediction[k] * self._calibration[k] <= self.tol
        self._since += 1
        # an estimate may be wrong in either direction; exact figures come now and then whatever it says
        return believed or self._since >= self._patience

    def learn(self, gaps: np.ndarray, active: np.ndarray) -> None:
        """Exact relative gaps (K,) from a certificate."""
        if self._since >= self._patience:
            self._patience = 64
        self._since = 0
        for k in active.tolist():
            if 0.0 < self._prediction[k] < math.inf and 0.0 < gaps[k] < math.inf:
                self._calibration[k] = float(gaps[k]) / self._prediction[k]
