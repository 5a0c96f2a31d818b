"""The reads of a training beside the solver's passes: what each visits, and what follows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streammargin.driver import progress as phases
from streammargin.driver.course import Course, Reading
from streammargin.driver.midway import Midway
from streammargin.driver.phases.base import Phase, held_out_errors
from streammargin.driver.phases.early import EARLY
from streammargin.driver.validate import Predictions
from streammargin.solvers.visits import Visit


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


def _predictions(c: Course) -> Reading:
    assert c.predictions is not None
    visit = Visit("predictions", Predictions.add, (c.predictions.point(c.outcome()),))
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


READS = {
    **EARLY,
    phases.IDENTITY: Phase(_identity, _end_identity, break_off=_without_identity),
    phases.TRANSFORMING: Phase(_step, _end_step),
    phases.SCALING: Phase(_step, _end_step),
    phases.MAPPING: Phase(_step, _end_step),
    phases.PROLOGUE: Phase(_prologue, _end_prologue),
    phases.CERTIFICATE: Phase(_certificate, _judge, break_off=Course.finish),
    phases.HELD_OUT: Phase(_held_out, _end_held_out, break_off=_without_errors, clears="held out"),
    phases.BIAS: Phase(_bias, _end_bias, break_off=_without_bias, clears="bias"),
    phases.PREDICTIONS: Phase(
        _predictions, _end_predictions, break_off=lambda c, reason: c.progress.go(phases.DONE), clears="predictions",
        enough=lambda c: c.predictions is not None and c.predictions.enough(c.states["predictions"]),
    ),
}  # fmt: skip
