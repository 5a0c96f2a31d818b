"""Events are plain dicts, passed to the listeners and kept in a history of bounded length."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

Listener = Callable[[dict[str, Any]], None]
SCHEMA = 1
MOST_KEPT_EVENTS = 10_000
RESIDENT_SECONDS = 0.1


def resident_bytes() -> int | None:
    """Resident memory of this process, read once in RESIDENT_SECONDS: it costs as much as a short pass.

    None if the system does not report it.
    """
    return _resident_at(int(time.monotonic() / RESIDENT_SECONDS))


@functools.lru_cache(maxsize=1)
def _resident_at(tick: int) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None


class History:
    """Publishes events and keeps at most MOST_KEPT_EVENTS of them: with more, every other pass_end event is dropped."""

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        self.listeners: list[Listener] = list(listeners)
        self.events: list[dict[str, Any]] = []
        self._stride = 1
        self._seen = 0

    def progress(self, event: dict[str, Any]) -> None:
        """Tell the listeners without keeping the event."""
        for listener in self.listeners:
            listener(event)

    def publish(self, event: dict[str, Any]) -> None:
        """Tell the listeners and keep the event."""
        self.progress(event)
        if event["event"] == "pass_end":
            self._seen += 1
            if (self._seen - 1) % self._stride:
                return
        self.events.append(event)
        if len(self.events) > MOST_KEPT_EVENTS:
            self._thin()

    def save(self) -> dict[str, Any]:
        """The kept events and the thinning counters, as plain values."""
        return {"events": self.events, "stride": self._stride, "seen": self._seen}

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore what `save` returned. ValueError if it is not that."""
        if not all(isinstance(event, dict) and isinstance(event.get("event"), str) for event in saved["events"]):
            raise ValueError("its history is not a list of events")
        if not saved["stride"] >= 1 or not saved["seen"] >= 0:
            raise ValueError("its history has wrong counters")
        self.events, self._stride, self._seen = list(saved["events"]), saved["stride"], saved["seen"]

    def start_over(self) -> None:
        """Delete all events: another training begins."""
        self.events, self._stride, self._seen = [], 1, 0
        for listener in self.listeners:
            if hasattr(listener, "start_over"):
                listener.start_over()

    def _thin(self) -> None:
        self._stride *= 2
        first, *middle, last = self.events
        self.events = [first, *middle[1::2], last]
