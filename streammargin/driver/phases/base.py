"""What a run asks of a phase."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from streammargin.driver.course import Course
from streammargin.driver.prefetch import BlockReader
from streammargin.solvers.base import Blocks, Share


class Phase(ABC):
    """Reads of rows for one purpose. Each begins, visits blocks and ends; its end says what comes next.

    A visit and an end may take several units, a call each, between which the run can be stopped and saved: they return
    which share is done, and None at last (see `Solver`). All that is to be saved lies in the course of the run.
    """

    def __init__(self, course: Course, reader: BlockReader) -> None:
        self.course, self._reader = course, reader

    @property
    def reader(self) -> BlockReader:
        """Of its rows."""
        return self._reader

    @property
    def blocks_per_step(self) -> int:
        """Blocks that are visited at once."""
        return 1

    def begin(self) -> None:
        """Say in which order blocks are visited; here: each once, in the order of the rows."""
        self.course.progress.order = np.arange(len(self.reader.bounds) - 1)

    @abstractmethod
    def visit(self, blocks: Blocks) -> Share:
        """Take these blocks, in units."""

    @abstractmethod
    def end(self) -> Share:
        """After the last block, in units, and then on to the next phase."""

    def break_off(self, reason: str) -> None:
        """End the training within this read, or before it: at once where a signal came, else with what is known."""
        if reason != "signal":
            self.course.progress.ending = reason
        self.course.finish(reason)
