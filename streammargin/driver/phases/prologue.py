"""The reads that a solver needs before its first pass, such as row norms."""

from __future__ import annotations

from streammargin.driver.phases.base import Phase
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import Blocks, Share, multiplications


class Prologue(Phase):
    def visit(self, blocks: Blocks, labels: RowLabels) -> Share:
        [(first, block)] = blocks
        c = self.course
        share = c.solver.prologue_block(c.problem, self.show(labels), c.progress.round, block, first)
        if share is None:
            c.state.multiplications += multiplications(blocks, c.problem.count)
        return share

    def end(self) -> None:
        self.course.progress.round += 1
        self.course.progress.go(self.course.after_scaling())
