"""Conjugate gradients with a diagonal preconditioner, on a model in memory."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray], down: np.ndarray, scale: np.ndarray, loose: float, most: int
) -> tuple[np.ndarray, float]:
    """(p with H p near `down`, the share of `down` that it leaves), after at most so many products H v.

    scale: one over the diagonal of H, or near it; loose: the share that is small enough. Both are measured with it.
    """
    found, residual = np.zeros_like(down), down.copy()
    towards = scale * residual
    begun = square = float(residual @ towards)
    for _ in range(most):
        bent = product(towards)
        bend = float(towards @ bent)
        if not bend > 0.0:  # the gradient is 0, or rounding
            break
        length = square / bend
        found += length * towards
        residual -= length * bent
        conditioned = scale * residual
        before, square = square, float(residual @ conditioned)
        if not square > loose**2 * begun:
            break
        towards = conditioned + square / before * towards
    return found, math.sqrt(square / begun) if begun > 0.0 else 0.0
