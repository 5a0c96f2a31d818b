"""A phase: one read of rows for one purpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streammargin.driver.course import Course, Reading
from streammargin.points.base import Point
from streammargin.solvers.base import Share
from streammargin.solvers.visits import Visit


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
