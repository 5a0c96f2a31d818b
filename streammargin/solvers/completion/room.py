"""How large factors may grow in a memory budget."""

from __future__ import annotations

from typing import NamedTuple

from streammargin.solvers.completion.found import FactorsState
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import state_bytes

OTHERS = 10  # vectors of a column of the factors, beside pairs of steps
PAIRS, FEW = 10, 3  # pairs of steps of the limited-memory method
ENOUGH, LEAST = 20, 4  # columns of the factors with which there are many pairs; that must have room
SHARE = 0.7  # of what is left by all else


class Room(NamedTuple):
    """rank: most columns of the factors; pairs: of steps; bytes: of all of it, beside the state."""

    rank: int
    pairs: int
    bytes: int

    @classmethod
    def of(cls, problem: Problem) -> Room:
        """The room in a problem's budget."""
        rows = problem.size + 10 * problem.rows if problem.resident else 0
        left = SHARE * (problem.budget - state_bytes(FactorsState, problem) - rows)
        most = min(problem.sides)
        pairs = PAIRS if left >= column_bytes(problem, PAIRS) * min(most, ENOUGH) else FEW
        rank = max(min(most, LEAST), min(most, int(max(0.0, left) / column_bytes(problem, pairs))))
        return cls(rank, pairs, rank * column_bytes(problem, pairs))


def column_bytes(problem: Problem, pairs: int) -> int:
    """Bytes of a column of the factors, with all vectors of its length."""
    return 8 * sum(problem.sides) * (2 * pairs + OTHERS)
