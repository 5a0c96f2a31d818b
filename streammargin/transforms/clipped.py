"""A scale whose values are clipped: weights cannot absorb it, so the model takes it as its last step."""

from __future__ import annotations

import numpy as np

from streammargin.transforms.base import POSITIVE, Learned, Stored, Transform
from streammargin.words import needed


class Clipped(Transform):
    """Each column (x - center) * factor, clipped to -most .. most; sparse columns have the center 0."""

    most: float = needed(POSITIVE, "the largest absolute value")
    learns = ("center", "factor")  # by the read of `scale`

    def values(self, values: np.ndarray, rows: Stored, learned: Learned) -> np.ndarray:
        if rows.columns is None:
            values = values - rows.of_columns(learned["center"])
        return np.clip(values * rows.of_columns(learned["factor"]), -self.most, self.most)
