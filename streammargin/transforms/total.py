"""Rows of one sum."""

from __future__ import annotations

import numpy as np

from streammargin.transforms.base import POSITIVE, Learned, RowFault, Stored, Transform
from streammargin.words import entry


class Total(Transform):
    """Divide each row by its sum, and multiply it by `sum`; a row of zeros stays. For counts of cells or words."""

    sum: float = entry(1e4, POSITIVE, "of the values of each row")

    def values(self, values: np.ndarray, rows: Stored, learned: Learned) -> np.ndarray:
        sums = rows.sums(values)
        wrong = sums <= 0.0
        if wrong.any() and (values[rows.of_rows(wrong)] != 0.0).any():
            row = int(np.flatnonzero(wrong & (rows.sums(np.abs(values)) > 0.0))[0])
            raise RowFault(row, f" adds up to {sums[row]:g}, and the step {self} divides by it; leave the step out")
        return values * rows.of_rows(np.divide(self.sum, sums, out=np.zeros(sums.size), where=~wrong))


TRANSFORMS = (Total,)
