"""A cache of columns of the Gram matrix, in a bounded number of slots, which a resumed training fills again.

Products of the matrix with vectors of coefficients come from these columns, and from the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streammargin.kernels.base import Kernel
from streammargin.points.gram import RightRows
from streammargin.rows.blocks import Block, DenseBlock, taken
from streammargin.solvers.base import UNIT
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import K, Shared, i8, of, state

EMPTY_PLACE = -1
MOST_ROUND_ROWS = 1024
COLUMN_TILE = 256  # that are computed at a time
BATCH = 512  # columns of a unit that fills the cache
LEAST_KERNEL_UNIT_ROWS = 64  # of a unit
NO_ROWS = np.empty(0, np.int64)


@state
class HeldColumns:
    """Which columns the slots hold.

    `rows`, `batch`  the row of each slot, -1 for none, and the batch that computed it.
    `used`           the round of its last use.
    `batches`        (2, ...): number and row of each column of batches with columns in slots.
    `recent`         rows of the last round of each line, -1 for none.
    `bytes`          those of a value, 0 before there are any.

    The last bits of a column depend on its batch, a product of matrices. So whole batches are computed again.
    """

    rows: Shared[i8] = of(0, grows=True)
    batch: Shared[i8] = of(0, grows=True)
    used: Shared[i8] = of(0, grows=True)
    batches: Shared[i8] = of(2, 0, grows=True)
    recent: Shared[i8] = of(K, MOST_ROUND_ROWS // 2, fill=EMPTY_PLACE)
    made: int = 0
    bytes: int = 0


class Columns:
    """The columns (slots, n) of the rows of a block; `held` says what is in them, and is saved.

    numbers (n,): of the rows in the training.
    """

    def __init__(
        self, held: HeldColumns, kernel: Kernel, block: Block, numbers: np.ndarray, slots: int, dtype: Any
    ) -> None:
        self.held, self.kernel, self.block, self.numbers = held, kernel, block, numbers
        held.bytes = np.dtype(dtype).itemsize
        slots = max(held.rows.size, min(slots, numbers.size))
        more = slots - held.rows.size
        held.rows = np.append(held.rows, np.full(more, EMPTY_PLACE))
        held.batch, held.used = (
            np.append(held.batch, np.full(more, EMPTY_PLACE)),
            np.append(held.used, np.full(more, EMPTY_PLACE)),
        )
        self.values = np.empty((slots, numbers.size), dtype)  # takes no memory before it is written
        self.slot_of = np.full(numbers.size, EMPTY_PLACE, np.int64)
        self._again()

    def _again(self) -> None:
        """Fill the slots of a resumed training, batch by batch."""
        held = self.held
        filled = np.flatnonzero(held.rows >= 0)
        self.slot_of[held.rows[filled]] = filled
        for batch in np.unique(held.batch[filled]):
            rows = held.batches[1, held.batches[0] == batch]
            slots = filled[held.batch[filled] == batch]
            where = np.argsort(rows, kind="stable")
            self._compute(rows, where[np.searchsorted(rows[where], held.rows[slots])], slots)

    def _compute(self, rows: np.ndarray, which: np.ndarray, slots: np.ndarray) -> None:
        """Compute the columns of these rows, and keep those at the positions `which` in these slots."""
        few, whole = self.few(rows), which.size == rows.size and bool(np.all(np.diff(which) == 1))
        for low, values in few.tiles(self.block, 0, self.numbers.size):
            self.values[slots, low : low + len(values)] = values.T if whole else values.T[which]

    def few(self, rows: np.ndarray) -> RightRows:
        """These rows, ready for products."""
        values = None if self.kernel.of_numbers else taken(self.block, rows)
        return RightRows(self.kernel, self.numbers[rows], values, self.values.dtype)

    def take_in(self, rows: np.ndarray, staying: np.ndarray, now: int, old: int = EMPTY_PLACE) -> None:
        """Compute the columns of these rows, which no slot holds; those of the rows `staying` are not given up.

        old: columns not used since that round give up their slots before empty ones, which take new memory, are used.
        """
        held, empty = self.held, self.held.rows < 0
        used = held.used.copy()
        used[empty] = old if np.count_nonzero(~empty) > MOST_ROUND_ROWS else EMPTY_PLACE
        used[self.slot_of[staying]] = np.iinfo(np.int64).max
        slots = np.argsort(used, kind="stable")[: rows.size]
        gone = held.rows[slots]
        self.slot_of[gone[gone >= 0]] = EMPTY_PLACE
        held.rows[slots], held.batch[slots], held.used[slots] = rows, held.made, now
        self.slot_of[rows] = slots
        live = np.isin(held.batches[0], held.batch)
        new = np.stack([np.full(rows.size, held.made), rows])
        held.batches = np.concatenate([held.batches[:, live], new], axis=1)
        held.made += 1
        self._compute(rows, np.arange(rows.size), slots)

    def of(self, rows: np.ndarray, now: int) -> np.ndarray:
        """The slots of the columns of these rows, all of which are held."""
        slots = self.slot_of[rows]
        self.held.used[slots] = now
        return slots


def unit_rows(each: float) -> int:
    """How many rows a unit has, of so many multiplications each, halved."""
    return max(LEAST_KERNEL_UNIT_ROWS, int(UNIT / (2.0 * max(1.0, each))))


def fill(columns: Columns) -> bool:
    """Compute some of the first rows' columns, as many as there are slots; whether there were any left."""
    held = int(np.count_nonzero(columns.held.rows >= 0))
    more = np.arange(held, min(held + BATCH, columns.values.shape[0]))
    if more.size:
        columns.take_in(more, NO_ROWS, 0)
    return more.size > 0


