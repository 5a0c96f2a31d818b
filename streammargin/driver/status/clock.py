"""The seconds of each read, and the limits of a training. Nothing else decides by the clock."""

from __future__ import annotations

import time
from dataclasses import dataclass

from streammargin.compiled.jit import compile_seconds
from streammargin.reading.prefetch import ReadCounts

Spent = tuple[float, ...]  # seconds, seconds reading, seconds waiting, and bytes
GRACE = 1.0  # seconds beyond the limit for the certificate after the last pass: without it nothing is proven


@dataclass(frozen=True)
class Limits:
    """When to stop: relative tolerance, passes over the rows, seconds of wall clock (None: no limit).

    sweeps: most reads of all rows that may follow the last pass; max_seconds includes them.
    early_stop: passes in a row without a smaller held-out error after which it ends (None: no such end).
    """

    tol: float
    passes: int
    max_seconds: float | None
    sweeps: int = 1
    early_stop: int | None = None


class Clock:
    """longest: seconds of the longest read of each phase so far, without compiling."""

    def __init__(self, limits: Limits, counts: ReadCounts) -> None:
        self.limits: Limits = limits
        self.started: float = time.perf_counter()
        self.longest: dict[str, float] = {}
        self.set_off(counts)

    def set_off(self, counts: ReadCounts) -> None:
        """Start the timer of a read that begins or resumes."""
        self._then, self._compiled = self._now(counts), compile_seconds()

    @staticmethod
    def _now(counts: ReadCounts) -> Spent:
        return time.perf_counter(), counts.read_seconds, counts.wait_seconds, counts.bytes_read

    def elapsed(self) -> float:
        """Seconds since the training began."""
        return time.perf_counter() - self.started

    def compiling(self) -> float:
        """Seconds of this read spent on compiling: the next read will not need them."""
        return compile_seconds() - self._compiled

    def spent(self, before: Spent, counts: ReadCounts) -> Spent:
        """Totals of the current read: `before`, from an interrupted run, plus what was spent since `set_off`."""
        return tuple(b + n - t for b, n, t in zip(before, self._now(counts), self._then, strict=True))

    def over(self, phase: str, spent: Spent) -> None:
        """Note the seconds of a read that has ended."""
        self.longest[phase] = max(self.longest.get(phase, 0.0), spent[0] - self.compiling())

    def up(self, afterwards: float | None) -> bool:
        """Whether time is up, with `afterwards` seconds reserved for the certificate; None: only the end follows."""
        limit, elapsed = self.limits.max_seconds, self.elapsed()
        if limit is None:
            return False
        return elapsed - self.compiling() >= limit + GRACE if afterwards is None else elapsed + afterwards >= limit
