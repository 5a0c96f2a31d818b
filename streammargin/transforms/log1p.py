"""Logarithms of counts."""

from __future__ import annotations

import numpy as np

from streammargin.transforms.base import Learned, Stored, Transform


class Log1p(Transform):
    """log(1 + x), the natural logarithm."""

    name = "log1p"

    def values(self, values: np.ndarray, rows: Stored, learned: Learned) -> np.ndarray:
        self.refuse_negative(values, rows)
        return np.log1p(values)


TRANSFORMS = (Log1p,)
