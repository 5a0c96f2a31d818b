"""The state of a kernel machine with its share of the memory budget, and expansions over some of the rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streammargin.kernels.base import Kernel
from streammargin.points.before import Before
from streammargin.points.expansion import Expansion
from streammargin.rows.blocks import Block, DenseBlock, taken
from streammargin.solvers import roles
from streammargin.solvers.cache.rows import RowCache
from streammargin.solvers.expansion.columns import Columns, HeldColumns
from streammargin.solvers.expansion.form import Form
from streammargin.solvers.expansion.measured import Measured
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import GROUPS, TRIALS, Count, K, Rows, Scratch, Shared, b1, f8, i8, of, state
from streammargin.solvers.state import State

SUPPORT, WORKING, NEW = "support", "working", "new"  # pieces of cached rows
OF_FORM = 7 * 8  # bytes of a row, in one line
TILES = 4 * 1024 * 256 * 8  # bytes of a tile of rows, of its values, and of copies of these
LEAST_HELD_COLUMNS = 256  # columns of all rows that are held at least, for rows in memory
HELD_BUDGET_SHARE = 0.6  # of the budget, for rows on disk: rows in memory and their columns; the rest is for reading
MOST_COLUMNS = 4096  # columns of the rows in memory, for rows on disk
JOINING_COPIES = 2.2  # of a row in memory, while others join it


@state
class Found:
    """An expansion: numbers (m,) of rows, ascending; coef (K, m); constants (K,)."""

    numbers: Shared[i8] = of(0, grows=True)
    coef: Shared[f8] = of(K, 0, grows=True)
    constants: Shared[f8] = of(K)


@state
class SmoState(State):
    """The state of steps on the coefficients.

    `alpha`       the coefficients.
    `scores`      K alpha, as far as they are known, without the constant. Those of absent rows are 0.
    `frozen`      the expansion that is certified next.
    `best_point`  that of the best figures.
    `kept_point`  that of the pass with the least held-out error.
    `rows`        copies of support rows. Out of core they are of all rows that steps are made on, and of those that a
                  read has found for them.
    `goal`        the estimated gap that a pass aims at.
    `gaps`        the estimated ones.
    `constants`   the last ones.
    `idle`        groups that no step helps any more.
    `hidden`      those whose gap is rounding, as the last certificate has found.
    `spare`       rows at least this far from any loss are left out of a certificate.
    `travel`      the sum of all steps on coefficients, which bounds the error of scores.
    `part`        rows of the block that are done.
    `joined`      rows that the last read added.
    `crowded`     reads for which rows had to leave.
    `begun`       rounds of this pass.
    `rounds`      rounds of all passes.
    `ended`       whether the read is over.
    `known`       whether a warning has told that the kernel is indefinite.
    `tested`      rows of the matrix that was tested for it.
    """

    alpha: Rows[f8]
    scores: Rows[f8]
    measured: Measured
    frozen: Found
    best_point: Found
    kept_point: Found
    held: HeldColumns
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


class Memory(NamedTuple):
    """bytes: in all, beside the state; columns: bytes for columns; rows: the most in memory, of rows on disk."""

    bytes: int
    columns: int
    rows: int

    def slots(self, rows: int, itemsize: int) -> int:
        """How many columns of so many rows there is room for."""
        return max(1, min(rows, max(2, self.columns // max(1, rows * itemsize))))

    @classmethod
    def of(cls, problem: Problem, state: int | None = None) -> Memory:
        """The plan for rows in memory, or on disk; state: bytes of the state, default: that of smo."""
        rows, row = problem.rows, row_bytes(problem)
        kept = (row + 8 * problem.count) if problem.path else 0.0  # of a row of the best expansion of a path
        kept += kept_bytes(problem)
        left = problem.budget - (roles.state_bytes(SmoState, problem) if state is None else state)
        fixed = min(TILES, 32 * rows * 256) + 24 * min(rows, 256) * problem.features
        if problem.resident:
            beside = fixed + OF_FORM * problem.count * rows + (row + kept) * rows
            loaded = problem.size + (8 * (rows + 2) if problem.sparse else 0)
            columns = min(8 * rows * rows, left - beside - loaded)
            columns = max(columns, 4 * rows * min(rows, LEAST_HELD_COLUMNS))
            return cls(int(beside + columns), int(columns), 0)
        most = int(HELD_BUDGET_SHARE * left) - fixed
        each = JOINING_COPIES * row + kept + OF_FORM * problem.count + 16 * problem.count
        held = min(MOST_COLUMNS, rows)
        count = int(max(0, most) / (each + 4.0 * held))
        if count < held:  # all of their columns fit
            count = int((-each + (each * each + 16.0 * max(0, most)) ** 0.5) / 8.0)
        count = max(min(rows, LEAST_HELD_COLUMNS), min(rows, count))
        columns = 4 * count * min(count, MOST_COLUMNS)
        return cls(int(fixed + each * count + columns), columns, count)


def kept_bytes(problem: Problem) -> int:
    """Bytes of a row in the expansion that early stopping keeps, in that of the last pass, and in one of both."""
    return 8 * (4 * problem.count + 3) if problem.keeps_pass else 0


def row_bytes(problem: Problem) -> float:
    """The mean bytes of a copy of a row; none for a precomputed kernel in memory."""
    if problem.kernel is not None and problem.kernel.of_numbers and problem.resident:
        return 0.0
    return problem.size / max(1, problem.rows) + 16.0
