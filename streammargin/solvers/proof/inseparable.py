"""Rows that nothing separates, as they are equal: a proof that rounding cannot touch."""

from __future__ import annotations

import numpy as np

from streammargin.kernels.base import Kernel
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock, alone, part, taken, values_of

TILE = 1024  # rows whose hashes are computed at a time
MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9], np.uint64)  # odd numbers without a pattern
SHIFT = np.uint64(29)


def inseparable(kernel: Kernel | None, rows: Block, sides: np.ndarray) -> bool:
    """Whether two equal rows are on different sides (m,) int; 0 is none.

    The margin of an expansion is the root of a sum. If a bound on it is 0 up to rounding, it may still be 1e-8 of the
    longest row, so the bound proves little. Of precomputed values no rows are known.
    """
    if kernel is not None and kernel.of_numbers:
        return False
    own = np.flatnonzero(sides)
    hashes = np.concatenate([hashes_of(part(rows, low, low + TILE)) for low in range(0, rows.rows(), TILE)] or [own])
    own = own[np.lexsort((sides[own], hashes[own]))]
    first, second = own[:-1], own[1:]
    pairs = np.flatnonzero((hashes[first] == hashes[second]) & (sides[first] != sides[second]))
    return any(_equal(taken(rows, own[at : at + 2])) for at in pairs.tolist())


def empty(rows: Block) -> np.ndarray:
    """Which rows (m,) are all 0. If K(x, x) of another row is 0, it has underflowed."""
    if isinstance(rows, CSRBlock):
        return np.diff(np.append(0, np.cumsum(rows.data != 0.0))[rows.indptr]) == 0
    found: np.ndarray = ~np.any(rows.X, axis=1)
    return found


def hashes_of(rows: Block) -> np.ndarray:
    """A number (m,) uint64 for each row; equal rows have equal ones."""
    rows = alone(rows)
    values = values_of(rows) + 0.0  # -0.0 is 0.0
    bits = values.view(np.uint32 if values.dtype.itemsize == 4 else np.uint64).astype(np.uint64)
    if isinstance(rows, DenseBlock):
        return bits @ _mixed(np.arange(rows.X.shape[1]))
    sums = np.cumsum(np.concatenate([np.zeros(1, np.uint64), bits * _mixed(rows.indices)]))  # overflows, as it may
    found: np.ndarray = np.diff(sums[rows.indptr])
    return found


def _mixed(columns: np.ndarray) -> np.ndarray:
    found = (columns.astype(np.uint64) + np.uint64(1)) * MULTIPLIERS[0]
    found ^= found >> SHIFT
    mixed: np.ndarray = found * MULTIPLIERS[1] | np.uint64(1)
    return mixed


def _equal(two: Block) -> bool:
    if isinstance(two, DenseBlock):
        return bool(np.array_equal(two.X[0], two.X[1]))
    there, second = two.data != 0.0, np.arange(two.data.size) >= two.indptr[1]
    return all(np.array_equal(one[there & ~second], one[there & second]) for one in (two.indices, two.data))
