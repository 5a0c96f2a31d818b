"""The read that computes the held-out errors of certified weights."""

from __future__ import annotations

from streammargin.driver.course import Course
from streammargin.driver.phases.base import Phase
from streammargin.driver.prefetch import BlockReader
from streammargin.driver.validate import Validator
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import Blocks


class HeldOut(Phase):
    def __init__(self, course: Course, reader: BlockReader, validator: Validator) -> None:
        super().__init__(course, reader)
        self.validator = validator

    def begin(self) -> None:
        self.validator.begin()
        super().begin()

    def visit(self, blocks: Blocks, labels: RowLabels) -> None:
        [(first, block)] = blocks
        point, midway = self.course.point(proven=True), self.course.progress.midway
        shown = point if midway is None else point.with_constants(midway)
        self.validator.add(shown, first, block, labels, self.course.problem.workers)

    def end(self) -> None:
        c, p = self.course, self.course.progress
        p.valid_errors, p.validated = self.validator.errors(), p.judged
        c.tell_certificates()
        if p.reason is None:
            c.go_on()
        else:
            c.end(p.reason)

    def break_off(self, reason: str) -> None:
        """Keep the proven weights, without held-out errors."""
        c, p = self.course, self.course.progress
        p.valid_errors, p.validated = None, p.judged
        c.tell_certificates()
        p.proven = True
        c.end(reason)
