"""The solver's passes over the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from streammargin.compiled.order import permutation
from streammargin.driver.clock import Spent
from streammargin.driver.course import Course, Reading
from streammargin.driver.events import resident_bytes
from streammargin.driver.phases.base import Phase, finish
from streammargin.driver.progress import CERTIFICATE, SCORES, Progress
from streammargin.solvers.base import PassReport, Share
from streammargin.solvers.problem import Problem
from streammargin.solvers.state import State
from streammargin.solvers.visits import Visit
from streammargin.wording import warn


def begin(c: Course) -> None:
    """Change over to the stage that is due."""
    p = c.progress
    p.number += 1
    if p.due:
        before = c.state
        after: Any = c.stages[p.due].enter(c.problem, before, c.watch)
        after.labels, after.number, after.multiplications = before.labels, before.number, before.multiplications
        c.state, p.stage, p.due = after, p.due, ""
    c.state.number = p.number


def _visit(c: Course) -> Visit:
    return c.solver.visit(c.problem, c.state, c.active)


def _permuted(problem: Problem, state: State, blocks: int) -> np.ndarray:
    return permutation(blocks, problem.seed, state.number)


def reading(c: Course) -> Reading:
    """A pass in the solver's order; the first one measures ranges and standard deviations of the columns, too."""
    visit = _visit(c)
    if visit.order is None and (visit.alone or not (c.problem.resident or c.problem.holders > 1)):
        visit = visit._replace(order=_permuted)
    visits: list[tuple[Visit, Any]] = [(visit, c.state)]
    if "ranges" in c.states:
        visits.append((Visit("ranges", c.states["ranges"].add, leaves=False), c.states["ranges"]))
    if "spread" in c.states and c.progress.number == 1:
        visits.append((Visit("spread", c.states["spread"].add, leaves=False), c.states["spread"]))
    # a stage may visit fewer blocks at once than planned for, not more
    return Reading(c.reader, visits, min(c.method.blocks_per_step, c.solver.blocks_per_step))


def end(c: Course) -> Share:
    """Take the report, and choose what follows."""
    p, visit = c.progress, _visit(c)
    report = visit.end(c.problem, c.state, *visit.arguments)
    if isinstance(report, float):
        return report
    p.due = c.stages[p.stage].leave(c.problem, c.state, c.watch, report, c.active)
    p.estimate = max([0.0, *report.estimate[c.active].tolist()])
    scored = c.early is not None and p.ending is None
    _tell(c, report, scored)
    whole = p.position == len(p.order)  # it covers all rows
    if "spread" in c.states and p.number == 1:
        c.states["spread"].whole = int(whole)
    if report.still and p.ending is None:
        p.ending = "passes"  # more of them would change nothing
    p.certify = report.certificate is None and (p.ending is not None or p.stopping.due(report.estimate, c.active))
    if c.early is not None and scored:
        c.early.count_for(c.active)
        if report.certificate is not None and whole:
            c.note(report.certificate, report.wrong)
        p.go(SCORES)
    elif report.certificate is not None and whole:
        c.judge(report.certificate, report.wrong, swept=False)
    elif p.certify:
        p.go(CERTIFICATE)
    else:
        c.go_on()
    return None


def _tell(c: Course, report: PassReport, scored: bool) -> None:
    """Publish the event of the pass; scored: later, once its held-out error is known."""
    p = c.progress
    spent = c.clock.spent(p.spent, c.reader.counts)
    reads = c.reader.counts.bytes_read / max(1, c.problem.size)
    event = pass_event(p, c.problem, report, spent, reads, c.state.multiplications)
    if scored:
        p.pass_end = event
    else:
        c.history.publish(event)
    if (ranges := c.states.pop("ranges", None)) is not None:
        p.ranges = ranges.remark(c.problem.kernel is not None, c.reader.source.ranges() is not None)
        if p.ranges is not None:
            warn(p.ranges, "scale")
    if (text := c.gain.remark(p.estimate, report.certificate or p.figures or [])) is not None:
        warn(text if p.ranges is None else f"{text}; {p.ranges}", "no_gain")


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


def break_off(c: Course, reason: str) -> None:
    """End the pass with the blocks that it has visited, and certify; at once after a signal."""
    p = c.progress
    if p.order.size and not p.position and c.problem.holders > 1:  # no holder has answered: there was no such pass
        p.number -= 1
        finish(c, reason)
    elif reason != "signal" and p.order.size:
        p.ending = reason
        _visit(c).at_once(c.problem, c.state)
        end(c)
    elif reason != "signal" and p.judged < p.number:
        p.ending = reason
        p.go(CERTIFICATE)
    else:
        finish(c, reason)


PASSES = Phase(reading, end, begin, break_off)
