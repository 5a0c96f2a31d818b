"""The read that computes the scale of the columns."""

from __future__ import annotations

from streammargin.driver.phases.base import Phase
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import Blocks


class FindScale(Phase):
    def visit(self, blocks: Blocks, labels: RowLabels) -> None:
        [(first, block)] = blocks
        assert self.course.scaling is not None
        self.course.scaling.add(first, block, labels)

    def end(self) -> None:
        assert self.course.scaling is not None
        self.course.scaling.finish()
        self.course.begin()
