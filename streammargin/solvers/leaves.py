"""Sums over the rows of a block, leaf by leaf: parts of a fixed size, which several cores may visit at once.

Each leaf has sums of its own. They are added in the order of the rows, so the bits do not depend on the number of
threads. Numbers of rows are written in place, as no row is in two leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from streammargin.rows.blocks import Block, part, stored
from streammargin.rows.labels import RowNumbers, numbered_from
from streammargin.solvers import roles
from streammargin.solvers.base import Blocks, Share
from streammargin.solvers.problem import Problem
from streammargin.solvers.visits import Visit
from streammargin.workers import LEAF_BYTES

T = TypeVar("T")
LEAVES = 16  # most leaves of a block, and copies of the sums: each of them costs a few calls
COPIES_BUDGET_PART = 16  # copies of the sums may take one byte of so many, if rows that fit do not leave more
CHEAP_CURVED_VALUES = 16  # values of a row whose second derivatives cost about as much as its score
MERGED = 256  # rows of a leaf that have as many values as its sums have numbers: adding sums costs little beside them
WIDE_LEAF_COLUMNS = 256  # from here on a leaf of second derivatives has more rows: as many values as numbers


def copies(size: int, room: int) -> int:
    """How many copies of sums of `size` bytes are kept in so many bytes: for all threads there may be, if they fit.

    It does not depend on the number of threads, so plans and bits do not either. 0: the sums are too large.
    """
    found = min(room // max(1, size), LEAVES)
    return found if found > 1 else 0


def may_split(problem: Problem, rows: int) -> bool:
    """Whether blocks have several leaves, the largest of so many rows."""
    values, columns = problem.values / problem.rows, problem.features
    return rows >= 2 * min(_least(problem, columns, values, square) for square in (False, True))


def _least(problem: Problem, columns: int, values: float, square: bool) -> float:
    """The least rows of a leaf, of so many values each."""
    width = max(1.0, (columns + 1) / max(1.0, values))
    work = max(1.0, values / CHEAP_CURVED_VALUES) if square else 1.0  # of a value, relative to that of its score
    sums = MERGED * width * (max(width, (columns + 1) / WIDE_LEAF_COLUMNS) if square else 1.0)
    return max(LEAF_BYTES / (max(1.0, values) * problem.dtype.itemsize * work), sums)


def bounds(problem: Problem, block: Block, square: bool) -> np.ndarray:
    """Where the leaves of this block begin and end; square: the sums have second derivatives."""
    rows = block.rows()
    least = _least(problem, block.features(), stored(block) / max(1, rows), square)
    count = max(1, min(LEAVES, int(rows // least))) if problem.copies > 1 else 1
    return np.linspace(0, rows, count + 1).astype(np.int64)


def parts(problem: Problem, block: Block) -> list[tuple[RowNumbers, Block]]:
    """The leaves of all rows, for sums with second derivatives: (their numbers, their rows)."""
    ends = bounds(problem, block, square=True).tolist()
    return [(numbered_from(start), part(block, start, stop)) for start, stop in pairwise(ends)]


def summed(
    problem: Problem, some: Sequence[T], visit: Callable[[T, np.ndarray], float | None], sums: np.ndarray
) -> float:
    """Call visit(part, sums) for all of these parts; returns the sum of the results.

    With room for copies, several cores do so. Each part then has sums of its own, which are added in order.
    """
    if problem.copies < 2 or len(some) < 2:
        return sum(visit(part, sums) or 0.0 for part in some)

    def own(part: T) -> tuple[np.ndarray, float]:
        added = np.zeros_like(sums)
        return added, visit(part, added) or 0.0

    total = 0.0
    for added, found in problem.workers.each(own, some, problem.copies):
        sums += added
        total += found
    return total


def carry_out(problem: Problem, state: Any, visit: Visit, blocks: Blocks) -> Share:
    """Visit these blocks, or do one unit of that; returns as a visit that is alone does."""
    if visit.alone:
        rows = [blocks] if visit.together else [blocks[0][1], blocks[0][0]]
        share: Share = visit.each(problem, state, *visit.arguments, *rows)
        return share

    def each(own: Any, rows: Block, number: int) -> None:
        visit.each(problem, own, *visit.arguments, rows, number)

    for first, block in blocks:
        if visit.leaves and problem.copies > 1:
            over(problem, state, block, first, each, visit.square, visit.sums)
        else:
            each(state, block, first)
        if visit.keeps is not None:
            visit.keeps(problem, state, *visit.arguments, block, first)
    return None


def over(
    problem: Problem, state: Any, block: Block, first: int, visit: Callable[[Any, Block, int], None],
    square: bool = False, sums: roles.Names = (),
) -> None:  # fmt: skip
    """Call visit(state, rows, first) for the rows of a block, whose first has the number `first`.

    A visit adds to sums (`roles.Sum`) of the state that it gets, and sets numbers of its rows; it changes nothing else.
    """
    ends = bounds(problem, block, square)
    if ends.size == 2:
        visit(state, block, first)
        return

    def leaf(number: int) -> Any:
        own, (start, stop) = roles.beside(state, sums), ends[number : number + 2].tolist()
        visit(own, part(block, start, stop), first + start)
        return own

    for own in problem.workers.each(leaf, range(ends.size - 1), problem.copies):
        roles.merge(state, own, sums)
