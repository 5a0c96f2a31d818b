"""The read that computes the midway bias."""

from __future__ import annotations

from streammargin.driver.course import Course
from streammargin.driver.midway import Midway
from streammargin.driver.phases.base import Phase
from streammargin.driver.prefetch import BlockReader
from streammargin.driver.progress import HELD_OUT
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import Blocks


class FindBias(Phase):
    def __init__(self, course: Course, reader: BlockReader, midway: Midway) -> None:
        super().__init__(course, reader)
        self.midway = midway

    def begin(self) -> None:
        self.midway.begin()
        super().begin()

    def visit(self, blocks: Blocks, labels: RowLabels) -> None:
        [(first, block)] = blocks
        c = self.course
        self.midway.add_block(block, first, c.point(c.progress.proven), c.problem.outputs.positive, labels)

    def end(self) -> None:
        c, p = self.course, self.course.progress
        p.midway = self.midway.bias()
        if c.validator is not None:
            p.go(HELD_OUT)
        else:
            assert p.reason is not None
            c.end(p.reason)

    def break_off(self, reason: str) -> None:
        """Keep the proven weights, without a bias."""
        self.course.end(reason)
