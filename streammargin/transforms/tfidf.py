"""Rare columns count more."""

from __future__ import annotations

import numpy as np

from streammargin.transforms.base import Learned, Stored, Transform, TransformSums


class Tfidf(Transform):
    """Multiply each column by log((1 + n) / (1 + its rows that are not 0)) + 1, learned in one read of the n rows.

    With `unit` behind it, it is the default of TfidfTransformer of scikit-learn.
    """

    learns = ("factors",)

    def values(self, values: np.ndarray, rows: Stored, learned: Learned) -> np.ndarray:
        return values * rows.of_columns(learned["factors"])

    def learn(self, seen: TransformSums) -> Learned:
        return {"factors": np.log((1.0 + seen.rows) / (1.0 + seen.counts)) + 1.0}


TRANSFORMS = (Tfidf,)
