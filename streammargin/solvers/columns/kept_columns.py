"""The columns that matter most, where not all fit into memory: a read brings their values for steps between two reads.

A working set: what a read finds out about the weights names the columns that are to move next, the next read gathers
them beside its certificate, and at its end they move while the weights of all other columns stay.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from streammargin.compiled import column_steps as kernel
from streammargin.compiled.newton import signed_products
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.base import State
from streammargin.solvers.cache import rows as row_store
from streammargin.solvers.columns import working_set as column_steps
from streammargin.solvers.columns.working_set import Split
from streammargin.solvers.old_state import Array, Layout, Room, layout_bytes
from streammargin.solvers.problem import Problem

BUFFERS = 3 << 20  # bytes that buffers want at least
LEAST = 0.05  # of all values: where fewer fit, each column waits too long for its turn
SETTLED = 1e-3  # of what a column counts that pulls at its bound, for one that is not beyond it: it comes last
RISEN = 1.5  # what the norm of the violations comes to, from read to read, where duals went too far
FALLEN = 0.7  # the same where they may go further: columns that wait undo what others did else
CROWD = 3.0  # times what fits matters: proximal steps are quicker then, as each column waits too long
EARLY = 5  # passes in which more may matter: the first weights are far off
BENT = 8 + 4  # bytes of a value of a Newton step
VECTORS = 8  # of length d + 1, while columns are chosen


def capacity(problem: Problem, vectors: Layout) -> int:
    """How many values of each problem's columns fit beside these vectors; 0 where these are too few."""
    everything = problem.values + problem.rows
    left = problem.budget - layout_bytes(vectors) - _beside(problem) - problem.resident * problem.size
    each = _a_value(problem)
    stored = row_store.room(left, BUFFERS, each * everything) // each
    return stored if stored >= LEAST * everything else 0


def _a_value(problem: Problem) -> int:
    """Bytes that a value kept takes, of all problems together."""
    return problem.count * (4 + problem.dtype.itemsize) + BENT


def _beside(problem: Problem) -> int:
    """Bytes beside the values kept."""
    n, width, K = problem.rows, problem.features + 2, problem.count
    return K * (8 * n + 17 * width) + 8 * (column_steps.ROW_VECTORS * n + VECTORS * width)


def _arrays(problem: Problem) -> Layout:
    K = problem.count
    return {
        "stored": Array((K, 0), np.int64, grows=True),
        "chosen": Array((K, 0), bool, grows=True),
        "filled": Array((K, 0), np.int64, grows=True),
        "kept rows": Array((K, 0), np.int32, grows=True),
        "kept values": Array((K, 0), problem.dtype, grows=True),
        "others": Array((K, 0), grows=True),
        "off": Array((K,), fill=math.inf),
    }


def layout(problem: Problem, stored: int) -> Layout:
    """Of each problem: values of each column (d+2,), the columns chosen (d+1,), where those go on that a read gathers
    (d+2,), rows and values of what is gathered, what the weights of all others add to the margins (n,), and how far off
    all were.

    stored: of `capacity`.
    """
    bytes = _a_value(problem) * stored + _beside(problem) if stored else 0
    return _arrays(problem) | {"columns kept, and steps on them": Room(bytes)}


def count(problem: Problem, state: State, block: Block, first: int) -> None:
    """Count the values of each column, of a block of the prologue."""
    a, width = state.arrays, problem.features + 1
    if not a["stored"].size:
        a["stored"] = np.zeros((problem.count, width + 1), np.int64)
    place, none = np.arange(width, dtype=np.int32), np.empty(0, problem.dtype)
    for k in range(problem.count):
        kernel.gather(block, first, problem.labels, k, place, a["stored"][k], np.empty(0, np.int32), none)


def violations(penalty: Split, w: np.ndarray, image: np.ndarray) -> np.ndarray:
    """How far each group is from what the optimum asks for, where A^T alpha (d+1,) is `image`."""
    groups = penalty.roots.size
    sizes = np.sqrt(np.bincount(penalty.of, w**2, groups))
    pressed = np.divide(penalty.roots, sizes, out=np.zeros(groups), where=sizes > 0.0)
    pressed += np.where(penalty.roots > 0.0, penalty.square, 0.0)
    off = np.sqrt(np.bincount(penalty.of, (image - pressed[penalty.of] * w) ** 2, groups))
    return np.where(sizes > 0.0, off, np.maximum(off - penalty.roots, 0.0))


def choose(
    problem: Problem, penalty: Split, state: State, k: int, image: np.ndarray, reach: float, stored: int
) -> float:
    """Choose the columns of problem k that the next read gathers, at most so many values.

    Those first that are furthest off, where A^T alpha (d+1,) is `image`. Returns the values of all that matter, in
    multiples of those that there is room for; inf where none do, or a group has no room at all.
    """
    a, groups = state.arrays, penalty.roots.size
    if not a["stored"].size:  # a training that went on with other memory
        return math.inf
    w, zeros = a["w"][0, k], a["zeros"][k]
    key = violations(penalty, w, image)
    if a["filled"].shape[1]:  # `image` is of before these moved
        key[penalty.of[a["chosen"][k]]] = 0.0
    key += SETTLED * np.sqrt(np.bincount(penalty.of, image**2, groups))
    key = np.divide(key, penalty.roots, out=np.full(groups, math.inf), where=penalty.roots > 0.0)
    matter = column_steps.wanted(problem, penalty, w, image, reach)
    values = np.bincount(penalty.of, a["stored"][k, :-1] * ~zeros, groups).astype(np.int64)
    if values[matter].max(initial=0) > stored:  # it would never have its turn
        return math.inf
    order = np.argsort(-key, kind="stable")
    order = order[matter[order]]
    here = np.zeros(groups, bool)
    here[order[np.cumsum(values[order]) <= stored]] = True
    if a["chosen"].shape[1] == 0:
        a["chosen"] = np.zeros((problem.count, w.size), bool)
    a["chosen"][k] = here[penalty.of] & ~zeros
    return float(values[matter].sum() / stored) if here.any() else math.inf


