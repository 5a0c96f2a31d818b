"""The columns that matter most, where not all fit into memory: a read brings their values for steps between two reads.

A working set: what a read finds out about the weights names the columns that are to move next, the next read gathers
them beside its certificate, and at its end they move while the weights of all other columns stay.
"""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled.newton import signed_products
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.cache import columns as cache
from streammargin.solvers.cache import rows as row_store
from streammargin.solvers.cache.columns import ColumnCache
from streammargin.solvers.columns import working_set
from streammargin.solvers.columns.working_set import Position, Split, Task
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import K, N, Rows, Shared, f8, of, state
from streammargin.solvers.state import State, labels_of

BUFFERS = 3 << 20  # bytes that buffers want at least
LEAST = 0.05  # of all values: where fewer fit, each column waits too long for its turn
SETTLED = 1e-3  # of what a column counts that pulls at its bound, for one that is not beyond it: it comes last
RISEN = 1.5  # what the norm of the violations comes to, from read to read, where duals went too far
FALLEN = 0.7  # the same where they may go further: columns that wait undo what others did else
CROWD = 3.0  # times what fits matters: proximal steps are quicker then, as each column waits too long
EARLY = 5  # passes in which more may matter: the first weights are far off
BENT = 8 + 4  # bytes of a value of a Newton step
VECTORS = 8  # of length d + 1, while columns are chosen


@state
class Kept:
    """The columns that are to move next, what the weights of all others add to the margins (K, n) while a read gathers
    them, and the norm of all violations at the last read.
    """

    columns: ColumnCache
    others: Rows[f8] = of(K, N, grows=True)
    off: Shared[f8] = of(K, fill=math.inf)


def capacity(problem: Problem, vectors: int) -> int:
    """How many values of each problem's columns fit beside vectors of so many bytes; 0 where these are too few."""
    everything = problem.values + problem.rows
    left = problem.budget - vectors - _beside(problem) - problem.resident * problem.size
    each = _a_value(problem)
    stored = row_store.room(left, BUFFERS, each * everything) // each
    return stored if stored >= LEAST * everything else 0


def reserved_bytes(problem: Problem, stored: int) -> int:
    """Of columns kept, and of steps on them; stored: of `capacity`."""
    return _a_value(problem) * stored + _beside(problem) if stored else 0


def _a_value(problem: Problem) -> int:
    """Bytes that a value kept takes, of all problems together."""
    return problem.count * (4 + problem.dtype.itemsize) + BENT


def _beside(problem: Problem) -> int:
    """Bytes beside the values kept."""
    n, width, K = problem.rows, problem.features + 2, problem.count
    return K * (8 * n + 17 * width) + 8 * (working_set.ROW_VECTORS * n + VECTORS * width)


def violations(penalty: Split, w: np.ndarray, image: np.ndarray) -> np.ndarray:
    """How far each group is from what the optimum asks for, where A^T alpha (d+1,) is `image`."""
    groups = penalty.roots.size
    sizes = np.sqrt(np.bincount(penalty.of, w**2, groups))
    pressed = np.divide(penalty.roots, sizes, out=np.zeros(groups), where=sizes > 0.0)
    pressed += np.where(penalty.roots > 0.0, penalty.square, 0.0)
    off = np.sqrt(np.bincount(penalty.of, (image - pressed[penalty.of] * w) ** 2, groups))
    return np.where(sizes > 0.0, off, np.maximum(off - penalty.roots, 0.0))


def choose(problem: Problem, penalty: Split, kept: Kept, k: int, at: Position, zeros: np.ndarray, stored: int) -> float:
    """Choose the columns of problem k that the next read gathers, at most so many values.

    Those first that are furthest off. zeros (d+1,): weights that are known to be 0. Returns the values of all that
    matter, in multiples of those that there is room for; inf where none do, or a group has no room at all.
    """
    columns, groups = kept.columns, penalty.roots.size
    if not columns.sizes[k].size:  # a training that went on with other memory
        return math.inf
    score = violations(penalty, at.w, at.image)
    if cache.is_open(columns, k):  # the image is of before these moved
        score[penalty.of[columns.chosen[k]]] = 0.0
    cache.release(columns, k)
    score += SETTLED * np.sqrt(np.bincount(penalty.of, at.image**2, groups))
    score = np.divide(score, penalty.roots, out=np.full(groups, math.inf), where=penalty.roots > 0.0)
    matter = working_set.wanted(problem, penalty, at)
    values = np.bincount(penalty.of, columns.sizes[k][:-1] * ~zeros, groups).astype(np.int64)
    if values[matter].max(initial=0) > stored:  # it would never have its turn
        return math.inf
    order = np.argsort(-score, kind="stable")
    order = order[matter[order]]
    here = np.zeros(groups, bool)
    here[order[np.cumsum(values[order]) <= stored]] = True
    columns.chosen[k] = here[penalty.of] & ~zeros
    return float(values[matter].sum() / stored) if here.any() else math.inf


def next_sigma(kept: Kept, k: int, sigma: float, following: float, off: float, crowd: float) -> float:
    """The next step of the duals, where `following` is what the columns that moved ask for.

    While others wait for their turn, duals that go far would undo what the others did: it grows only where all columns
    together came nearer, and falls where they came to be further off. off: the norm of all violations at this read.
    """
    before, kept.off[k] = kept.off[k], off
    if crowd <= 1.0:
        return following
    if off > RISEN * before:
        return min(following, working_set.NEARER * sigma)
    return following if off <= FALLEN * before else min(following, sigma)


def begin(problem: Problem, kept: Kept) -> None:
    """Before a read: room for the columns that are chosen."""
    for k, chosen in enumerate(kept.columns.chosen):
        if chosen.size:
            cache.open_columns(kept.columns, k)
            if not kept.others.size:
                kept.others = np.zeros((problem.count, problem.rows))


def gather(problem: Problem, state: State, kept: Kept, k: int, w: np.ndarray, block: Block, first: int) -> None:
    """What a block stores of the columns chosen, and what the weights (d+1,) of the others add to its margins."""
    columns = kept.columns
    if not cache.is_open(columns, k):
        return
    labels = labels_of(problem, state)
    cache.gather(columns, labels, block, first, k)
    others = np.where(columns.chosen[k], 0.0, w)
    if others.any():
        signed_products(block, numbered_from(first), labels, k, others, kept.others[k])


def improve(problem: Problem, penalty: Split, state: State, kept: Kept, k: int, at: Position) -> float:
    """Steps on the columns that a read gathered, of which w changes; returns what the next sigma should be."""
    if not cache.is_open(kept.columns, k):  # it gathered none yet
        return at.sigma
    columns = working_set.in_order(penalty, kept.columns.chosen[k])
    targets, others = state.labels.targets, kept.others[k]
    below = targets - others if problem.numeric else -others
    task = Task(k, columns, cache.matrix(kept.columns, k, columns), below, at.alpha, at.sigma)
    at.w[columns], following, _ = working_set.minimise(problem, penalty, state, task, at.w[columns], few=0)
    return following


def release(kept: Kept) -> None:
    """After the steps: what a read gathered is of other columns than those chosen now."""
    for k in range(len(kept.columns.ends)):
        cache.release(kept.columns, k)
    kept.others = kept.others[:, :0].copy()


def fits(problem: Problem, kept: Kept) -> bool:
    """Whether the arrays of a state that was loaded fit each other and the rows."""
    gathered = any(ends.size for ends in kept.columns.ends)
    fitting = kept.others.shape[1] in ((problem.rows,) if gathered else (0, problem.rows))
    return fitting and cache.fits(kept.columns, problem.rows, problem.features)
