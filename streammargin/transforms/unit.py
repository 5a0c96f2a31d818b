"""Rows of length 1."""

from __future__ import annotations

import numpy as np

from streammargin.transforms.base import Learned, Stored, Transform


class Unit(Transform):
    """Divide each row by its Euclidean length; a row of zeros stays. For embeddings, and for words after tfidf."""

    def values(self, values: np.ndarray, rows: Stored, learned: Learned) -> np.ndarray:
        lengths = np.sqrt(rows.sums(values * values))
        return values / rows.of_rows(np.where(lengths > 0.0, lengths, 1.0))


TRANSFORMS = (Unit,)
