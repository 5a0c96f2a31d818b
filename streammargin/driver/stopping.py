"""When is a certificate pass worth its cost?"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Stopping:
    """Predicts the exact relative gap from the estimates of the passes, and learns from each certificate.

    The estimate of a pass was summed while the weights moved, so it lags behind: the next one will be
    smaller by about the square root of the last ratio. The ratio of the exact gap to the prediction,
    at the last certificate, calibrates what follows.
    """

    count: int
    tol: float
    previous: list[float] = field(default_factory=list)
    prediction: list[float] = field(default_factory=list)
    calibration: list[float] = field(default_factory=list)
    since: int = 0
    patience: int = 32

    def __post_init__(self) -> None:
        self.previous = self.previous or [math.inf] * self.count
        self.prediction = self.prediction or [math.inf] * self.count
        self.calibration = self.calibration or [1.0] * self.count

    def due(self, estimate: np.ndarray, active: np.ndarray) -> bool:
        """Whether every active problem is now believed to be within the tolerance."""
        believed = True
        for k in active.tolist():  # plain numbers: for the usual few problems, array operations would cost more
            now, before = float(estimate[k]), self.previous[k]
            ratio = min(max(now / before, 0.0), 1.0) if 0.0 < before < math.inf else 1.0
            self.previous[k] = now
            self.prediction[k] = now * math.sqrt(ratio)
            believed = believed and self.prediction[k] * self.calibration[k] <= self.tol
        self.since += 1
        # an estimate may be wrong in either direction; exact figures come now and then whatever it says
        return believed or self.since >= self.patience

    def learn(self, gaps: np.ndarray, active: np.ndarray) -> None:
        """Exact relative gaps (K,) from a certificate."""
        if self.since >= self.patience:
            self.patience = 64
        self.since = 0
        for k in active.tolist():
            if 0.0 < self.prediction[k] < math.inf and 0.0 < gaps[k] < math.inf:
                self.calibration[k] = float(gaps[k]) / self.prediction[k]
