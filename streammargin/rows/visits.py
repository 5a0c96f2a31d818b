"""Which rows of which blocks a kernel visits, and in which order.

A visit is (block, first, listed, order, group): a block, the fields of its RowNumbers, and a permutation of its groups
of `group` consecutive rows. Rows in random order cost a cache miss each; groups of neighbours cost one per group, and
converge as fast.

One kernel call gets (visits, start, stop, turns). Each order is split into `turns` parts; the call visits the parts
start .. stop of all blocks in turn. Each call has overhead, and waits while the reader thread holds the interpreter
lock. With one call per turn and block, of about a hundred sparse rows, a streamed pass took 1.5 times as long.

They are plain tuples, as each named tuple adds half a microsecond to a call.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streammargin.rows.blocks import Block, values_of
from streammargin.rows.labels import RowNumbers

GROUP_BYTES = 16384  # most bytes of a group of neighbouring rows
GROUP_ROWS = 24  # most rows of a group: larger groups would slow convergence
VISITS_PER_CALL = 4  # always, so that a kernel is compiled for one number only
Visit = tuple[Block, int, np.ndarray, np.ndarray, int]
Turns = tuple[tuple[Visit, ...], int, int, int]


def group_of(block: Block) -> int:
    """The number of consecutive rows in a group."""
    rows = block.rows()
    bytes_a_row = values_of(block).nbytes / rows
    return int(min(GROUP_ROWS, max(1, GROUP_BYTES // (bytes_a_row + 1)), max(1, rows // 256)))


def visit(block: Block, numbers: RowNumbers, order: np.ndarray, group: int) -> Visit:
    """A visit of a block."""
    return block, numbers.first, numbers.listed, order, group


def take_turns(visits: Sequence[Visit], start: int, stop: int, turns: int) -> Turns:
    """The turns start .. stop of at most VISITS_PER_CALL visits."""
    block, first, listed, order, group = visits[-1]
    nothing = block, first, listed, order[:0], group
    return (*visits, *(nothing,) * (VISITS_PER_CALL - len(visits))), start, stop, turns


def in_turn(order: np.ndarray, turn: int, turns: int) -> np.ndarray:
    """The part of an order that belongs to turn `turn` of `turns`."""
    return order[order.size * turn // turns : order.size * (turn + 1) // turns]


def all_at_once(block: Block, numbers: RowNumbers, order: np.ndarray, group: int) -> Turns:
    """One visit in one turn."""
    return take_turns([visit(block, numbers, order, group)], 0, 1, 1)
