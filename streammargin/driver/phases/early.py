"""The reads of early stopping: the held-out errors of each pass, and the exact figures of the best ones."""

from __future__ import annotations

import numpy as np

from streammargin.driver.course import Course, Reading
from streammargin.driver.phases.base import Phase, held_out_errors
from streammargin.driver.progress import CERTIFICATE, LAST_READ, SCORES
from streammargin.solvers.proof.kept import Kept


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
    _tell(c, float(errors.min()))
    _go_on(c)


def _without_score(c: Course, reason: str) -> None:
    """Go on as if this pass had no error."""
    c.reading = None
    _tell(c, None)
    if reason == "signal":
        c.finish(reason)
    else:
        c.progress.ending, c.progress.certify = reason, c.progress.judged < c.progress.number
        _go_on(c)


def _tell(c: Course, error: float | None) -> None:
    """Publish the event of the pass, whose held-out error is known now."""
    assert c.progress.pass_end is not None
    c.history.publish({**c.progress.pass_end, "valid_error": error})
    c.progress.pass_end = None


def _go_on(c: Course) -> None:
    """Choose the next phase, as the pass would have without early stopping."""
    p = c.progress
    if p.certify or (p.judged < p.number and not c.active.size):  # the last duals give the best bounds
        p.go(CERTIFICATE)
    else:
        c.tell_certificates()
        c.go_on()


def _last_read(c: Course) -> Reading:
    return Reading(c.reader, [(c.solver.last_read(c.problem, c.state, c.states["early"]), c.states["early"])])


def _end_last(c: Course) -> None:
    """Publish the certificates of the best passes."""
    best: Kept = c.states["early"]
    best.certified = True
    figures, wrong = c.answer.figures_kept(best)
    for trial in range(c.problem.trials):
        c.tell_certificate(int(best.passes[trial]), trial, figures, wrong, float(best.errors[trial]))
    c.go_on()


def _without_last(c: Course, reason: str) -> None:
    """Keep the weights of the best pass; nothing is proven about them."""
    c.finish("signal")
    c.progress.reason = reason


EARLY = {
    SCORES: Phase(_scores, _end_scores, break_off=_without_score, clears="held out"),
    LAST_READ: Phase(_last_read, _end_last, break_off=_without_last, clears="early"),
}
