"""Several blocks are visited in turns within one call (rows/visits.py)."""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable


@register_jitable
def in_turn(order: np.ndarray, turn: int, turns: int) -> np.ndarray:
    """The part of an order that belongs to turn `turn` of `turns`."""
    return order[order.size * turn // turns : order.size * (turn + 1) // turns]
