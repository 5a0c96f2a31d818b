"""The phases of a run: each is a read of rows for one purpose, with its visits and the phase that follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streammargin.compiled.order import permutation
from streammargin.driver.learn.validate import Calibrating, Midway
from streammargin.driver.loop.course import Course, Reading
from streammargin.driver.status import progress as phases
from streammargin.driver.status.clock import Spent
from streammargin.driver.status.events import resident_bytes
from streammargin.driver.status.progress import Progress
from streammargin.points.base import Point
from streammargin.solvers import roles
from streammargin.solvers.base import PassReport, Share
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.kept import BestKept
from streammargin.solvers.state import State
from streammargin.solvers.visits import Visit
from streammargin.wording import warn


def finish(course: Course, reason: str) -> None:
    """End the training within or before this read: at once after a signal, else with the last certified weights."""
    if reason != "signal":
        course.progress.ending = reason
    course.finish(reason)


def held_out_errors(c: Course, point: Point) -> Reading:
    """The held-out rows, for the errors of this point."""
    assert c.validator is not None
    visit = Visit("held-out errors", c.validator.add, (point,))
    return Reading(c.validator.reader, [(visit, c.states["held out"])])


@dataclass(frozen=True)
class Phase:
    """`reading` is what it visits, made once the read has begun. `end` chooses the next phase, in units (see `Solver`).

    Before its visits begin `begin` is called, and the sums of the state `clears` are set to 0. `break_off` ends the
    training within or before this read. `enough` says whether the blocks that are left need not be read.
    """

    reading: Callable[[Course], Reading]
    end: Callable[[Course], Share]
    begin: Callable[[Course], None] = lambda course: None
    break_off: Callable[[Course, str], None] = finish
    enough: Callable[[Course], bool] = lambda course: False
    clears: str = ""


def _scores(c: Course) -> Reading:
    return held_out_errors(c, c.solver.latest(c.problem, c.state))


def _end_scores(c: Course) -> None:
    """The event of the pass, and what follows, have waited for the error."""
    assert c.early is not None
    c.reading = None  # frees the weights before they are made again
    errors = c.errors()
    if best := c.early.score(c.progress.number, errors):
        c.solver.keep_pass(c.problem, c.state, c.early.kept, best)
    # all groups of each C whose error has not fallen for long enough
    c.progress.done |= np.repeat(c.early.stopped, c.problem.groups // c.problem.trials)
    c.active = c.progress.active
    _tell_scored(c, float(errors.min()))
    _go_on_scored(c)


def _without_score(c: Course, reason: str) -> None:
    """Go on as if this pass had no error."""
    c.reading = None
    _tell_scored(c, None)
    if reason == "signal":
        c.finish(reason)
    else:
        c.progress.ending, c.progress.certify = reason, c.progress.judged < c.progress.number
        _go_on_scored(c)


def _tell_scored(c: Course, error: float | None) -> None:
    """Publish the event of the pass, whose held-out error is known now."""
    assert c.progress.pass_end is not None
    c.history.publish({**c.progress.pass_end, "valid_error": error})
    c.progress.pass_end = None


def _go_on_scored(c: Course) -> None:
    """Choose the next phase, as the pass would have without early stopping."""
    p = c.progress
    if p.certify or (p.judged < p.number and not c.active.size):  # the last duals give the best bounds
        p.go(phases.CERTIFICATE)
    else:
        c.tell_certificates()
        c.go_on()


def _last_read(c: Course) -> Reading:
    return Reading(c.reader, [(c.solver.last_read(c.problem, c.state), c.states["early"])])


def _end_last(c: Course) -> None:
    """Publish the certificates of the best passes."""
    best: BestKept = c.states["early"]
    best.certified = True
    figures, wrong = c.answer.figures_kept(best)
    for trial in range(c.problem.trials):
        c.tell_certificate(int(best.passes[trial]), trial, figures, wrong, float(best.errors[trial]))
    c.go_on()


def _without_last(c: Course, reason: str) -> None:
    """Keep the weights of the best pass; nothing is proven about them."""
    c.finish("signal")
    c.progress.reason = reason


def _step(c: Course) -> Reading:
    name = c.progress.phase
    step = c.steps[name]
    return Reading(step.reader, [(Visit(name, step.add, step.arguments, leaves=step.leaves), c.states[name])])


def _end_step(c: Course) -> None:
    name = c.progress.phase
    c.steps[name].finish(c.states[name])
    c.learn_next(name)


def _prologue(c: Course) -> Reading:
    return Reading(c.reader, [(c.solver.prologue_visit(c.problem, c.state, c.progress.round), c.state)])


def _end_prologue(c: Course) -> None:
    c.progress.round += 1
    c.progress.go(c.after_steps())


def _certificate(c: Course) -> Reading:
    return Reading(c.reader, [(c.solver.certificate(c.problem, c.state, c.active), c.state)])


def _judge(c: Course) -> None:
    visit = c.solver.certificate(c.problem, c.state, c.active)
    figures, wrong = visit.end(c.problem, c.state, *visit.arguments)
    gaps = [f.margin_gap if f.gap is None else f.gap for f in figures]
    c.progress.stopping.learn(np.array([np.inf if g is None else g for g in gaps]), c.active)
    c.judge(figures, wrong, swept=True)


def _held_out(c: Course) -> Reading:
    point, midway = c.answer.point(proven=True), c.progress.midway
    return held_out_errors(c, point if midway is None else point.with_constants(midway))


def _end_held_out(c: Course) -> None:
    p = c.progress
    p.valid_errors, p.validated = c.errors(), p.judged
    c.tell_certificates()
    if p.reason is None:
        c.go_on()
    else:
        c.end(p.reason)


def _without_errors(c: Course, reason: str) -> None:
    """Keep the proven weights, without held-out errors."""
    p = c.progress
    p.valid_errors, p.validated = None, p.judged
    c.tell_certificates()
    p.proven = True
    c.end(reason)


def _bias(c: Course) -> Reading:
    point, midway = c.answer.point(c.progress.proven), c.progress.midway
    point = point if midway is None else point.with_constants(midway)
    visit = Visit("bias", Midway.add_block, (point,))
    return Reading(c.reader, [(visit, c.states["bias"])])


def _end_bias(c: Course) -> None:
    p = c.progress
    if p.midway is None:
        p.midway = c.states["bias"].bias()
        if c.problem.compared and p.proven and p.midway.any() and not p.midway.all():
            p.go(phases.BIAS)  # some lines got a bias, and others make mistakes: which score is the largest is counted
            return
    else:
        p.recount = c.states["bias"].wrong.copy()
    if c.validator is not None:
        p.go(phases.HELD_OUT)
    else:
        assert p.reason is not None
        c.end(p.reason)


def _without_bias(c: Course, reason: str) -> None:
    """Keep the proven weights, without a bias."""
    c.progress.midway = None
    c.end(reason)


def _calibration(c: Course) -> Reading:
    assert c.calibrating is not None and c.validator is not None
    points = c.calibrating.points(c.problem, c.outcome())
    visit = Visit("calibration", Calibrating.add, (points,), leaves=False)  # whose sums are large
    return Reading(c.validator.reader, [(visit, c.states["calibration"])])


def _begin_calibration(c: Course) -> None:
    assert c.calibrating is not None
    c.states["calibration"].scale = c.calibrating.scale(c.problem, c.outcome(), c.states["held out"])


def _without_calibration(c: Course, reason: str) -> None:
    """Keep the weights without probabilities."""
    roles.clear(c.states["calibration"])
    c.progress.go(phases.DONE)


def _predictions(c: Course) -> Reading:
    assert c.predictions is not None
    visit = Visit("predictions", c.predictions.add, (c.predictions.point(c.outcome()),))
    return Reading(c.predictions.reader, [(visit, c.states["predictions"])])


def _end_predictions(c: Course) -> None:
    assert c.predictions is not None
    c.progress.predicted = c.predictions.often(c.states["predictions"])
    c.progress.go(phases.DONE)


def _identity(c: Course) -> Reading:
    """The rows of the first doubted source, which compares them itself."""
    if c.validator is not None and c.doubted[0]:
        return Reading(c.validator.reader, [])
    step = None if c.aside is None else c.steps.get(c.aside.phase)
    return Reading(c.reader if step is None else step.reader, [])


def put_off(c: Course) -> None:
    """Set the saved progress aside until doubted sources, if any, are read."""
    if c.doubted:
        c.aside = c.aside or c.progress
        c.progress = replace(c.aside)
        c.progress.go(phases.IDENTITY)
        c.counts_aside = replace(_identity(c).reader.counts)


def _end_identity(c: Course) -> None:
    vars(_identity(c).reader.counts).update(vars(c.counts_aside))  # this read does not count
    c.watched[c.doubted[0]].settle()
    c.doubted = c.doubted[1:]
    if c.doubted:
        put_off(c)
    else:
        _take_up(c)


def _take_up(c: Course) -> None:
    assert c.aside is not None
    c.progress, c.aside = c.aside, None


def _without_identity(c: Course, reason: str) -> None:
    """End with the progress that was saved."""
    _take_up(c)
    c.finish("signal")
    c.progress.reason = reason


def _begin_pass(c: Course) -> None:
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


def _pass(c: Course) -> Reading:
    """A pass in the solver's order; the first one measures standard deviations of the columns, too.

    Of rows on disk it also measures the ranges; of those in memory they are known before any visit.
    """
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


def _end_pass(c: Course) -> Share:
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
    cheap = c.problem.resident and c.problem.kernel is None
    p.certify = report.certificate is None and (
        p.ending is not None or p.stopping.due(report.estimate, c.active, cheap)
    )
    if c.early is not None and scored:
        c.early.count_for(c.active)
        if report.certificate is not None and whole:
            c.note(report.certificate, report.wrong)
        p.go(phases.SCORES_PHASE)
    elif report.certificate is not None and whole:
        c.judge(report.certificate, report.wrong, swept=False)
    elif p.certify:
        p.go(phases.CERTIFICATE)
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
    c.tell_ranges()
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


def _break_off_pass(c: Course, reason: str) -> None:
    """End the pass with the blocks that it has visited, and certify; at once after a signal."""
    p = c.progress
    if p.order.size and not p.position and c.problem.holders > 1:  # no holder has answered: there was no such pass
        p.number -= 1
        finish(c, reason)
    elif reason != "signal" and p.order.size:
        p.ending = reason
        _visit(c).at_once(c.problem, c.state)
        _end_pass(c)
    elif reason != "signal" and p.judged < p.number:
        p.ending = reason
        p.go(phases.CERTIFICATE)
    else:
        finish(c, reason)


PHASES = {
    phases.IDENTITY: Phase(_identity, _end_identity, break_off=_without_identity),
    phases.TRANSFORMING: Phase(_step, _end_step),
    phases.SCALING: Phase(_step, _end_step),
    phases.MAPPING: Phase(_step, _end_step),
    phases.PROLOGUE: Phase(_prologue, _end_prologue),
    phases.PASS: Phase(_pass, _end_pass, _begin_pass, _break_off_pass),
    phases.SCORES_PHASE: Phase(_scores, _end_scores, break_off=_without_score, clears="held out"),
    phases.LAST_READ: Phase(_last_read, _end_last, break_off=_without_last, clears="early"),
    phases.CERTIFICATE: Phase(_certificate, _judge, break_off=Course.finish),
    phases.HELD_OUT: Phase(_held_out, _end_held_out, break_off=_without_errors, clears="held out"),
    phases.BIAS: Phase(_bias, _end_bias, break_off=_without_bias, clears="bias"),
    phases.CALIBRATION: Phase(
        _calibration, Course.predict, _begin_calibration, break_off=_without_calibration, clears="calibration"
    ),
    phases.PREDICTIONS: Phase(
        _predictions, _end_predictions, break_off=lambda c, reason: c.progress.go(phases.DONE), clears="predictions",
        enough=lambda c: c.predictions is not None and c.predictions.enough(c.states["predictions"]),
    ),
}  # fmt: skip