def multiply_unit(
    columns: Columns, problem: Problem, block: Block, low: int, coefs: np.ndarray
) -> tuple[np.ndarray, float]:
    """(K coefs (m, r) for a unit of all rows in memory, from `low` on, multiplications of a row, halved).

    coefs (n, r). A row with a column needs no other one, as K is symmetric; a unit has only rows with one, or without.
    """
    values, rows, held = columns.values, problem.rows, columns.values.shape[0]
    each = coefs.size + (0.0 if low < held else problem.values / rows * (rows - held))
    high = min(held if low < held else rows, low + unit_rows(each))
    if low < held:
        return values[low:high] @ coefs, each
    out: np.ndarray = values[:, low:high].T @ coefs[:held]
    _add_computed(columns, block, low, high, coefs, held + np.flatnonzero(coefs[held:].any(axis=1)), out)
    return out, each


def multiply_used(columns: Columns, block: Block, low: int, high: int, coefs: np.ndarray) -> np.ndarray:
    """K coefs for rows low .. high, if any rows may have a column, by those of the rows that have coefficients."""
    used = np.flatnonzero(coefs.any(axis=1))
    slots = columns.slot_of[used]
    here, others = used[slots >= 0], used[slots < 0]
    out = np.zeros((high - low, coefs.shape[1]))
    for at in range(0, here.size, COLUMN_TILE):
        some = here[at : at + COLUMN_TILE]
        out += columns.values[columns.slot_of[some], low:high].T @ coefs[some]
    _add_computed(columns, block, low, high, coefs, others, out)
    return out


def _add_computed(
    columns: Columns, block: Block, low: int, high: int, coefs: np.ndarray, others: np.ndarray, out: np.ndarray
) -> None:
    """Add the part of these rows, whose values with the rows low .. high are computed."""
    for at in range(0, others.size, COLUMN_TILE):
        some = others[at : at + COLUMN_TILE]
        found = np.empty((high - low, some.size))
        RightRows(columns.kernel, some, taken(block, some)).values(block, low, high, found)
        out += found @ coefs[some]


def multiply_stored(kernel: Kernel, block: Block, low: int, high: int, coefs: np.ndarray) -> np.ndarray:
    """K coefs (m, r) for rows low .. high of a block of a precomputed matrix."""
    assert isinstance(block, DenseBlock)
    found: np.ndarray = block.X[low:high].astype(np.float64, copy=False) @ coefs
    return found * kernel.weight
