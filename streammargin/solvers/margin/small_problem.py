"""The exact maximum margin over a few cached rows: an upper bound for all rows, and weights."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streammargin.compiled import active_set as kernel
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.blocks import CSRBlock, plain, stored, taken
from streammargin.solvers.base import matrix_work
from streammargin.solvers.cache.rows import RowCache
from streammargin.solvers.coordinate.momentum import Momentum
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.inseparable import encloses, inseparable
from streammargin.solvers.roles import Lists, f8, state

SIDE = 128  # rows of each sign that a pass adds, and rows kept besides the support, which prevents cycling
LIMIT = 1536  # most rows of a small problem; beyond that coordinate ascent is faster
LEAST_ALLOWED_ROWS = 128  # whatever the budget
SMALL_PROBLEMS_PART = 2  # they may use one of so many parts of the budget, or as much as the ascent
ENTRIES = 6 << 20  # most entries of the small problems of all classes, 48 MB
# a Gram matrix may cost as many multiplications as so many passes, times the squared number of decimal places of tol.
# Beyond that coordinate ascent is faster
GRAM_WORK_PASSES = 11
PROOF = 5  # times as much memory as two matrices of its rows that a proof takes
FEW_COLUMNS = LIMIT // 4  # with no more columns the support is never too large
ASCENT = Momentum(precise=True)  # takes over if the support is too large; float64, as certified weights are kept


@state
class SmallProblems:
    """The cached rows, piece k for problem k, and their signs (m,).

    `u`         their coefficients (m,), for rows divided by the largest norm.
    `combined`  rows of the largest problem solved so far.
    """

    rows: RowCache
    signs: Lists[f8]
    u: Lists[f8]
    combined: int = 0


def ids(small: SmallProblems, k: int) -> np.ndarray:
    """Numbers (m,) of the rows of problem k."""
    return small.rows.ids_of(str(k))


def fit(small: SmallProblems) -> bool:
    """Whether every row has a sign and a coefficient."""
    return all(small.signs[k].size == u.size == ids(small, k).size for k, u in enumerate(small.u))


def extend(problem: Problem, small: SmallProblems, k: int, new: RowCache, signs: np.ndarray, worth: float) -> bool:
    """Add the new rows of problem k, with these signs (m,).

    False if they do not fit, or the Gram matrix would take more than `worth` multiplications.
    """
    name, rows = str(k), small.u[k].size + signs.size
    values = sum(stored(cache.pieces[name].rows) for cache in (small.rows, new) if name in cache.pieces)
    if values * rows > worth or rows > limit(problem) or values > most_entries(problem):
        return False
    small.rows.append(name, new)
    small.signs[k] = np.concatenate([small.signs[k], signs])
    small.u[k] = np.concatenate([small.u[k], np.zeros(signs.size)])
    return True


def worth(problem: Problem, everything: int) -> float:
    """Multiplications up to which a Gram matrix is worth it; everything: values of all rows."""
    # a support has at most d + 1 rows, so with few columns it is soon complete
    large = problem.rows > LIMIT and problem.features > FEW_COLUMNS
    return GRAM_WORK_PASSES * math.log10(min(max(problem.tol, 1e-16), 0.1)) ** 2 * everything if large else math.inf


class Solved(NamedTuple):
    """An upper bound on the margin, and weights (d+1,), both exact up to rounding, and the multiplications."""

    bound: float
    w: np.ndarray
    multiplications: float


def solve(problem: Problem, small: SmallProblems, k: int, largest: float) -> Solved:
    """The maximum margin over the rows of problem k.

    largest: the norm that rows are divided by. The support and the rows with the smallest margins stay cached.
    """
    rows, signs, u = small.rows.pieces[str(k)].rows, small.signs[k], small.u[k]
    small.combined = max(small.combined, u.size)
    gram = np.empty((u.size, u.size))
    kernel.gram_matrix(rows, signs, largest, gram)
    kernel.nearest_point(gram, u, 0.1 * problem.tol, problem.features + 2)
    work = stored(rows) * u.size / 2 + matrix_work(u.size, 0.0, 0.0)
    v = np.zeros(problem.features + 1)
    kernel.combine(rows, signs * u, largest, v)
    _prune(problem, small, k, gram @ u)
    size, total = lp_norm(v, 2.0), float(u.sum())
    if size > 0.0:
        v /= size
        v /= size / total * largest  # the margins of the support become 1
    return Solved(size / total * largest if total > 0.0 else math.inf, v, work)


def cancel(problem: Problem, small: SmallProblems, k: int) -> bool:
    """Whether it is proven that the support rows of problem k have 0 in their hull."""
    support, kept = np.flatnonzero(small.u[k]), small.rows.pieces[str(k)].rows
    own = taken(kept, support)
    if not problem.scaled and inseparable(None, kept, small.signs[k].astype(int)):
        return True
    columns = np.unique(own.indices) if isinstance(own, CSRBlock) else np.arange(problem.features)
    large = PROOF * support.size * (columns.size + 1) > limit(problem) ** 2  # the memory of the Gram matrix
    if not support.size or large or (problem.scaled and columns.size < problem.features):
        return False
    values = plain(own)[:, columns].toarray() if isinstance(own, CSRBlock) else plain(own)
    if own.bias != 0.0:
        values = np.column_stack([values, np.full(support.size, own.bias)])
    signed = small.signs[k][support][:, None] * values
    lost = 4.0 * float(np.finfo(problem.dtype).eps) if problem.scaled else 0.0
    return encloses(signed, small.u[k][support], lost)


def _prune(problem: Problem, small: SmallProblems, k: int, margins: np.ndarray) -> None:
    """Keep the support, and the other rows with the smallest margins (m,)."""
    support = small.u[k] > 0.0
    count = int(support.sum())
    more = min(SIDE, (limit(problem) - count) // 4)
    order = np.argsort(np.where(support, -math.inf, margins), kind="stable")
    kept = np.sort(order[: count + max(0, more)])
    small.rows.change(str(k), kept, ())
    small.signs[k], small.u[k] = small.signs[k][kept], small.u[k][kept]


def limit(problem: Problem) -> int:
    """Rows of the largest small problem."""
    most = LIMIT
    budget = max(problem.budget // SMALL_PROBLEMS_PART, ASCENT.memory(problem))
    while most > LEAST_ALLOWED_ROWS and _bytes(problem, most) > budget:
        most = max(LEAST_ALLOWED_ROWS, most * 7 // 8)
    return most


def most_bytes(problem: Problem) -> int:
    """Most bytes of the small problems."""
    return _bytes(problem, min(problem.rows, limit(problem)))


def most_entries(problem: Problem) -> int:
    """Most stored values of a small problem."""
    return _entries(problem, min(problem.rows, limit(problem)))


def _bytes(problem: Problem, rows: int) -> int:
    """Bytes of small problems of this many rows: the rows, twice while joined, and the Gram matrices."""
    held = 2 * _entries(problem, rows) * (max(4, problem.dtype.itemsize) + 4) + rows * 64
    return problem.count * held + 2 * 8 * rows * rows


def _entries(problem: Problem, rows: int) -> int:
    # sparse rows: the support's rows may be longer than the mean
    stored = 2 * rows * problem.entries // problem.rows + problem.features if problem.entries else ENTRIES
    return min(rows * problem.features, stored, ENTRIES // problem.count)
