"""Square roots of counts."""

from __future__ import annotations

import numpy as np

from streammargin.transforms.base import Learned, Stored, Transform


class Sqrt(Transform):
    """The square root, which makes the variances of counts alike."""

    def values(self, values: np.ndarray, rows: Stored, learned: Learned) -> np.ndarray:
        self.refuse_negative(values, rows)
        return np.sqrt(values)


TRANSFORMS = (Sqrt,)
