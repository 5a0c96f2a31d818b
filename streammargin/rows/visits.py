"""Which rows of which blocks a kernel visits, and in which order.

A visit is (block, first, listed, order, group): the fields of the RowNumbers of its rows, and an order of the groups of
`group` consecutive rows. Random access costs a cache miss a row, a short run of neighbours costs one a group and
converges as well.

What one call visits is (visits, start, stop, turns): of `turns` turns those from start on, each a part of every order.
Between two calls the interpreter has its own work, and waits for the reader's thread while that has the lock: with a
call for every turn of every block, of about a hundred rows of text, a streamed pass took 1.5 times as long.

They are plain tuples, for a call takes half a microsecond longer for each one with names.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streammargin.rows.blocks import Block
from streammargin.rows.labels import RowNumbers

PLACES = 4  # visits of every call, so that a kernel is compiled for one number only
Visit = tuple[Block, int, np.ndarray, np.ndarray, int]
Turns = tuple[tuple[Visit, ...], int, int, int]


def visit(block: Block, numbers: RowNumbers, order: np.ndarray, group: int) -> Visit:
    """A visit of the rows of a block."""
    return block, numbers.first, numbers.listed, order, group


def take_turns(visits: Sequence[Visit], start: int, stop: int, turns: int) -> Turns:
    """Some of the turns of at most PLACES visits."""
    block, first, listed, order, group = visits[-1]
    nothing = block, first, listed, order[:0], group
    return (*visits, *(nothing,) * (PLACES - len(visits))), start, stop, turns


def all_at_once(block: Block, numbers: RowNumbers, order: np.ndarray, group: int) -> Turns:
    """One visit in one turn."""
    return take_turns([visit(block, numbers, order, group)], 0, 1, 1)
