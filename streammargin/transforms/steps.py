"""The steps that come with the package: of counts, of rows, and what a scale that clips does to each column."""

from __future__ import annotations

import numpy as np

from streammargin.transforms.base import POSITIVE, Learned, RowFault, Seen, Stored, Transform
from streammargin.words import entry, needed


class Log1p(Transform):
    """log(1 + x), the natural logarithm."""

    name = "log1p"

    def values(self, values: np.ndarray, rows: Stored, learned: Learned) -> np.ndarray:
        self.refuse_negative(values, rows)
        return np.log1p(values)


class Sqrt(Transform):
    """The square root, which makes the variances of counts alike."""

    def values(self, values: np.ndarray, rows: Stored, learned: Learned) -> np.ndarray:
        self.refuse_negative(values, rows)
        return np.sqrt(values)


class Tfidf(Transform):
    """Multiply each column by log((1 + n) / (1 + its rows that are not 0)) + 1, learned in one read of the n rows.

    With `unit` behind it, it is the default of TfidfTransformer of scikit-learn.
    """

    learns = ("factors",)

    def values(self, values: np.ndarray, rows: Stored, learned: Learned) -> np.ndarray:
        return values * rows.of_columns(learned["factors"])

    def learn(self, seen: Seen) -> Learned:
        return {"factors": np.log((1.0 + seen.rows) / (1.0 + seen.counts)) + 1.0}


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


class Unit(Transform):
    """Divide each row by its Euclidean length; a row of zeros stays. For embeddings, and for words after tfidf."""

    def values(self, values: np.ndarray, rows: Stored, learned: Learned) -> np.ndarray:
        lengths = np.sqrt(rows.sums(values * values))
        return values / rows.of_rows(np.where(lengths > 0.0, lengths, 1.0))


class Clipped(Transform):
    """Each column (x - center) * factor, clipped to -most .. most; sparse columns have the center 0.

    It is no word of `transform`: weights cannot absorb a scale that clips, so the model takes it as its last step.
    """

    most: float = needed(POSITIVE, "the largest absolute value")
    learns = ("center", "factor")  # by the read of `scale`

    def values(self, values: np.ndarray, rows: Stored, learned: Learned) -> np.ndarray:
        if rows.columns is None:
            values = values - rows.of_columns(learned["center"])
        return np.clip(values * rows.of_columns(learned["factor"]), -self.most, self.most)


TRANSFORMS = (Log1p, Sqrt, Tfidf, Total, Unit)
