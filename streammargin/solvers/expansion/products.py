"""Products of the Gram matrix with vectors of coefficients, from a cache of columns and from the rows."""

from __future__ import annotations

import numpy as np

from streammargin.kernels.base import Kernel
from streammargin.points.gram import Few
from streammargin.rows.blocks import Block, DenseBlock, taken
from streammargin.solvers.base import UNIT
from streammargin.solvers.expansion.columns import Columns

TILE = 256  # columns that are computed at a time
BATCH = 512  # columns of a unit that fills the cache
LEAST_ROWS = 64  # of a unit
NONE = np.empty(0, np.int64)


def unit_rows(each: float) -> int:
    """How many rows a unit has, of so many multiplications each, halved."""
    return max(LEAST_ROWS, int(UNIT / (2.0 * max(1.0, each))))


def fill(columns: Columns) -> bool:
    """Compute some of the first rows' columns, as many as there are slots; whether there were any left."""
    held = int(np.count_nonzero(columns.held.rows >= 0))
    more = np.arange(held, min(held + BATCH, columns.values.shape[0]))
    if more.size:
        columns.take_in(more, NONE, 0)
    return more.size > 0


def multiply(columns: Columns, block: Block, low: int, high: int, coefs: np.ndarray) -> np.ndarray:
    """K coefs (m, r) for rows low .. high of all rows in memory, which lie on one side of those with a column.

    coefs (n, r). A row with a column needs no other one, as K is symmetric.
    """
    values, held = columns.values, columns.values.shape[0]
    if high <= held:
        return values[low:high] @ coefs
    out: np.ndarray = values[:, low:high].T @ coefs[:held]
    _add_computed(columns, block, low, high, coefs, held + np.flatnonzero(coefs[held:].any(axis=1)), out)
    return out


def multiply_used(columns: Columns, block: Block, low: int, high: int, coefs: np.ndarray) -> np.ndarray:
    """The same if any rows may have a column: K coefs by those of the rows that have coefficients."""
    used = np.flatnonzero(coefs.any(axis=1))
    slots = columns.slot_of[used]
    here, others = used[slots >= 0], used[slots < 0]
    out = np.zeros((high - low, coefs.shape[1]))
    for at in range(0, here.size, TILE):
        some = here[at : at + TILE]
        out += columns.values[columns.slot_of[some], low:high].T @ coefs[some]
    _add_computed(columns, block, low, high, coefs, others, out)
    return out


def _add_computed(
    columns: Columns, block: Block, low: int, high: int, coefs: np.ndarray, others: np.ndarray, out: np.ndarray
) -> None:
    """Add the part of these rows, whose values with the rows low .. high are computed."""
    for at in range(0, others.size, TILE):
        some = others[at : at + TILE]
        found = np.empty((high - low, some.size))
        Few(columns.kernel, some, taken(block, some)).values(block, low, high, found)
        out += found @ coefs[some]


def multiply_stored(kernel: Kernel, block: Block, low: int, high: int, coefs: np.ndarray) -> np.ndarray:
    """K coefs (m, r) for rows low .. high of a block of a precomputed matrix."""
    assert isinstance(block, DenseBlock)
    found: np.ndarray = block.X[low:high].astype(np.float64, copy=False) @ coefs
    return found * kernel.weight
