"""Newton's descent on one problem whose rows are in memory: a direction, and an exact search along it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from streammargin.kernels import newton as kernel

PIVOT = 1e-13  # a pivot this small, relative to its diagonal entry, is rounding
FLAT = 1e-3  # the search ends where the slope is this part of what it was
TRIALS = 60


def direction(H: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """-(I + H)^-1 gradient, (d+1,); of H (d+1, d+1) the upper triangle counts, and is overwritten.

    The gradient itself, downhill, where rounding left no way down.
    """
    found, _ = kernel.newton_direction(H, gradient, PIVOT)
    downhill = np.isfinite(found).all() and found @ gradient < 0.0
    return found if downhill else -gradient


def search(slope: float, slope_at: Callable[[float], tuple[float, float]], limit: float = math.inf) -> float:
    """The t in (0, limit) where a convex function has its minimum, roughly, from the derivatives slope_at(t).

    slope < 0 is that at 0. Newton's method from t = 1, kept in the interval that still holds the minimum.
    """
    low, high, t = 0.0, limit, min(1.0, 0.5 * limit)
    for _ in range(TRIALS):
        first, second = slope_at(t)
        if abs(first) <= FLAT * abs(slope):
            break
        if first < 0.0:
            low = t
        else:
            high = t
        t = t - first / second if second > 0.0 else math.inf
        if not low < t < high:
            t = 0.5 * (low + high) if high < math.inf else 4.0 * low
    return t


def raise_bound(image: np.ndarray, gain: float, new_image: np.ndarray, new_gain: float) -> float:
    """The best dual bound on the segment between two; `image` becomes its A^T a, its gain is returned.

    A bound is gain - 1/2 ||A^T a||^2, and the gain of a mean of duals is at least the mean of theirs.
    """
    towards = new_image - image
    length = float(towards @ towards)
    along = new_gain - gain - float(image @ towards)
    t = min(max(along / length, 0.0), 1.0) if length > 0.0 else float(along > 0.0)
    image += t * towards
    return gain + t * (new_gain - gain)
