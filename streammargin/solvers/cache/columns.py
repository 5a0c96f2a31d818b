"""Columns that stay in memory between two reads: gathered out of the rows block by block, as kernels take them."""

from __future__ import annotations

import numpy as np

from streammargin.compiled import column_steps as kernel
from streammargin.compiled.column_steps import Columns
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import Lists, Stored, b1, i4, i8, new, state


@state
class ColumnCache:
    """Which columns each of K problems keeps, and the values that its rows store there, with their signs.

    sizes (d+2,): values of each column, the constant one too, and 0. chosen (d+1,): the columns kept. ends (m+1,): up
    to where each of these is gathered, in their order, and where the last one is to end; rows, values: what is. All are
    empty until they are known. Who has a cache says which columns, and when they go.
    """

    sizes: Lists[i8]
    chosen: Lists[b1]
    ends: Lists[i8]
    rows: Lists[i4]
    values: Lists[Stored]


def of_block(problem: Problem, labels: Labels, block: Block, k: int, chosen: np.ndarray) -> ColumnCache:
    """These columns (d+1,) of problem k, of a block of all rows."""
    cache = new(ColumnCache, problem)
    cache.sizes[k], cache.chosen[k] = np.append(kernel.sizes(block), 0), chosen
    open_columns(cache, k)
    gather(cache, labels, block, 0, k)
    return cache


def count(cache: ColumnCache, labels: Labels, block: Block, first: int) -> None:
    """Add up the values of each column, of the rows first .. first + m."""
    width = block.features() + 1
    place = np.arange(width, dtype=np.int32)
    for k, sizes in enumerate(cache.sizes):
        if not sizes.size:
            sizes = cache.sizes[k] = np.zeros(width + 1, np.int64)
        kernel.gather(block, first, labels, k, place, sizes, cache.rows[k][:0], cache.values[k][:0])


def open_columns(cache: ColumnCache, k: int) -> None:
    """Before a read: room for the columns that are chosen."""
    cache.ends[k] = _starts(cache, k)
    most = int(cache.ends[k][-1]) + 1
    cache.rows[k], cache.values[k] = np.zeros(most, np.int32), np.zeros(most, cache.values[k].dtype)


def is_open(cache: ColumnCache, k: int) -> bool:
    """Whether a read gathers columns of problem k, or did."""
    return cache.ends[k].size > 0


def holds(cache: ColumnCache, k: int, columns: np.ndarray) -> bool:
    """Whether these columns (m,) are kept."""
    return is_open(cache, k) and bool(cache.chosen[k][columns].all())


def gather(cache: ColumnCache, labels: Labels, block: Block, first: int, k: int) -> None:
    """What the rows first .. first + m store of the columns chosen."""
    kernel.gather(block, first, labels, k, _place(cache, k), cache.ends[k], cache.rows[k], cache.values[k])


def matrix(cache: ColumnCache, k: int, columns: np.ndarray) -> Columns:
    """These columns (m,), of those that are kept."""
    place = _place(cache, k)[columns]
    return Columns(_starts(cache, k)[place], cache.ends[k][place], cache.rows[k], cache.values[k])


def release(cache: ColumnCache, k: int) -> None:
    """Let go of what was gathered."""
    cache.ends[k], cache.rows[k] = cache.ends[k][:0].copy(), cache.rows[k][:0].copy()
    cache.values[k] = cache.values[k][:0].copy()


def _starts(cache: ColumnCache, k: int) -> np.ndarray:
    """Where each of the columns kept begins, and the end."""
    return np.append(0, np.cumsum(cache.sizes[k][:-1][cache.chosen[k]]))


def _place(cache: ColumnCache, k: int) -> np.ndarray:
    """Where each of the d + 1 columns stands among those kept, as kernels take it; how many these are for none."""
    chosen = cache.chosen[k]
    place = np.cumsum(chosen, dtype=np.int32) - 1
    place[~chosen] = np.count_nonzero(chosen)
    return place


def fits(cache: ColumnCache, rows: int, features: int) -> bool:
    """Whether the arrays of a cache that was loaded fit each other and the rows: kernels trust them."""
    return all(_fits(cache, k, rows, features + 1) for k in range(len(cache.ends)))


def _fits(cache: ColumnCache, k: int, rows: int, width: int) -> bool:
    sizes, chosen, ends, on = cache.sizes[k], cache.chosen[k], cache.ends[k], cache.rows[k]
    if sizes.size not in (0, width + 1) or chosen.size not in (0, width if sizes.size else 0):
        return False
    if (sizes < 0).any() or (sizes > rows).any() or (on < 0).any() or (on >= rows).any():
        return False
    if on.size != cache.values[k].size or ends.size != (1 + np.count_nonzero(chosen) if on.size else 0):
        return False
    if not (on.size and chosen.size):
        return not on.size
    starts = _starts(cache, k)
    return bool(starts[-1] < on.size and (ends >= starts).all() and (ends[:-1] <= starts[1:]).all())
