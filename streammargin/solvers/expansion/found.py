"""The state of a kernel machine, and expansions over some of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from streammargin.kernels.base import Kernel
from streammargin.points.before import Before
from streammargin.points.expansion import Expansion
from streammargin.rows.blocks import Block, DenseBlock, taken
from streammargin.solvers.cache.rows import RowCache
from streammargin.solvers.expansion.columns import Columns, Held
from streammargin.solvers.expansion.form import Form
from streammargin.solvers.expansion.measured import Measured
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import GROUPS, TRIALS, Count, K, Rows, Scratch, Shared, b1, f8, i8, of, state
from streammargin.solvers.state import State

SUPPORT, WORKING, NEW = "support", "working", "new"  # pieces of cached rows


@state
class Found:
    """An expansion: numbers (m,) of rows, ascending; coef (K, m); constants (K,)."""

    numbers: Shared[i8] = of(0, grows=True)
    coef: Shared[f8] = of(K, 0, grows=True)
    constants: Shared[f8] = of(K)


@state
class SmoState(State):
    """alpha: the coefficients; scores: K alpha, as far as they are known, without the constant; those
    of absent rows are 0.

    frozen: the expansion that is certified next. best_point: that of the best figures. kept_point: that of the pass
    with the least held-out error. rows: copies of support rows. Out of core they are of all rows that steps are made
    on, and of those that a read has found for them. goal: the estimated gap that a pass aims at. gaps: estimated.
    constants: the last ones. idle: groups that no step helps any more. hidden: those whose gap is rounding, as the last
    certificate has found. spare: rows at least this far from any loss are left out of a certificate. travel: the sum of
    all steps on coefficients, which bounds the error of scores. part: rows of the block that are done. joined: rows
    that the last read added. crowded: reads for which rows had to leave. begun: rounds of this pass. rounds: of all.
    ended: whether the read is over. known: whether it was said that the kernel is indefinite. tested: rows of the
    matrix that was tested for it.
    """

    alpha: Rows[f8]
    scores: Rows[f8]
    measured: Measured
    frozen: Found
    best_point: Found
    kept_point: Found
    held: Held
    rows: RowCache
    goal: Shared[f8] = of(GROUPS, fill=1.0)
    gaps: Shared[f8] = of(GROUPS, fill=np.inf)
    idle: Shared[b1] = of(GROUPS)
    hidden: Shared[b1] = of(GROUPS)
    constants: Shared[f8] = of(K)
    spare: Shared[f8] = of(K)
    travel: Shared[f8] = of(K)
    wrong: Shared[i8] = of(TRIALS)
    seen: Count = 0
    joined: int = 0
    crowded: int = 0
    part: int = 0
    begun: int = 0
    rounds: int = 0
    ended: bool = False
    skipping: bool = False
    indefinite: bool = False
    known: bool = False
    tested: int = 0
    block: Scratch[Block | None] = None
    columns: Scratch[Columns | None] = None
    forms: Scratch[dict[int, Form] | None] = None
    expansion: Scratch[Expansion | None] = None


def set_found(found: Found, numbers: np.ndarray, coef: np.ndarray, constants: np.ndarray) -> None:
    """Another expansion in the same place."""
    found.numbers, found.coef, found.constants = numbers, np.ascontiguousarray(coef), constants


def found_in(coefs: np.ndarray) -> Found:
    """The expansion with these coefficients (K, n) of all rows, without constants."""
    numbers = np.flatnonzero(coefs.any(axis=0))
    return Found(numbers=numbers, coef=np.ascontiguousarray(coefs[:, numbers]), constants=np.zeros(len(coefs)))


def inside(problem: Problem, found: Found) -> bool:
    """Whether a loaded expansion is one over the rows."""
    numbers = found.numbers
    return found.coef.shape[1] == numbers.size and bool(np.all((numbers >= 0) & (numbers < problem.rows)))


def rows_of(state: SmoState, kernel: Kernel, numbers: np.ndarray) -> Block | None:
    """Copies of these rows, from all rows in memory or from those that are kept; None if some are neither."""
    if kernel.of_numbers:
        return DenseBlock(np.empty((numbers.size, 0)), 0.0)
    if state.block is not None:
        return taken(state.block, numbers)
    for name in (WORKING, SUPPORT):
        kept = state.rows.pieces.get(name)
        if kept is None:
            continue
        order = np.argsort(kept.ids)
        at = np.searchsorted(kept.ids[order], numbers)
        if at.size == 0 or (at.max() < order.size and np.array_equal(kept.ids[order][at], numbers)):
            return taken(kept.rows, order[at])
    return None


def expansion_of(problem: Problem, kernel: Kernel, found: Found, rows: Block | None) -> Expansion:
    """The expansion over these rows; without any row if they are not in memory."""
    numbers, coef = found.numbers, found.coef
    if kernel.of_numbers:
        rows = DenseBlock(np.empty((numbers.size, 0)), 0.0)
    elif rows is None:
        numbers, coef, rows = numbers[:0], coef[:, :0], DenseBlock(np.empty((0, problem.features)), 0.0)
    return Expansion(kernel, coef, found.constants, numbers, rows, Before(problem.features))


def merged(one: Found, other: Found, lines: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(numbers, coef, constants) of an expansion with these lines (K,) bool of `other`, the rest of `one`."""
    numbers = np.union1d(one.numbers, other.numbers)
    coef = np.zeros((len(one.coef), numbers.size))
    for found, which in ((one, ~lines), (other, lines)):
        part: Any = np.zeros_like(coef)
        part[:, np.searchsorted(numbers, found.numbers)] = found.coef
        coef[which] = part[which]
    used = np.flatnonzero(coef.any(axis=0))
    return numbers[used], coef[:, used], np.where(lines, other.constants, one.constants)
