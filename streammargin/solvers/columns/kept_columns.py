"""A working set of columns for data out of core.

The violations found by one read choose the columns; the next read gathers them besides its certificate; after it their
weights are updated, with all other weights fixed. If rows lie in several places, their holders send these columns row
by row to the one that decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from streammargin.compiled.newton import signed_products
from streammargin.rows.blocks import Block, CSRBlock, alone
from streammargin.rows.labels import numbered_from
from streammargin.solvers.cache import columns as cache
from streammargin.solvers.cache import rows as row_store
from streammargin.solvers.cache.columns import ColumnCache
from streammargin.solvers.columns import working_set
from streammargin.solvers.columns.working_set import ColumnTask, Position, Split
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import K, N, Rows, Shared, Stored, Sum, f8, i4, i8, new, of, state
from streammargin.solvers.state import State, labels_of

LEAST_KEPT_SHARE = 0.05  # least share of all values that must fit; below it each column waits too long
SETTLED = 1e-3  # weight of |A_j.alpha| in the score of a column without a violation
CROWD = 3.0  # if the working set is larger than this times the cache, proximal steps are faster
EARLY = 5  # passes in which that is allowed, as the first weights are inaccurate
BENT = 8 + 4  # bytes per value in a Newton step
VECTORS = 8  # temporary vectors of length d + 1 in `choose`
SENT_COPIES = 3  # of values that holders send: as they came, as they are added up, and all of them in one array
GAP_SHARE_AT_HAND = 0.05  # steps end at this share of the known gap, as the columns at hand have it


@state
class KeptState:
    """The cached columns; others (K, n): margins from other weights; off: norm of the violations at the last read."""

    columns: ColumnCache
    others: Rows[f8] = of(K, N, grows=True)
    off: Shared[f8] = of(K, fill=math.inf)


@state
class Sent:
    """Columns of rows in several places: values and columns, one row after the other; sizes: values of each row."""

    values: Sum[Stored] = of(0, grows=True)
    columns: Sum[i4] = of(0, grows=True)
    sizes: Sum[i8] = of(0, grows=True)


def capacity(problem: Problem, vectors: int) -> int:
    """The number of values of each problem's columns that fit besides the vectors; 0 if these are too few."""
    everything = problem.values + problem.rows
    left = problem.budget - vectors - _beside(problem) - problem.resident * problem.size
    left -= (problem.holders > 1) * row_store.EVEN_BUFFERS
    each = _a_value(problem)
    stored = row_store.cache_budget(left, each * everything) // each
    return stored if stored >= LEAST_KEPT_SHARE * everything else 0


def reserved_bytes(problem: Problem, stored: int) -> int:
    """Bytes of the cached columns and of steps on them; stored: from `capacity`."""
    return _a_value(problem) * stored + _beside(problem) if stored else 0


def _a_value(problem: Problem) -> int:
    """Bytes per cached value, over all problems."""
    each = problem.count * (4 + problem.dtype.itemsize)
    return max(each + BENT, (problem.holders > 1) * SENT_COPIES * each)


def _beside(problem: Problem) -> int:
    """Bytes besides the cached values."""
    n, width, K = problem.rows, problem.features + 2, problem.count
    return K * (8 * n + 9 * width) + 8 * (working_set.ROW_VECTORS * n + VECTORS * width)


def violations(penalty: Split, w: np.ndarray, image: np.ndarray) -> np.ndarray:
    """The violation of the optimality condition of each group, if image (d+1,) is A^T alpha."""
    groups = penalty.roots.size
    sizes = np.sqrt(np.bincount(penalty.of, w**2, groups))
    pressed = np.divide(penalty.roots, sizes, out=np.zeros(groups), where=sizes > 0.0)
    pressed += np.where(penalty.roots > 0.0, penalty.square, 0.0)
    off = np.sqrt(np.bincount(penalty.of, (image - pressed[penalty.of] * w) ** 2, groups))
    return np.where(sizes > 0.0, off, np.maximum(off - penalty.roots, 0.0))


def choose(problem: Problem, penalty: Split, kept: KeptState, k: int, at: Position, stored: int) -> float:
    """Choose the columns of problem k that the next read gathers: the most violated ones, at most `stored` values.

    Those of the working set come first. Returns the number of values of the whole working set relative to `stored`; inf
    if nothing fits, or a group is too large.
    """
    columns, groups = kept.columns, penalty.roots.size
    if not columns.sizes[k].any():  # a training resumed with another memory budget
        return math.inf
    score = violations(penalty, at.w, at.image)
    if cache.is_open(columns, k):  # `image` is older than the steps on these
        score[penalty.of[columns.chosen[k]]] = 0.0
    cache.release(columns, k)
    pulled = np.sqrt(np.bincount(penalty.of, at.image**2, groups))
    score += SETTLED * pulled
    score = np.divide(score, penalty.roots, out=np.full(groups, math.inf), where=penalty.roots > 0.0)
    matter = working_set.wanted(problem, penalty, at)
    values = np.bincount(penalty.of, columns.sizes[k][:-1], groups).astype(np.int64)
    if values[matter].max(initial=0) > stored:  # it could never be gathered
        return math.inf
    order = np.flatnonzero(matter)
    order = order[np.argsort(-score[order], kind="stable")]
    here = np.zeros(groups, bool)
    here[order[np.cumsum(values[order]) <= stored]] = True
    columns.chosen[k] = here[penalty.of]
    return float(values[matter].sum() / stored) if here.any() else math.inf


