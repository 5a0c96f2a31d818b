"""The last read with early stopping: exact figures of the weights of the best pass."""

from __future__ import annotations

from streammargin.driver.course import Course
from streammargin.driver.early_stop import EarlyStop
from streammargin.driver.phases.base import Phase
from streammargin.driver.prefetch import BlockReader
from streammargin.rows.blocks import Block
from streammargin.rows.labels import RowLabels
from streammargin.solvers import leaves
from streammargin.solvers.base import Blocks, multiplications
from streammargin.solvers.proof import kept
from streammargin.solvers.state import labels_of


class LastRead(Phase):
    def __init__(self, course: Course, reader: BlockReader, early: EarlyStop) -> None:
        super().__init__(course, reader)
        self.early = early

    def begin(self) -> None:
        kept.begin(self.early.kept)
        super().begin()

    def visit(self, blocks: Blocks, labels: RowLabels) -> None:
        [(first, block)] = blocks
        c = self.course
        c.state.multiplications += multiplications(blocks, c.problem.count)
        known = labels_of(c.problem, self.show(labels))

        def add(own: kept.Kept, rows: Block, number: int) -> None:
            kept.add(c.problem, own, known, rows, number)

        leaves.over(c.problem, self.early.kept, block, first, add)

    def end(self) -> None:
        self.early.kept.certified = True
        self.course.tell_kept()
        self.course.go_on()

    def break_off(self, reason: str) -> None:
        """Keep the weights of the best pass; nothing is proven about them."""
        self.course.finish("signal")
        self.course.progress.reason = reason
