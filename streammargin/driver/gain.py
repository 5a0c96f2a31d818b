"""Warn once a minute, compiling not counted, while neither gap nor objective falls; the training continues.

A read of many rows may take minutes. So two passes without a fall come first, too.
"""

from __future__ import annotations

import math
import time

from streammargin.compiled.jit import compile_seconds
from streammargin.solvers.proof.figures import Figures

EVERY = 60.0  # seconds
PASSES = 2  # without a fall
PART = 0.99  # a fall to this share of the smallest value so far counts as progress


def _now() -> float:
    """Seconds without those of compiling, in which no progress is possible."""
    return time.monotonic() - compile_seconds()


class Gain:
    """The smallest gap and objective so far, and when they last fell. Only warnings depend on it."""

    def __init__(self) -> None:
        self.gap: float = math.inf
        self.primal: float = math.inf
        self._fell = self._told = _now()
        self._passes = 0  # since then

    def remark(self, estimate: float | None, figures: list[Figures]) -> str | None:
        """The warning due after a pass, options in backquotes (see wording.py); None if none is due."""
        now, gaps = _now(), [f.margin_gap if f.gap is None else f.gap for f in figures]
        gap = max([math.inf if one is None else one for one in gaps], default=math.inf)
        gap = min(gap, math.inf if estimate is None else estimate)
        primal = sum(f.primal for f in figures) if figures else math.inf
        if gap < PART * self.gap or primal < PART * self.primal:
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
