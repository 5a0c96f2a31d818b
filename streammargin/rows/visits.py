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

from streammargin.rows.blocks import Block, values_of
from streammargin.rows.labels import RowNumbers

GROUP_BYTES = 16384  # a random run of neighbours costs one cache miss for so many bytes
GROUP_ROWS = 24  # of that at most: runs of many rows would slow convergence
PLACES = 4  # visits of every call, so that a kernel is compiled for one number only
Visit = tuple[Block, int, np.ndarray, np.ndarray, int]
Turns = tuple[tuple[Visit, ...], int, int, int]


def group_of(block: Block) -> int:
    """How many consecutive rows a random visit takes together."""
    rows = block.rows()
    bytes_a_row = values_of(block).nbytes / rows
    return int(min(GROUP_ROWS, max(1, GROUP_BYTES // (bytes_a_row + 1)), max(1, rows // 256)))


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
