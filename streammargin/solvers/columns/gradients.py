"""The minimum of a quadratic model in memory: by conjugate gradients with a diagonal preconditioner, or a factor."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from streammargin.compiled import newton as kernel

PIVOT = 1e-13  # a pivot below this times its diagonal entry is rounding


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


def direction(H: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """-(I + H)^-1 gradient, (d+1,); of H (d+1, d+1) the upper triangle counts, and is overwritten.

    Falls back to -gradient if rounding leaves no descent direction.
    """
    found, _ = kernel.newton_direction(H, gradient, PIVOT)
    return found if -math.inf < found @ gradient < 0.0 else -gradient  # also if it is nan
