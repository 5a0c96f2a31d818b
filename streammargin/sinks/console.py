"""Events for people: a bar on a terminal, plain lines otherwise, at most one a second."""

from __future__ import annotations

import math
import os
import sys
import time
from typing import Any, TextIO

_EVERY = 1.0  # seconds between lines
_FORESEEABLE = 100 * 3600.0  # seconds; a guess beyond is no guess


def relative(value: float | None) -> str:
    """A gap for people."""
    return "-" if value is None else "inf" if math.isinf(value) else f"{value:.1e}"


def duration(seconds: float) -> str:
    """Seconds for people: 8.2s, 3m05s, 2h10m."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


class Console:
    """Shows pass, rows/s, MB/s, share of time waiting on the disk, estimate (~) or exact gap, and time left.

    verbosity: -1 warnings only, 0 progress and summary, 1 every certificate as well.
    """

    def __init__(self, verbosity: int = 0, stream: TextIO | None = None, max_seconds: float | None = None) -> None:
        self.stream = stream or sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # pythonw has none
        self.verbosity = verbosity
        self.bar = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self.color = self.bar and "NO_COLOR" not in os.environ
        self.max_seconds = max_seconds
        self._last = time.monotonic()
        self._open = False
        self._gap = ""
        self._valid = ""
        self._passes: list[tuple[float, float]] = []
        self._tol = 1e-3

    def _line(self, text: str, passing: bool = False) -> None:
        if self.bar and passing:
            room = self._columns() - 1
            if len(text) > room:  # without its last parts, rather than with half of one
                text = text[:room].rpartition("  ")[0] or text[:room]
            self.stream.write("\r\x1b[K" + text)
            self._open = True
        else:
            self.stream.write(("\r\x1b[K" if self._open else "") + text + "\n")
            self._open = False
        self.stream.flush()

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self.stream.fileno()).columns or 100  # 0: the terminal does not say
        except (OSError, ValueError):
            return 100

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.color else text

    def __call__(self, event: dict[str, Any]) -> None:
        handler = getattr(self, "_on_" + event["event"], None)
        if handler is not None and (self.verbosity >= 0 or event["event"] == "warning"):
            handler(event)

    def _on_run_start(self, event: dict[str, Any]) -> None:
        data, plan = event["data"], event["plan"]
        self._tol = event["params"]["tol"]
        blocks = "in memory" if plan["blocks"] == 1 else f"{plan['blocks']} blocks of up to {plan['block_rows']} rows"
        self._line(
            f"{data['path']}: {data['rows']} rows, {data['features']} features, {data['nnz']} values; {blocks}, "
            f"{plan['memory_bytes'] / 2**20:.0f} MiB planned"
        )
        if event.get("solver"):
            self._line(f"auto took {event['solver']}")

    def _on_resumed(self, event: dict[str, Any]) -> None:
        self._on_run_start(event["run_start"])
        where = "at its end" if event["phase"] == "done" else f"in pass {event['pass']}, after {event['block']} blocks"
        self._line(f"goes on from {event['path']}, {where}")

    def _on_progress(self, event: dict[str, Any]) -> None:
        now = time.monotonic()
        if now - self._last < (0.1 if self.bar else _EVERY):
            return
        self._last = now
        seconds = max(event["seconds"], 1e-9)
        speed = f"{event['rows'] / seconds:,.0f} rows/s"
        if event["bytes_read"]:
            speed += f" {event['bytes_read'] / seconds / 1e6:.0f} MB/s, waiting {event['wait_seconds'] / seconds:.0%}"
        done = event["block"] / event["blocks"]
        what = event["phase"] if event["phase"] in ("certificate", "bias") else f"pass {event['pass']}"
        parts = [f"{what} {done:4.0%}", speed]
        if event["estimate"] is not None:
            parts.append(f"gap ~{relative(event['estimate'])}")
        parts += [text for text in (self._gap, self._valid, self._left(event["elapsed"])) if text]
        self._line("  ".join(parts), passing=True)

    def _left(self, elapsed: float) -> str:
        """Time left, from the slope of the estimates over the last passes (marked ~), or of the clock."""
        guess = math.inf
        if len(self._passes) >= 3:
            (t0, g0), (t1, g1) = self._passes[-3], self._passes[-1]
            if 0.0 < g1 < g0 and t1 > t0:
                guess = (t1 - t0) * max(0.0, math.log(g1 / max(self._tol, 1e-300)) / math.log(g0 / g1))
        if self.max_seconds is not None:
            guess = min(guess, self.max_seconds - elapsed)
        return f"~{duration(max(0.0, guess))} left" if guess < _FORESEEABLE else ""

    def _on_pass_end(self, event: dict[str, Any]) -> None:
        self._passes = [*self._passes[-4:], (time.monotonic(), event["estimate"])]
        now = time.monotonic()
        if self.verbosity < 1 and (self.bar or now - self._last < _EVERY):
            return
        self._last = now
        speed = f"{event['rows'] / max(event['seconds'], 1e-9):,.0f} rows/s"
        parts = [f"pass {event['pass']}", speed, f"gap ~{relative(event['estimate'])}", self._gap, self._valid]
        self._line("  ".join(part for part in parts if part))

    def _figures(self, event: dict[str, Any]) -> None:
        kind, value = ("gap", event["gap"]) if event["gap"] is not None else ("margin gap", event["margin_gap"])
        self._gap = f"{kind} {relative(value)}"
        if event["residual"] is not None:
            self._gap = f"residual {relative(event['residual'])}"
        self._valid = "" if event["valid_error"] is None else f"valid error {event['valid_error']:.4f}"

    def _on_certificate(self, event: dict[str, Any]) -> None:
        self._figures(event)
        if self.verbosity >= 1:
            mistakes = "" if event["mistakes"] is None else f"{event['mistakes']} mistakes"
            self._line(f"pass {event['pass']}  exact {self._gap}  {mistakes}  {self._valid}".rstrip())

    def _on_warning(self, event: dict[str, Any]) -> None:
        self._line(self._paint("warning: ", "33") + event["message"])

    def _on_run_end(self, event: dict[str, Any]) -> None:
        if event["status"] != "ok":
            if self._open:  # the error message gets a line of its own
                self._line("")
            return
        verdict = self._paint("converged", "32") if event["converged"] else self._paint("not converged", "33")
        parts = [f"{verdict} ({event['reason']}) after {event['passes']} passes in {duration(event['seconds'])}"]
        if event.get("C") is not None:  # of several: the figures are those of the model that is kept
            self._figures(event)
            parts.append(f"best C {event['C']:g}")
        elif event.get("valid_error") is not None:  # a bias midway came after the last certificate
            self._valid = f"valid error {event['valid_error']:.4f}"
        # the weights that a signal leaves may be later ones than those certified last
        certified = "last certified" if event["reason"] == "signal" else "certified"
        parts += [text for text in (self._gap and f"{certified} {self._gap}", self._valid) if text]
        self._line(", ".join(parts))
