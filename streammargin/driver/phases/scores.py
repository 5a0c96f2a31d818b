"""The read that computes the held-out errors of the weights at the end of a pass."""

from __future__ import annotations

from streammargin.driver.course import Course
from streammargin.driver.early_stop import EarlyStop
from streammargin.driver.phases.base import Phase
from streammargin.driver.prefetch import BlockReader
from streammargin.driver.progress import CERTIFICATE
from streammargin.driver.validate import Validator
from streammargin.points.base import Point
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import Blocks


class Scores(Phase):
    """The event of the pass, and the choice of the next phase, wait until its error is known."""

    early: EarlyStop
    validator: Validator

    def __init__(self, course: Course, reader: BlockReader, validator: Validator, early: EarlyStop) -> None:
        super().__init__(course, reader)
        self.validator, self.early = validator, early
        self._point: Point | None = None  # made once: for some solvers it takes time

    def begin(self) -> None:
        self.validator.begin()
        super().begin()

    def visit(self, blocks: Blocks, labels: RowLabels) -> None:
        [(first, block)] = blocks
        if self._point is None:
            self._point = self.course.point(proven=False)
        self.validator.add(self._point, first, block, labels, self.course.problem.workers)

    def end(self) -> None:
        self._point = None  # frees it before the weights are made again
        c, errors = self.course, self.validator.errors()
        if best := self.early.score(c.progress.number, errors):
            c.solver.keep_pass(c.problem, c.state, self.early.kept, best)
        c.stop_early()
        self._tell(float(errors.min()))
        self._follow()

    def _tell(self, error: float | None) -> None:
        p = self.course.progress
        assert p.pass_end is not None
        self.course.history.publish({**p.pass_end, "valid_error": error})
        p.pass_end = None

    def _follow(self) -> None:
        """Choose the next phase, as the pass would have without early stopping."""
        c, p = self.course, self.course.progress
        if p.certify or (p.judged < p.number and not c.active.size):  # the last duals give the best bounds
            p.go(CERTIFICATE)
        else:
            c.tell_certificates()
            c.go_on()

    def break_off(self, reason: str) -> None:
        """Go on as if this pass had no error."""
        p = self.course.progress
        self._point = None
        self._tell(None)
        if reason == "signal":
            super().break_off(reason)
        else:
            p.ending, p.certify = reason, p.judged < p.number
            self._follow()
