"""The columns of the Hessian in a read: those with weights, and those that pull most.

Penalties with thresholds leave most weights 0, and a Hessian of few columns costs little. The gradient of each read is
that of all columns, so the certificate checks those that were left out.
"""

from __future__ import annotations

import math

import numpy as np

from streammargin.penalties.base import Pieces, shrink
from streammargin.solvers.problem import Problem

CURVED_GROWTH = 2, 4  # times as many columns as have weights: with rows in memory, and if a read costs more
FREE_CURVED_WORK = 20.0, 100.0  # multiplications for second derivatives, in values of the row
MOVED, SURE = 1e9, 1e18  # keys of columns whose weights will leave 0, and of those that have weights


def least(problem: Problem) -> int:
    """How many columns the Hessian may have for about the cost of the other sums of a read, d + 1 at most."""
    width = problem.features + 1
    values = problem.values / problem.rows + 1.0
    cheap = width * math.sqrt(FREE_CURVED_WORK[not problem.resident] / values)
    return max(2, int(min(width, cheap, math.sqrt(problem.rows * values))))


def restricts(problem: Problem) -> bool:
    """Whether the Hessian has some of the columns only: lines have penalties of their own, with thresholds."""
    ordered = None if problem.joint else problem.objective.pieces((problem.features + 1,))
    return ordered is not None and bool(_limits(ordered[1]).any()) and least(problem) <= problem.features


def at_first(problem: Problem) -> np.ndarray:
    """The columns (K, m) of a read before which no gradient is known: the constant, or all if each read counts.

    With rows in memory another read costs less than the Hessian of all columns.
    """
    waits = (problem.resident or problem.path) and restricts(problem)
    few = waits and 2 * least(problem) <= problem.features
    return all_from(problem, problem.features if few else 0)


def all_from(problem: Problem, first: int) -> np.ndarray:
    """The columns (K, m) from this one; the last is the constant."""
    return np.tile(np.arange(first, problem.features + 1), (problem.count, 1))


def of_weights(w: np.ndarray) -> np.ndarray:
    """The columns (K, m) of these weights (K, d+1), and the constant; others where a line has fewer than another."""
    order = np.where(w != 0.0, 1.0, 0.0)
    order[:, -1] = SURE
    most = int(np.count_nonzero(order, axis=1).max())
    return np.sort(np.argsort(-order, axis=1, kind="stable")[:, :most], axis=1)


def following(problem: Problem, active: np.ndarray, w: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """The columns (K, m) of the next read, for active lines, from those of the weights w (K, d+1).

    pull (K, d+1): A^T alpha. All lines have as many columns. Of a block that has weights, or whose weights will leave
    0, no column is left out.
    """
    ordered = problem.objective.pieces(w[0].shape)
    assert ordered is not None
    order, pieces = ordered
    own = np.repeat(np.arange(pieces.thresholds.size), np.diff(pieces.starts))  # the block of each ordered column
    keys = _keys(pieces, own, w[:, order], pull[:, order])
    keys[:, order == w.shape[1] - 1] = math.inf
    ranks = np.argsort(-keys, axis=1, kind="stable")
    used = int(np.count_nonzero(keys[active] >= SURE, axis=1).max(initial=1))
    least_size = min(w.shape[1], max(CURVED_GROWTH[not problem.resident] * used, least(problem)))
    ends = np.diff(own[ranks[active]], axis=1, append=-1)[:, least_size - 1 :] != 0
    size = least_size + int(np.argmax(ends, axis=1).max(initial=0))
    return np.sort(order[ranks[:, :size]], axis=1)


def _keys(pieces: Pieces, own: np.ndarray, w: np.ndarray, pull: np.ndarray) -> np.ndarray:
    """Larger for columns (K, d+1) that matter more; at least SURE if they have weights, at least MOVED if they will.

    Columns are in the order of the blocks `own` (d+1,), whose weights leave 0 at the next step.
    """
    first, limits = pieces.starts[:-1], _limits(pieces)
    moved = np.sqrt(np.add.reduceat(shrink(pull, pieces.cuts[own]) ** 2, first, axis=1)) > pieces.thresholds
    used = (np.add.reduceat(w != 0.0, first, axis=1) > 0) | (limits == 0.0)
    lengths = np.sqrt(np.add.reduceat(pull**2, first, axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.minimum(lengths / limits, MOVED)
    return np.where(used, SURE, ratios + MOVED * moved)[:, own]


def pieces_of(ordered: tuple[np.ndarray, Pieces], columns: np.ndarray) -> tuple[np.ndarray, Pieces]:
    """`Penalty.pieces` for some columns (m,), ascending; the weights of all others are 0, or not in their blocks."""
    order, pieces = ordered
    if columns.size == order.size:
        return ordered
    place = np.full(order.size, -1)
    place[columns] = np.arange(columns.size)
    sizes = np.add.reduceat((place[order] >= 0).astype(np.int64), pieces.starts[:-1])
    there = sizes > 0
    starts = np.append(0, np.cumsum(sizes[there]))
    found = place[order]
    return found[found >= 0], Pieces(starts, *(each[there] for each in pieces[1:]))


def _limits(pieces: Pieces) -> np.ndarray:
    """||A^T alpha|| of a block at which its weights may leave 0, roughly if it has a cut; 0: they are never held."""
    return pieces.thresholds + pieces.cuts * np.sqrt(np.diff(pieces.starts))
