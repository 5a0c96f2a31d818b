"""Which duals of entries do not follow from the factors: those at kinks of the loss, if its slope is not one number.

A model keeps them, so that its bound can be recomputed from the factors and the ratings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

NEAR = 1e-9  # share of its size within which the value of an entry is at a kink, as rounding may put it on either side
TILE = 1 << 15  # entries at a time


def kinks_of(x: np.ndarray, values: np.ndarray, loss: Any, duals: np.ndarray) -> np.ndarray:
    """Indices of the entries whose duals, added up over the terms of the loss, are not its slope at x."""
    found = [np.empty(0, np.int64)]
    for low in range(0, x.size, TILE):
        here = slice(low, low + TILE)
        found.append(low + _kinks(x[here], values[here], duals[here], loss))
    return np.concatenate(found)


def _kinks(x: np.ndarray, values: np.ndarray, duals: np.ndarray, loss: Any) -> np.ndarray:
    if loss.levels.size:
        above = values[:, None] > loss.levels
        z, low, high = loss.at + np.where(above, 1.0, -1.0), np.where(above, -1.0, 0.0), np.where(above, 0.0, 1.0)
    else:
        z, low, high = values[:, None], np.array(loss.low), np.array(loss.high)
    apart = x[:, None] - z
    near = np.abs(apart) <= NEAR * (np.abs(x[:, None]) + np.abs(z))
    slopes = np.where(apart > 0.0, high, low).sum(axis=1)
    return np.flatnonzero(near.any(axis=1) | (slopes != duals))
