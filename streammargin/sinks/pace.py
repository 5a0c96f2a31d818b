"""How fast a training reads, and the time that it has left."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

_SLOPE = 3  # passes over which the slope of the estimates is measured
_TELLING = 0.9  # gaps above this say nothing of the time left, as the lower bound is near 0
_FORESEEABLE = 100 * 3600.0  # seconds; a longer estimate of the time left is not shown


def duration(seconds: float) -> str:
    """Seconds as text: 8.2s, 3m05s, 2h10m."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


@dataclass
class Pace:
    """The time of a training, by its events.

    params: its options. passes: when the last ones ended, and their estimated gaps. read: phase and pass of the last
    read, and its totals after its first event.
    """

    params: dict[str, Any]
    max_seconds: float | None
    passes: list[tuple[float, float]] = field(default_factory=list)
    read: tuple[str, int, list[float]] = ("", 0, [])

    @property
    def absolute(self) -> bool:
        """Whether the tolerance is one of the mean gap, and so a word."""
        return isinstance(self.params.get("tol"), str)

    def pass_end(self, estimate: float) -> None:
        """A pass has ended, with this estimated gap."""
        self.passes = [*self.passes[-4:], (time.monotonic(), estimate)]

    def speed(self, event: dict[str, Any]) -> str:
        """The speed of a read, without its first step, which waits for the first block and so is untypical."""
        names = ("rows", "seconds", "bytes_read", "wait_seconds")
        read, now = (event["phase"], event["pass"]), [event[name] for name in names]
        if self.read[:2] != read or now[0] < self.read[2][0]:
            self.read = (*read, now)
        rows, seconds, size, waited = now
        if event["block"] > 1 or event["block"] < event["blocks"]:
            rows, seconds, size, waited = (value - first for value, first in zip(now, self.read[2], strict=True))
        if not rows or seconds <= 0.0:
            return ""
        speed = f"{rows / seconds:,.0f} rows/s"
        return f"{speed} {size / seconds / 1e6:.0f} MB/s, waiting {waited / seconds:.0%}" if size else speed

    def left(self, event: dict[str, Any]) -> str:
        """Estimated time left, by the slope of the last estimated gaps, or until the nearest limit if that is less."""
        guess = limit = math.inf
        if len(self.passes) >= _SLOPE:
            (t0, g0), (t1, g1) = self.passes[-_SLOPE], self.passes[-1]
            if 0.0 < g1 < min(g0, _TELLING) and t1 > t0 and not self.absolute:
                tol = max(self.params.get("tol", 1e-3), 1e-300)
                ahead = (t1 - t0) * max(0.0, math.log(g1 / tol) / math.log(g0 / g1))
                guess = ahead - (time.monotonic() - t1)
        most = self.params.get("passes", math.inf)
        if event["block"] and (len(self.passes) >= _SLOPE or most <= _SLOPE):  # else tol comes first
            now = event["seconds"] * event["blocks"] / event["block"]
            times = [when for when, _ in self.passes]
            each = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else now
            limit = now - event["seconds"] + each * (most - event["pass"])
        if self.max_seconds is not None:
            limit = min(limit, self.max_seconds - event["elapsed"])
        if min(guess, limit) >= _FORESEEABLE:
            return ""
        return f"{'~' if guess < limit else 'at most '}{duration(max(0.0, min(guess, limit)))} left"