def next_sigma(kept: KeptState, k: int, sigma: float, following: float, off: float, crowd: float) -> float:
    """The next step size of the duals; following: the proposal of the last steps.

    While some columns wait, large steps of the duals undo the progress on others. So sigma is reduced if the norm of
    all violations rose; off: that norm at this read.
    """
    before, kept.off[k] = kept.off[k], off
    return following if crowd <= 1.0 or off <= before else min(following, working_set.NEARER * sigma)


def begin(problem: Problem, kept: KeptState) -> None:
    """Before a read: allocate memory for the margins, and for the chosen columns unless these are sent."""
    for k in _asked(kept, range(problem.count)):
        if problem.holders == 1:
            cache.open_columns(kept.columns, k)
        if not kept.others.size:
            kept.others = np.zeros((problem.count, problem.rows))


def _asked(kept: KeptState, problems: Iterable[int]) -> list[int]:
    """Those of these problems that have chosen columns."""
    return [k for k in problems if kept.columns.chosen[k].size]


def gather(
    problem: Problem, state: State, kept: KeptState, coming: Sent, problems: np.ndarray, w: np.ndarray, block: Block,
    first: int,
) -> None:  # fmt: skip
    """Gather or send the columns of a block that these problems chose, and find the margins from their other weights.

    w: (K, d+1).
    """
    columns, labels, asked = kept.columns, labels_of(problem, state), _asked(kept, problems)
    for k in asked:
        if problem.holders == 1:
            cache.gather(columns, labels, block, first, k)
        others = np.where(columns.chosen[k], 0.0, w[k])
        if others.any():
            signed_products(block, numbered_from(first), labels, k, others, kept.others[k])
    if asked and problem.holders > 1:
        _send(coming, block, np.logical_or.reduce([columns.chosen[k] for k in asked]))


def _send(coming: Sent, block: Block, chosen: np.ndarray) -> None:
    """Add the values of these columns (d+1,) in a block to those that are sent."""
    block = alone(block)
    assert isinstance(block, CSRBlock)
    here = chosen[block.indices]
    coming.values = np.append(coming.values, block.data[here])
    coming.columns = np.append(coming.columns, block.indices[here].view(np.int32))
    ends = np.append(0, np.cumsum(here))[block.indptr]
    coming.sizes = np.append(coming.sizes, np.diff(ends))


def receive(problem: Problem, state: State, kept: KeptState, coming: Sent, problems: np.ndarray) -> Sent:
    """Gather the columns that were sent of all rows; returns an empty `Sent`."""
    if coming.sizes.size:
        indptr = np.append(0, np.cumsum(coming.sizes))
        rows = CSRBlock(coming.values, coming.columns.view(np.uint32), indptr, problem.features, problem.column)
        for k in _asked(kept, problems):
            cache.open_columns(kept.columns, k)
            cache.gather(kept.columns, labels_of(problem, state), rows, 0, k)
    return new(Sent, problem)


def improve(problem: Problem, penalty: Split, state: State, kept: KeptState, k: int, at: Position) -> float:
    """Steps on the gathered columns; updates w and alpha, and returns the sigma of the next step of the duals."""
    if not cache.is_open(kept.columns, k):  # none gathered yet
        return at.sigma
    columns = working_set.in_order(penalty, kept.columns.chosen[k])
    targets, others = state.labels.targets_of(k), kept.others[k]
    below = targets - others if problem.numeric else -others
    task = ColumnTask(k, columns, cache.matrix(kept.columns, k, columns), below, at.alpha, at.sigma)
    # all objectives are at least 0; the best dual may still be -inf
    goal = GAP_SHARE_AT_HAND * float(state.best.primal[k] - max(0.0, state.best.dual[k]))
    at.w[columns], task = working_set.settle(problem, penalty, state, task, at.w[columns], goal)
    at.alpha[:] = task.alpha
    return task.sigma


def release(kept: KeptState) -> None:
    """Free the gathered columns after the steps."""
    for k in range(len(kept.columns.ends)):
        cache.release(kept.columns, k)
    kept.others = kept.others[:, :0].copy()


def fits(problem: Problem, kept: KeptState) -> bool:
    """Whether the arrays of a loaded state are consistent."""
    gathered = any(ends.size for ends in kept.columns.ends)
    fitting = kept.others.shape[1] in ((problem.rows,) if gathered else (0, problem.rows))
    return fitting and cache.fits(kept.columns, problem.rows, problem.features)


def sent_fits(problem: Problem, coming: Sent, rows: int) -> bool:
    """The same for columns that were sent of so many rows."""
    values, columns, sizes = coming.values, coming.columns, coming.sizes
    whole = sizes.size in (0, rows) and values.size == columns.size == sizes.sum()
    return bool(whole and (sizes >= 0).all() and ((columns >= 0) & (columns < problem.features)).all())
