"""Events of a training as plain dicts: progress, and the end of a pass."""

from __future__ import annotations

from typing import Any

from streammargin.driver.clock import Clock, Spent
from streammargin.driver.events import resident_bytes
from streammargin.driver.progress import Progress
from streammargin.solvers.base import PassReport
from streammargin.solvers.problem import Problem


def progress_event(p: Progress, clock: Clock, spent: Spent, done: float, of: int, begun: int | None) -> dict[str, Any]:
    """So many blocks of a read are done, and so many rows of one begun; without rows, of what ends a read.

    The seconds are those without a compiler at work.
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
    """What a pass took and found out; made: multiplications of the training so far."""
    seconds, reading, waited, size = spent
    return {
        "event": "pass_end", "pass": p.number, "rows": p.rows, "seconds": seconds, "read_seconds": reading,
        "compute_seconds": seconds - waited, "wait_seconds": waited, "bytes_read": size,
        "mistakes": report.mistakes if problem.counts else None, "rss_bytes": resident_bytes(),
        "estimate": p.estimate, "kept_rows": report.kept_rows, "reads": reads,
        "multiplications": round(made),
    }  # fmt: skip
