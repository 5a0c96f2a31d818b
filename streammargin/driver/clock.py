"""The time of a training: what its reads take, and when it is up. Nothing else looks at a clock."""

from __future__ import annotations

import time

from streammargin.compiled.jit import compile_seconds
from streammargin.driver.outcome import Limits
from streammargin.driver.prefetch import ReadCounts

Spent = tuple[float, ...]  # seconds, seconds reading, seconds waiting, and bytes
GRACE = 1.0  # seconds that what comes after the last pass may take beyond the limit: without it nothing is proven


class Clock:
    """longest: the seconds that the longest read of each phase took."""

    def __init__(self, limits: Limits, counts: ReadCounts) -> None:
        self.limits, self.started = limits, time.perf_counter()
        self.longest: dict[str, float] = {}
        self.set_off(counts)

    def set_off(self, counts: ReadCounts) -> None:
        """A read begins, or goes on."""
        self._then, self._compiled = self._now(counts), compile_seconds()

    @staticmethod
    def _now(counts: ReadCounts) -> Spent:
        return time.perf_counter(), counts.read_seconds, counts.wait_seconds, counts.bytes_read

    def elapsed(self) -> float:
        """Seconds since the training began."""
        return time.perf_counter() - self.started

    def compiling(self) -> float:
        """Seconds of this read that went into compiling: the next one will not take them."""
        return compile_seconds() - self._compiled

    def spent(self, before: Spent, counts: ReadCounts) -> Spent:
        """What the read at work took, and before it was taken up."""
        return tuple(b + n - t for b, n, t in zip(before, self._now(counts), self._then, strict=True))

    def over(self, phase: str, spent: Spent) -> None:
        """A read is over, which took so much."""
        self.longest[phase] = max(self.longest.get(phase, 0.0), spent[0] - self.compiling())

    def up(self, afterwards: float | None) -> bool:
        """Whether the time is up, where so many seconds are to be left; None: nothing but the end comes afterwards."""
        limit, elapsed = self.limits.max_seconds, self.elapsed()
        if limit is None:
            return False
        return elapsed - self.compiling() >= limit + GRACE if afterwards is None else elapsed + afterwards >= limit
