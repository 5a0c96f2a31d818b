"""The solver's passes over the rows."""

from __future__ import annotations

import logging
from typing import Any

from streammargin.driver.course import Course
from streammargin.driver.gain import Gain
from streammargin.driver.phases.base import Phase
from streammargin.driver.prefetch import BlockReader
from streammargin.driver.progress import CERTIFICATE, SCORES
from streammargin.driver.telling import pass_event
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import Blocks, PassReport, Share, multiplications
from streammargin.wording import Message

LOG = logging.getLogger("streammargin")


class Pass(Phase):
    """A visit takes as many blocks at once as the solver wants."""

    def __init__(self, course: Course, reader: BlockReader) -> None:
        super().__init__(course, reader)
        self.gain: Gain = Gain()

    @property
    def blocks_per_step(self) -> int:
        # a stage may visit fewer blocks at once than planned for, not more
        return min(self.course.method.blocks_per_step, self.course.solver.blocks_per_step)

    def begin(self) -> None:
        c, p = self.course, self.course.progress
        p.number += 1
        if p.due:
            self._change_stage()
        c.solver.begin_pass(c.problem, c.state, p.number)
        p.order = c.solver.order(c.problem, c.state, p.number, len(self.reader.bounds) - 1)

    def _change_stage(self) -> None:
        """Replace the current stage by the one that is due."""
        c, p, before = self.course, self.course.progress, self.course.state
        after: Any = c.stages[p.due].enter(c.problem, before, c.watch)
        after.labels, after.number, after.multiplications = before.labels, before.number, before.multiplications
        c.state, p.stage, p.due = after, p.due, ""

    def visit(self, blocks: Blocks, labels: RowLabels) -> Share:
        c = self.course
        share = c.solver.run_blocks(c.problem, self.show(labels), c.active, blocks)
        if c.ranges is not None and share is None:
            for first, block in blocks:
                c.ranges.add(first, block, labels)
        if share is None:
            c.state.multiplications += multiplications(blocks, c.problem.lines * c.active.size)
        return share

    def end(self) -> Share:
        c, p = self.course, self.course.progress
        report = c.solver.end_pass(c.problem, c.state, c.active)
        if isinstance(report, float):
            return report
        p.due = c.stages[p.stage].leave(c.problem, c.state, c.watch, report, c.active)
        p.estimate = max([0.0, *report.estimate[c.active].tolist()])
        scored = c.early is not None and p.ending is None
        self._tell(report, scored)
        whole = p.position == len(p.order)  # it covers all rows
        p.certify = report.certificate is None and self._due(report)
        if c.early is not None and scored:
            c.early.count_for(c.active)
            if report.certificate is not None and whole:
                c.note(report.certificate, report.wrong)
            p.go(SCORES)
        elif report.certificate is not None and whole:
            c.judge(report.certificate, report.wrong, swept=False)
        elif p.certify:
            p.go(CERTIFICATE)
        else:
            c.go_on()
        return None

    def _due(self, report: PassReport) -> bool:
        """Whether a certificate is due."""
        c, p = self.course, self.course.progress
        if report.still and p.ending is None:
            p.ending = "passes"  # more of them would change nothing
        return p.ending is not None or p.stopping.due(report.estimate, c.active)

    def _tell(self, report: PassReport, scored: bool) -> None:
        """Publish the event of the pass; scored: later, once its held-out error is known."""
        c, p = self.course, self.course.progress
        spent = c.clock.spent(p.spent, self.reader.counts)
        reads = self.reader.counts.bytes_read / max(1, c.problem.size)
        event = pass_event(p, c.problem, report, spent, reads, c.state.multiplications)
        if scored:
            p.pass_end = event
        else:
            c.history.publish(event)
        if c.ranges is not None:
            p.ranges, c.ranges = c.ranges.remark(), None
            if p.ranges is not None:
                LOG.warning(Message(p.ranges), extra={"code": "scale"})
        if (text := self.gain.remark(p.estimate, report.certificate or p.figures or [])) is not None:
            LOG.warning(Message(text if p.ranges is None else f"{text}; {p.ranges}"), extra={"code": "no_gain"})

    def break_off(self, reason: str) -> None:
        c, p = self.course, self.course.progress
        if reason != "signal" and p.order.size:
            p.ending = reason
            c.solver.skip_remaining(c.problem, c.state)
            self.end()
        elif reason != "signal" and p.judged < p.number:
            p.ending = reason
            p.go(CERTIFICATE)
        else:
            super().break_off(reason)
