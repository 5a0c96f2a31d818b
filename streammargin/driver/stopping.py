"""Decides when a certificate, which costs a read of all rows, is likely to prove the tolerance."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Stopping:
    """Predicts the exact relative gap from the estimates of the passes, calibrated by each certificate.

    The estimate of a pass is summed while the weights change, so it lags behind. The prediction is the estimate times
    the square root of its ratio to the previous one. At each certificate the ratio of the exact gap to the prediction
    is measured; it multiplies later predictions.

    tol, absolute: the tolerance that was asked for; aim: the relative one that it amounts to.
    """

    count: int
    tol: float
    previous: list[float] = field(default_factory=list)
    prediction: list[float] = field(default_factory=list)
    calibration: list[float] = field(default_factory=list)
    since: int = 0
    patience: int = 32
    absolute: bool = False
    aim: float = 0.0

    def __post_init__(self) -> None:
        self.previous = self.previous or [math.inf] * self.count
        self.prediction = self.prediction or [math.inf] * self.count
        self.calibration = self.calibration or [1.0] * self.count
        self.aim = self.aim or self.tol

    def due(self, estimate: np.ndarray, active: np.ndarray) -> bool:
        """Whether a certificate is due: all active groups are predicted to be within `aim`, or `patience` is over."""
        believed = True
        for k in active.tolist():  # for the usual few groups plain numbers are faster than arrays
            now, before = float(estimate[k]), self.previous[k]
            ratio = min(max(now / before, 0.0), 1.0) if 0.0 < before < math.inf else 1.0
            self.previous[k] = now
            self.prediction[k] = now * math.sqrt(ratio)
            believed = believed and self.prediction[k] * self.calibration[k] <= self.aim
        self.since += 1
        # an estimate may be wrong in either direction, so a certificate is due after `patience` passes anyway
        return believed or self.since >= self.patience

    def learn(self, gaps: np.ndarray, active: np.ndarray) -> None:
        """Calibrate with the exact relative gaps (groups,) of a certificate."""
        if self.since >= self.patience:
            self.patience = 64
        self.since = 0
        for k in active.tolist():
            if 0.0 < self.prediction[k] < math.inf and 0.0 < gaps[k] < math.inf:
                self.calibration[k] = float(gaps[k]) / self.prediction[k]
