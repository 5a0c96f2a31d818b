"""Several blocks are visited in turns within one call (rows/visits.py)."""

from __future__ import annotations

from numba.extending import register_jitable


@register_jitable
def in_turn(order, turn, turns):
    """The part of an order that belongs to turn `turn` of `turns`."""
    return order[order.size * turn // turns : order.size * (turn + 1) // turns]
