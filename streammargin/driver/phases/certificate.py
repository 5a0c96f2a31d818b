"""The read that computes the exact figures of frozen weights."""

from __future__ import annotations

from functools import partial

import numpy as np

from streammargin.driver.phases.base import Phase
from streammargin.rows.labels import RowLabels
from streammargin.solvers import leaves
from streammargin.solvers.base import Blocks, multiplications


class Certificate(Phase):
    def begin(self) -> None:
        c = self.course
        c.solver.begin_certificate(c.problem, c.state, c.active)
        super().begin()

    def visit(self, blocks: Blocks, labels: RowLabels) -> None:
        [(first, block)] = blocks
        c = self.course
        c.state.multiplications += multiplications(blocks, c.problem.count)
        leaves.over(c.problem, self.show(labels), block, first, partial(c.solver.certify_block, c.problem))

    def end(self) -> None:
        c = self.course
        figures, wrong = c.solver.end_certificate(c.problem, c.state)
        gaps = [f.margin_gap if f.gap is None else f.gap for f in figures]
        c.progress.stopping.learn(np.array([np.inf if g is None else g for g in gaps]), c.active)
        c.judge(figures, wrong, swept=True)

    def break_off(self, reason: str) -> None:
        self.course.finish(reason)
