"""A cache of columns in memory between reads, gathered from the rows block by block."""

from __future__ import annotations

import numpy as np

from streammargin.compiled import column_steps as kernel
from streammargin.compiled.column_steps import SignedColumns
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import Axis, K, Lists, Stored, Sum, b1, i4, i8, new, of, state

COUNTS = Axis(lambda problem: problem.features + 2, name="d+2")


@state
class ColumnCache:
    """The columns that each of K problems has in the cache, and their signed values.

    sizes: number of values in each column, the constant included, and 0; chosen (d+1,) bool: the cached columns; ends
    (m+1,): end of the gathered part of each of them, and the end of the last; rows, values: the entries. They are empty
    until they are known. The owner of the cache chooses the columns, and when to release them.
    """

    sizes: Sum[i8] = of(K, COUNTS)
    chosen: Lists[b1]
    ends: Lists[i8]
    rows: Lists[i4]
    values: Lists[Stored]


def of_block(problem: Problem, labels: Labels, block: Block, k: int, chosen: np.ndarray) -> ColumnCache:
    """A cache with the chosen columns (d+1,) of problem k, from a block of all rows."""
    cache = new(ColumnCache, problem)
    cache.sizes[k], cache.chosen[k] = np.append(kernel.sizes(block), 0), chosen
    open_columns(cache, k)
    gather(cache, labels, block, 0, k)
    return cache


def count(cache: ColumnCache, labels: Labels, block: Block, first: int) -> None:
    """Add the numbers of values in each column over the rows first .. first + m."""
    width = block.features() + 1
    place = np.arange(width, dtype=np.int32)
    for k, sizes in enumerate(cache.sizes):
        kernel.gather(block, first, labels, k, place, sizes, cache.rows[k][:0], cache.values[k][:0])


def open_columns(cache: ColumnCache, k: int) -> None:
    """Before a read: allocate memory for the chosen columns."""
    cache.ends[k] = _starts(cache, k)
    most = int(cache.ends[k][-1]) + 1
    cache.rows[k], cache.values[k] = np.zeros(most, np.int32), np.zeros(most, cache.values[k].dtype)


def is_open(cache: ColumnCache, k: int) -> bool:
    """Whether columns of problem k are being gathered, or are complete."""
    return cache.ends[k].size > 0


def holds(cache: ColumnCache, k: int, columns: np.ndarray) -> bool:
    """Whether these columns (m,) are in the cache."""
    return is_open(cache, k) and bool(cache.chosen[k][columns].all())


def gather(cache: ColumnCache, labels: Labels, block: Block, first: int, k: int) -> None:
    """Append the values of the chosen columns in the rows first .. first + m."""
    kernel.gather(block, first, labels, k, _place(cache, k), cache.ends[k], cache.rows[k], cache.values[k])


def matrix(cache: ColumnCache, k: int, columns: np.ndarray) -> SignedColumns:
    """These cached columns (m,), for kernels."""
    place = _place(cache, k)[columns]
    return SignedColumns(_starts(cache, k)[place], cache.ends[k][place], cache.rows[k], cache.values[k])


def release(cache: ColumnCache, k: int) -> None:
    """Free the gathered columns."""
    cache.ends[k], cache.rows[k] = cache.ends[k][:0].copy(), cache.rows[k][:0].copy()
    cache.values[k] = cache.values[k][:0].copy()


def _starts(cache: ColumnCache, k: int) -> np.ndarray:
    """The start of each cached column, and the end."""
    return np.append(0, np.cumsum(cache.sizes[k][:-1][cache.chosen[k]]))


def _place(cache: ColumnCache, k: int) -> np.ndarray:
    """The index (d+1,) of each column among the cached ones; their number for others."""
    chosen = cache.chosen[k]
    place = np.cumsum(chosen, dtype=np.int32) - 1
    place[~chosen] = np.count_nonzero(chosen)
    return place


def fits(cache: ColumnCache, rows: int, features: int) -> bool:
    """Whether the arrays of a loaded cache are consistent; kernels do not check them."""
    return all(_fits(cache, k, rows, features + 1) for k in range(len(cache.ends)))


def _fits(cache: ColumnCache, k: int, rows: int, width: int) -> bool:
    sizes, chosen, ends, on = cache.sizes[k], cache.chosen[k], cache.ends[k], cache.rows[k]
    if chosen.size not in (0, width if sizes.any() else 0):
        return False
    if (sizes < 0).any() or (sizes > rows).any() or (on < 0).any() or (on >= rows).any():
        return False
    if on.size != cache.values[k].size or ends.size != (1 + np.count_nonzero(chosen) if on.size else 0):
        return False
    if not (on.size and chosen.size):
        return not on.size
    starts = _starts(cache, k)
    return bool(starts[-1] < on.size and (ends >= starts).all() and (ends[:-1] <= starts[1:]).all())
