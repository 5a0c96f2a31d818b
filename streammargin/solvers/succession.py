"""Methods that consist of several stages, each of them a solver."""

from __future__ import annotations

import math

from streammargin.solvers.base import Method
from streammargin.solvers.problem import Problem


class Succession(Method):
    """A list of solvers, its `stages`, with the conditions to switch between them.

    Memory is planned for the largest stage, as a stage takes over the arrays of the previous one.
    """

    def memory(self, problem: Problem) -> int:
        return max(stage.solver.memory(problem) for stage in self.stages().values())

    def scratch(self, problem: Problem, rows: int, size: int, sparse: bool) -> int:
        return max(stage.solver.scratch(problem, rows, size, sparse) for stage in self.stages().values())

    def kept_bytes(self, problem: Problem) -> int:
        return self.stages()[self.first(problem)].solver.kept_bytes(problem)


def passes_left(before: float, now: float, passes: int, tol: float) -> float:
    """Predicted passes until the gap is `tol`, given that it fell from `before` to `now` in this many passes."""
    if now <= tol:
        return 0.0
    return passes * math.log(now / tol) / math.log(before / now) if now < before and tol > 0.0 else math.inf
