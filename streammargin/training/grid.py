"""The values of C that folds try without any given, by the lengths of some rows as `scale` leaves them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from streammargin.driver.learn.ranges import CONSTANT, much_apart
from streammargin.driver.learn.steps import far_from_0
from streammargin.errors import BudgetError
from streammargin.options.steps import parts_of
from streammargin.options.table import Options
from streammargin.rows.blocks import CSRBlock, values_of
from streammargin.sources.base import Source
from streammargin.sources.checks import check_block
from streammargin.wording import note, warn

# values of C times the mean ||x||^2: half a decade apart; a decade and two decades, if there is not enough memory
GRIDS = tuple(np.logspace(-4.0, 2.0, count) for count in (13, 7, 4))


def reads_rows(options: Options) -> bool:
    """Whether the grid follows from some rows."""
    return options.map is None and options.kernel is None and parts_of(options.scale)[0] != "std"


@np.errstate(over="ignore", invalid="ignore")
def grid_of(source: Source, options: Options, grid: np.ndarray) -> list[float]:
    """The grid over the mean of ||x||^2 as the solver has it, about."""
    scale, mean = parts_of(options.scale)[0], float(source.features)
    if options.map is not None or options.kernel is not None:
        mean = 1.0  # of kernels that are 1 for a row and itself
    elif scale == "maxabs":
        largest = _largest(source)
        mean = _mean_square(source, np.where(largest > 0.0, largest, 1.0))
    elif scale != "std" and not (scale == "auto" and _auto_scales(source)):
        mean = _mean_square(source)
    mean = mean if math.isfinite(mean) else float(source.features)
    mean += options.column([1.0]) ** 2
    return [float(f"{C:.3g}") for C in grid / (mean or 1.0)]


def tell_grid(costs: Sequence[float], refusals: Sequence[BudgetError]) -> None:
    """Say which values of C are tried, once for each trial; refusals: of grids with more values."""
    costs = sorted(set(costs))
    tried = f"`cv` tries {len(costs)} values of C, {costs[0]:g} to {costs[-1]:g}"
    if refusals:
        warn(f"{tried}; {len(GRIDS[0])} need at least `memory={refusals[0].least >> 20}M`", "memory")
    else:
        note(tried)


def _some_values(source: Source) -> Iterator[tuple[np.ndarray | None, np.ndarray, int]]:
    """The values of some rows, from a few places, their columns if these are sparse, and the number of rows."""
    bounds = source.bounds(1 << 20)
    buffer = source.allocate(bounds)
    for low, high in source.some_rows(bounds):
        block = check_block(source, source.read(low, high, buffer), low)
        values, columns = values_of(block), None
        if isinstance(block, CSRBlock):
            stored = slice(block.indptr[0], block.indptr[-1])
            columns, values = block.indices[stored], values[stored]
        yield columns, values, high - low


def _largest(source: Source) -> np.ndarray:
    """The largest |x| of each column (d,) in some rows."""
    found = np.zeros(source.features)
    for columns, values, _rows in _some_values(source):
        if columns is None:
            np.maximum(found, np.abs(values).max(axis=0, initial=0.0), out=found)
        else:
            np.maximum.at(found, columns, np.abs(values))
    return found


def _auto_scales(source: Source) -> bool:
    """Whether `scale=auto` divides by standard deviations, by some rows."""
    apart = much_apart(_largest(source))
    if apart or source.sparse:
        return apart
    seen, (total, squares) = 0, np.zeros((2, source.features))
    for _columns, values, rows in _some_values(source):
        total += values.sum(axis=0, dtype=np.float64)
        squares += np.square(values, dtype=np.float64).sum(axis=0)
        seen += rows
    mean, square = total / max(1, seen), squares / max(1, seen)
    variance = square - mean**2
    return far_from_0(mean, np.sqrt(np.where(variance > CONSTANT * square, variance, 0.0)))


def _mean_square(source: Source, sizes: np.ndarray | None = None) -> float:
    """The mean of ||x||^2 over some rows; sizes (d,): what columns are divided by."""
    total, seen = 0.0, 0
    for columns, values, rows in _some_values(source):
        by = 1.0 if sizes is None else sizes if columns is None else sizes[columns]
        total += float(np.sum(np.square(values / by, dtype=np.float64)))
        seen += rows
    return total / max(1, seen)
