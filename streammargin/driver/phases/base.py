"""The interface of a phase."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from streammargin.driver.course import Course
from streammargin.driver.prefetch import BlockReader
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import Blocks, Share


class Phase(ABC):
    """Reads the rows for one purpose: begin, visit the blocks, end; `end` chooses the next phase.

    A visit or an end may take several calls, one per unit of work; between two the run can be stopped and saved. Each
    call returns the share that is done, and None at the end (see `Solver`). A phase keeps its state in the course.
    """

    course: Course

    def __init__(self, course: Course, reader: BlockReader) -> None:
        self.course, self._reader = course, reader

    @property
    def reader(self) -> BlockReader:
        """The reader of its rows."""
        return self._reader

    @property
    def blocks_per_step(self) -> int:
        """Blocks per visit."""
        return 1

    def begin(self) -> None:
        """Set the order of the blocks; here: each once, in the order of the rows."""
        self.course.progress.order = np.arange(len(self.reader.bounds) - 1)

    @abstractmethod
    def visit(self, blocks: Blocks, labels: RowLabels) -> Share:
        """Process these blocks, one unit per call; labels: they cover the blocks' rows."""

    def show(self, labels: RowLabels) -> Any:
        """The solver's state, with these labels, while blocks of its rows are visited."""
        state = self.course.state
        state.labels = labels
        return state

    @abstractmethod
    def end(self) -> Share:
        """Finish after the last block, one unit per call, and go to the next phase."""

    def break_off(self, reason: str) -> None:
        """End the training within or before this read: at once after a signal, else with the last certified weights."""
        if reason != "signal":
            self.course.progress.ending = reason
        self.course.finish(reason)
