"""The solver completion: factors that grow, then dense matrices if the rank is high and these fit."""

from __future__ import annotations

import numpy as np

from streammargin.solvers.base import PassReport, Stage
from streammargin.solvers.completion.factors import Factors
from streammargin.solvers.completion.matrix import Completing, FactorsState, MatrixState, SplittingState
from streammargin.solvers.completion.splitting import Splitting
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import entries, new

HIGH = 6  # shares of the shorter side; a rank above one of them is high
FACTORS, SPLITTING = Factors(), Splitting()


class Completion(Completing):
    """Completes a matrix: `factors`, then `splitting` if the rank exceeds a sixth of the shorter side.

    It stays with the factors if dense matrices do not fit into the memory.

    Source: those of both.
    """

    name = "completion"

    def stages(self) -> dict[str, Stage]:
        return {"factors": Stage(FACTORS, leave=leave), "splitting": Stage(SPLITTING, enter=follow)}

    def memory(self, problem: Problem) -> int:
        most = FACTORS.memory(problem)
        return max(most, SPLITTING.memory(problem)) if fits(problem) else most


def fits(problem: Problem) -> bool:
    """Whether dense matrices fit into the memory, beside the entries."""
    rows = problem.size + 10 * problem.rows if problem.resident else 0
    return SPLITTING.memory(problem) + rows <= problem.budget


def leave(problem: Problem, state: FactorsState, watch: None, report: PassReport, active: np.ndarray) -> str:
    """Switch if the rank is high and dense matrices fit."""
    high = state.factors.shape[1] * HIGH > min(problem.sides)
    return "splitting" if high and state.task == "grow" and fits(problem) else ""


def follow(problem: Problem, before: FactorsState, watch: None) -> SplittingState:
    """The state of dense matrices, which begin at the factors."""
    taken = {entry.name: getattr(before, entry.name) for entry in entries(MatrixState)}
    state = new(SplittingState, problem, **taken)
    rows = problem.sides[0]
    np.matmul(before.factors[:rows], before.factors[rows:].T, out=state.matrix)
    state.other[:] = state.matrix
    values = np.linalg.svd(before.factors, compute_uv=False) ** 2
    state.weight = 1.0 / max(0.3 * float(values.mean()), 1e-300)
    state.softness, state.before, state.task = 1e30, -1.0, "step"
    return state
