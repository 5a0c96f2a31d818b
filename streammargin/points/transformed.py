"""An answer for rows after some steps, as one for rows as stored."""

from __future__ import annotations

import numpy as np

from streammargin.points.base import Answer, exact
from streammargin.points.before import Before
from streammargin.rows.blocks import Block, alone, part, stored
from streammargin.transforms.base import RowFault
from streammargin.transforms.chain import STEPPED_VALUES, Chain


class Transformed:
    """answer: for rows after the steps. order: which column of a row each column of these is, -1 for a missing one.

    A missing column is 0 before the steps. None: the same columns.
    """

    def __init__(self, answer: Answer, steps: Chain, features: int, order: np.ndarray | None) -> None:
        self.answer, self.steps, self.before = answer, steps, Before(features, columns=order)

    @property
    def outputs(self) -> int:
        """K, the number of scores per row."""
        return self.answer.outputs

    def rows(self, block: Block) -> Block:
        """The rows (m, columns) after the steps. RowFault."""
        return self.steps.rows(self.before.rows(alone(block)))

    def score(self, block: Block, first: int, scores: np.ndarray) -> None:
        """Fill scores (m, K) for the rows first .. first + m of the block. RowFault, numbered from `first`."""
        each = max(1, STEPPED_VALUES * block.rows() // max(1, stored(block)))
        for low in range(0, len(scores), each):
            high = min(len(scores), low + each)
            try:
                rows = self.rows(part(block, first + low, first + high))
            except RowFault as fault:
                fault.row += low
                raise
            self.answer.score(rows, 0, scores[low:high])

    def exactly(self) -> Transformed:
        """The same, whose scores are by float64 alone."""
        return Transformed(exact(self.answer), self.steps, self.before.features, self.before.columns)
