"""The read that finds which classes are predicted for at least one row."""

from __future__ import annotations

import numpy as np

from streammargin.driver.course import Course
from streammargin.driver.phases.base import Phase
from streammargin.driver.prefetch import BlockReader
from streammargin.driver.progress import DONE
from streammargin.driver.validate import Predictions
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import Blocks


class Look(Phase):
    """Ends early once every class was predicted."""

    def __init__(self, course: Course, reader: BlockReader, predictions: Predictions) -> None:
        super().__init__(course, reader)
        self.predictions = predictions

    def begin(self) -> None:
        self.course.progress.predicted = np.zeros(len(self.predictions.present), bool)
        super().begin()

    def visit(self, blocks: Blocks, labels: RowLabels) -> None:
        [(first, block)] = blocks
        p = self.course.progress
        assert p.predicted is not None
        self.predictions.add(self.course.outcome(), p.predicted, first, block, labels)
        if p.predicted.all():
            p.order = p.order[: p.position + 1]

    def end(self) -> None:
        self.course.progress.go(DONE)

    def break_off(self, reason: str) -> None:
        """End with the predicted classes unknown."""
        self.course.progress.predicted = None
        self.course.progress.go(DONE)
