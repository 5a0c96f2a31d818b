"""A kernel machine's share of the memory budget."""

from __future__ import annotations

from typing import NamedTuple

from streammargin.solvers.expansion.found import SmoState
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import state_bytes

OF_FORM = 7 * 8  # bytes of a row, in one line
TILES = 4 * 1024 * 256 * 8  # bytes of a tile of rows, of its values, and of copies of these
LEAST = 256  # columns of all rows that are held at least, for rows in memory
SHARE = 0.6  # of the budget, for rows on disk: rows in memory and their columns; the rest is for reading
MOST_COLUMNS = 4096  # columns of the rows in memory, for rows on disk
COPIES = 2.2  # of a row in memory, while others join it


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
        left = problem.budget - (state_bytes(SmoState, problem) if state is None else state)
        fixed = min(TILES, 32 * rows * 256) + 24 * min(rows, 256) * problem.features
        if problem.resident:
            beside = fixed + OF_FORM * problem.count * rows + (row + kept) * rows
            loaded = problem.size + (8 * (rows + 2) if problem.sparse else 0)
            columns = min(8 * rows * rows, left - beside - loaded)
            columns = max(columns, 4 * rows * min(rows, LEAST))
            return cls(int(beside + columns), int(columns), 0)
        most = int(SHARE * left) - fixed
        each = COPIES * row + kept + OF_FORM * problem.count + 16 * problem.count
        held = min(MOST_COLUMNS, rows)
        count = int(max(0, most) / (each + 4.0 * held))
        if count < held:  # all of their columns fit
            count = int((-each + (each * each + 16.0 * max(0, most)) ** 0.5) / 8.0)
        count = max(min(rows, LEAST), min(rows, count))
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
