"""The read that compares rows of possibly changed files with the saved hashes, before a training resumes."""

from __future__ import annotations

from dataclasses import replace

from streammargin.driver.course import Course
from streammargin.driver.phases.base import Phase
from streammargin.driver.prefetch import BlockReader
from streammargin.driver.progress import IDENTITY, SCALING
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import Blocks


class Identity(Phase):
    """Reads each doubted source once; the source compares the rows. The saved progress is set aside meanwhile."""

    def __init__(self, course: Course, reader: BlockReader) -> None:
        super().__init__(course, reader)
        self._aside = course.progress

    @property
    def reader(self) -> BlockReader:
        c = self.course
        if c.validator is not None and c.doubted[0]:
            return c.validator.reader
        return c.scaling.reader if c.scaling is not None and self._aside.phase == SCALING else c.reader

    def put_off(self) -> None:
        """Set the progress aside until doubted sources, if any, are read."""
        if self.course.doubted:
            self._aside = self.course.progress
            self.course.progress = replace(self._aside)
            self._next()

    def _next(self) -> None:
        self.course.progress.go(IDENTITY)
        self._counts = replace(self.reader.counts)

    def visit(self, blocks: Blocks, labels: RowLabels) -> None:
        pass

    def end(self) -> None:
        c = self.course
        vars(self.reader.counts).update(vars(self._counts))  # this read does not count
        c.watched[c.doubted[0]].settle()
        c.doubted = c.doubted[1:]
        if c.doubted:
            self._next()
        else:
            c.progress = self._aside

    def break_off(self, reason: str) -> None:
        """End with the progress that was saved."""
        self.course.progress = self._aside
        self.course.finish("signal")
        self.course.progress.reason = reason
