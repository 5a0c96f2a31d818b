"""The damped weight of the constant in coordinate ascent: see solvers/coordinate/slow_constant.py."""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled.sleep import AHEAD


@register_jitable
def damped(image: float, centre: float, damping: float) -> float:
    """The constant's weight as used by the rows; image: its entry of A^T alpha."""
    return centre + damping * (image - centre)


@register_jitable
def enter(theta: np.ndarray, centre: float, damping: float) -> None:
    """Transform theta (d+1,) for rows whose constant column is multiplied by sqrt(damping)."""
    if damping < 1.0:
        theta[theta.size - 1] = damped(theta[theta.size - 1], centre, damping) / math.sqrt(damping)


@register_jitable
def leave(theta: np.ndarray, centre: float, damping: float) -> None:
    """Undo `enter`, keeping what the rows have added."""
    if damping < 1.0:
        last = theta.size - 1
        theta[last] = centre + (math.sqrt(damping) * theta[last] - centre) / damping


@register_jitable
def follow(image: float, centre: float, damping: float, rows: float) -> float:
    """The new centre after so many rows; image: the constant's entry of A^T alpha."""
    return centre + min(1.0, rows / AHEAD) * (damped(image, centre, damping) - centre) if damping < 1.0 else centre
