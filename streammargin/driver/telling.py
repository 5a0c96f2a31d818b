"""Build the events `progress` and `pass_end` as plain dicts."""

from __future__ import annotations

from typing import Any

from streammargin.driver.clock import Clock, Spent
from streammargin.driver.events import resident_bytes
from streammargin.driver.progress import Progress
from streammargin.solvers.base import PassReport
from streammargin.solvers.problem import Problem


def progress_event(p: Progress, clock: Clock, spent: Spent, done: float, of: int, begun: int | None) -> dict[str, Any]:
    """The event for `done` blocks `of` all, and `begun` rows of the next; begun None: the end of a read is computed.

    The seconds leave out compiling.
    """
    seconds, _, waited, size = spent
    return {
        "event": "progress", "phase": p.phase, "pass": p.number, "block": done, "blocks": of,
        "rows": p.rows + (begun or 0), "seconds": seconds - clock.compiling(), "bytes_read": size,
        "wait_seconds": waited, "reading": begun is not None, "estimate": p.estimate, "elapsed": clock.elapsed(),
    }  # fmt: skip


def pass_event(
    p: Progress, problem: Problem, report: PassReport, spent: Spent, reads: float, made: float
) -> dict[str, Any]:
    """The event for the end of a pass; made: multiplications of the training so far."""
    seconds, reading, waited, size = spent
    return {
        "event": "pass_end", "pass": p.number, "rows": p.rows, "seconds": seconds, "read_seconds": reading,
        "compute_seconds": seconds - waited, "wait_seconds": waited, "bytes_read": size,
        "mistakes": report.mistakes if problem.counts else None, "rss_bytes": resident_bytes(),
        "estimate": p.estimate, "kept_rows": report.kept_rows, "reads": reads,
        "multiplications": round(made), "valid_error": None,
    }  # fmt: skip
