"""A bias for weights that were found without one."""

from __future__ import annotations

import numpy as np

from streammargin.errors import DataError


def centred_bias(scores: np.ndarray, y: np.ndarray) -> float:
    """b that puts the hyperplane x.w + b = 0 midway between the classes (homotopic paper, eq. (15)).

    scores (n,) are the x_i.w of the rows, y (n,) their signs, 1 or -1. |b - b*| <= max ||x_i|| ||w - w*|| for the
    widest separator (w*, b*). Raises DataError unless both classes have a row.
    """
    positive = np.asarray(y) > 0
    if not positive.any() or positive.all():
        raise DataError("a bias midway between the classes needs a row of each class")
    return -0.5 * float(np.min(scores[positive])) - 0.5 * float(np.max(scores[~positive]))
