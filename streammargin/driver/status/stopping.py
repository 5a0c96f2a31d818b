"""When a certificate is due, when early stopping ends, and when a warning says that nothing gets better."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from streammargin.compiled.jit import compile_seconds
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.kept import BestKept


@dataclass
class Stopping:
    """Predicts the exact relative gap from the estimates of the passes, calibrated by each certificate.

    The estimate of a pass is summed while the weights change, so it lags behind. The prediction is the estimate times
    the square root of its ratio to the previous one. At each certificate the ratio of the exact gap to the prediction
    is measured; it multiplies later predictions.

    tol, absolute: the tolerance that was asked for; aim: the relative one that it amounts to. idle: passes of groups
    that are predicted to be done, since the last certificate.
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
    idle: int = 0

    def __post_init__(self) -> None:
        self.previous = self.previous or [math.inf] * self.count
        self.prediction = self.prediction or [math.inf] * self.count
        self.calibration = self.calibration or [1.0] * self.count
        self.aim = self.aim or self.tol

    def due(self, estimate: np.ndarray, active: np.ndarray, cheap: bool = False) -> bool:
        """Whether a certificate is due: all active groups are predicted to be within `aim`, or `patience` is over.

        cheap: a certificate costs as much as a pass of all groups. Then it is due, too, once those that are predicted
        to be done have cost as much, as it ends their passes.
        """
        believed = 0
        for k in active.tolist():  # for the usual few groups plain numbers are faster than arrays
            now, before = float(estimate[k]), self.previous[k]
            ratio = min(max(now / before, 0.0), 1.0) if 0.0 < before < math.inf else 1.0
            self.previous[k] = now
            self.prediction[k] = now * math.sqrt(ratio)
            believed += self.prediction[k] * self.calibration[k] <= self.aim
        self.since += 1
        self.idle += believed
        # an estimate may be wrong in either direction, so a certificate is due after `patience` passes anyway
        return believed == active.size or (cheap and self.idle >= self.count) or self.since >= self.patience

    def learn(self, gaps: np.ndarray, active: np.ndarray) -> None:
        """Calibrate with the exact relative gaps (groups,) of a certificate."""
        if self.since >= self.patience:
            self.patience = 64
        self.since = self.idle = 0
        for k in active.tolist():
            if 0.0 < self.prediction[k] < math.inf and 0.0 < gaps[k] < math.inf:
                self.calibration[k] = float(gaps[k]) / self.prediction[k]


class EarlyStop:
    """All classes of one value of C have one error. Each value of C has its own best pass, its own count and end.

    patience: the passes in a row without a smaller error that end the training.
    """

    def __init__(self, problem: Problem, patience: int, kept: BestKept) -> None:
        self.patience: int = patience
        self.kept: BestKept = kept
        self._each = problem.groups // problem.trials

    @property
    def keeps(self) -> bool:
        """Whether a pass has an error yet, so that there is a best one."""
        return bool(self.kept.passes.all())

    @property
    def stopped(self) -> np.ndarray:
        """The values of C whose error has not fallen for `patience` passes, (trials,) bool."""
        return self.kept.in_vain >= self.patience

    def over(self, k: int) -> bool:
        """Whether group k belongs to such a value of C."""
        return bool(self.stopped[k // self._each])

    def count_for(self, active: np.ndarray) -> None:
        """Count the current pass for the values of C of the groups in `active`: it changed no others."""
        self.kept.counted[:] = False
        self.kept.counted[active // self._each] = True

    def score(self, number: int, errors: np.ndarray) -> list[int]:
        """Take the errors (trials,) of pass `number`; an error of nan counts as inf.

        Returns the values of C of which this pass is the best so far: its weights are to be kept.
        """
        kept, errors, best = self.kept, np.where(np.isnan(errors), np.inf, errors), []
        for trial in np.flatnonzero(kept.counted).tolist():
            if errors[trial] < kept.errors[trial] or not kept.passes[trial]:
                best.append(trial)
                kept.errors[trial], kept.passes[trial], kept.in_vain[trial] = errors[trial], number, 0
            else:
                kept.in_vain[trial] += 1
        return best

    def check(self, number: int) -> None:
        """ValueError if the counts do not belong to a training of `number` passes."""
        kept = self.kept
        counts = np.concatenate([kept.passes, kept.in_vain])
        if np.any((counts < 0) | (counts > number)) or np.any((kept.passes > 0) != kept.passes.all()):
            raise ValueError("its best pass is one that was never made")


EVERY = 60.0  # seconds
PASSES = 2  # without a fall
PROGRESS_SHARE = 0.99  # a fall to this share of the smallest value so far counts as progress


def _now() -> float:
    """Seconds without those of compiling, in which no progress is possible."""
    return time.monotonic() - compile_seconds()


class Gain:
    """The smallest gaps and objective so far, and when one last fell. Only warnings depend on it.

    One is due once a minute, compiling not counted, while none falls; the training continues. A read of many rows
    may take minutes, so PASSES without a fall come first, too.
    """

    def __init__(self) -> None:
        self.gap: float = math.inf
        self.primal: float = math.inf
        self._each: list[float] = []  # of each problem
        self._fell = self._told = _now()
        self._passes = 0  # since then

    def remark(self, estimate: float | None, figures: list[Figures]) -> str | None:
        """The warning due after a pass, options in backquotes (see wording.py); None if none is due."""
        now, gaps = _now(), [f.margin_gap if f.gap is None else f.gap for f in figures]
        each = [math.inf if one is None else one for one in gaps]
        least = self._each if len(self._each) == len(each) else [math.inf] * len(each)
        fell = any(one < PROGRESS_SHARE * before for one, before in zip(each, least, strict=True))
        self._each = [min(pair) for pair in zip(each, least, strict=True)] or self._each
        gap = min(max(each, default=math.inf), math.inf if estimate is None else estimate)
        primal = sum(f.primal for f in figures) if figures else math.inf
        if fell or gap < PROGRESS_SHARE * self.gap or primal < PROGRESS_SHARE * self.primal:
            self.gap, self.primal = min(gap, self.gap), min(primal, self.primal)
            self._fell, self._told, self._passes = now, now, 0
            return None
        self._passes += 1
        if now - self._told < EVERY or self._passes < PASSES:
            return None
        self._told = now
        minutes = int((now - self._fell) / 60.0)
        known = "no gap is known yet" if math.isinf(self.gap) else f"the gap is still about {self.gap:.1e}"
        return f"no progress for {minutes} min: {known}; the training continues"