def next_reach(state: State, k: int, reach: float, following: float, off: float, crowd: float) -> float:
    """The next step of the duals, where `following` is what the columns that moved ask for.

    While others wait for their turn, duals that go far would undo what the others did: it grows only where all columns
    together came nearer, and falls where they came to be further off. off: the norm of all violations at this read.
    """
    before, state.arrays["off"][k] = state.arrays["off"][k], off
    if crowd <= 1.0:
        return following
    if off > RISEN * before:
        return min(following, column_steps.NEARER * reach)
    return following if off <= FALLEN * before else min(following, reach)


def _starts(state: State, k: int, columns: np.ndarray) -> np.ndarray:
    return np.append(0, np.cumsum(state.arrays["stored"][k, columns]))


def begin(problem: Problem, penalty: Split, state: State) -> None:
    """Before a read: room for the columns that are chosen."""
    a, K = state.arrays, problem.count
    if a["chosen"].shape[1] == 0:
        return
    starts = [_starts(state, k, column_steps.in_order(penalty, a["chosen"][k])) for k in range(K)]
    most = 1 + max(int(line[-1]) for line in starts)
    a["filled"] = np.zeros((K, problem.features + 2), np.int64)
    for k, line in enumerate(starts):
        a["filled"][k, : line.size] = line
    a["kept rows"], a["kept values"] = np.zeros((K, most), np.int32), np.zeros((K, most), problem.dtype)
    a["others"] = np.zeros((K, problem.rows))


def gather(problem: Problem, penalty: Split, state: State, k: int, block: Block, first: int) -> None:
    """What a block stores of the columns chosen, and what the weights of the others add to its margins."""
    a = state.arrays
    if a["filled"].shape[1] == 0:
        return
    columns = column_steps.in_order(penalty, a["chosen"][k])
    kernel.gather(
        block, first, problem.labels, k, column_steps.places(columns, problem.features + 1),
        a["filled"][k, : columns.size + 1], a["kept rows"][k], a["kept values"][k],
    )  # fmt: skip
    others = np.where(a["chosen"][k], 0.0, a["w"][0, k])
    if others.any():
        signed_products(block, numbered_from(first), problem.labels, k, others, a["others"][k])


def improve(problem: Problem, penalty: Split, state: State, k: int, reach: float) -> float:
    """Steps on the columns that a read gathered; returns what the next reach should be."""
    a = state.arrays
    if a["filled"].shape[1] == 0:  # it gathered none yet
        return reach
    columns = column_steps.in_order(penalty, a["chosen"][k])
    starts, w = _starts(state, k, columns), a["w"][0, k]
    matrix = starts[:-1], starts[1:], a["kept rows"][k], a["kept values"][k]
    below = problem.targets - a["others"][k] if problem.targets.size else -a["others"][k]
    w[columns], following, _ = column_steps.minimise(
        problem, penalty, state, k, columns, matrix, below, w[columns], a["alpha"][k], reach, state.numbers["pass"],
        few=0,
    )  # fmt: skip
    return following


def release(state: State) -> None:
    """After the steps: what a read gathered is of other columns than those chosen now."""
    a = state.arrays
    for name in ("filled", "kept rows", "kept values", "others"):
        a[name] = a[name][:, :0].copy()


def fits(problem: Problem, penalty: Split, state: State, problems: Iterable[int]) -> bool:
    """Whether the arrays of a state that was loaded fit each other and the rows, for the problems that use them yet."""
    a, n, width = state.arrays, problem.rows, problem.features + 1
    sizes = {name: a[name].shape[1] for name in _arrays(problem) if name != "off"}
    if sizes["stored"] not in (0, width + 1) or sizes["chosen"] not in (0, width if sizes["stored"] else 0):
        return False
    if (a["stored"] < 0).any() or (a["stored"] > n).any():
        return False
    if sizes["filled"] == 0:
        return not (sizes["kept rows"] or sizes["kept values"] or sizes["others"])
    if not (sizes["chosen"] and sizes["filled"] == width + 1 and sizes["others"] == n):
        return False
    if sizes["kept rows"] != sizes["kept values"] or (a["kept rows"] < 0).any() or (a["kept rows"] >= n).any():
        return False
    for k in problems:
        starts = _starts(state, k, column_steps.in_order(penalty, a["chosen"][k]))
        filled = a["filled"][k, : starts.size]
        if starts[-1] >= sizes["kept rows"] or (filled < starts).any() or (filled[:-1] > starts[1:]).any():
            return False
    return True
