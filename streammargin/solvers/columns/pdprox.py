"""The solver pdprox: steps on columns where they are cheap, then restarted primal-dual steps, or the paper's."""

from __future__ import annotations

from typing import Any

import numpy as np

from streammargin.errors import UsageError
from streammargin.penalties.base import Penalty
from streammargin.solvers.base import Method as AnyMethod
from streammargin.solvers.base import PassReport, Stage
from streammargin.solvers.columns.column_steps import ColumnSteps, OnColumns
from streammargin.solvers.columns.dual_pass import restarts
from streammargin.solvers.columns.primal_dual import PaperSteps, Restarted, RestartedSteps
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import take

PAPER = ("primal", "dual")
COLUMNS, STEPS, PAPERS = ColumnSteps(), RestartedSteps[Restarted](), PaperSteps()


class Method(AnyMethod):
    """alpha <- prox of the losses at alpha - sigma A w, w <- prox of R at w + tau A^T (2 alpha - alpha_before).

    One read an iteration: a pass sees w, steps the duals by the margins that it meets and sums up A^T alpha, which is
    all that the next w needs; its sums certify w and alpha, and the mean of the w since the last restart with the mean
    of the alpha. This is Algorithm 2 of the paper.

    dual_budget = M: sum_i alpha_i <= C M (the paper's eq. (19)). Its multiplier eta >= 0 costs C M eta, and lifts every
    margin: it is the weight of one more column, so that no duals are projected and one read an iteration stays enough.
    """

    name = "pdprox"
    summary = "primal-dual proximal steps"
    prologue = 1
    numeric = True
    requires = ("step", "primal", "dual")
    options = ("schedule", "dual_budget", "C_path")

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if not problem.objective.penalty.proximal:
            raise UsageError(f"pdprox supports penalties with p = 2 only, not {problem.p:.6g}; use `penalty=l2`")
        if problem.hard:
            raise UsageError("pdprox needs a finite C; for the hard margin, C = inf, use `solver=auto`")
        schedule = problem.options.get("schedule")
        if schedule is not None and schedule not in PAPER:
            raise UsageError(
                f"the schedule of pdprox is primal or dual, the algorithms of the paper, not {schedule!r}; leave "
                "`schedule` out for steps and restarts that the run finds"
            )

    def serves(self, penalty: Penalty, free: bool) -> bool:
        return True

    def stages(self) -> dict[str, Stage]:
        return {
            "columns": Stage(COLUMNS, leave=leave),
            "steps": Stage(STEPS, enter=follow),
            "paper": Stage(PAPERS),
        }

    def first(self, problem: Problem) -> str:
        if not restarts(problem):
            return "paper"
        return "steps" if COLUMNS.plan(problem).penalty is None else "columns"

    def memory(self, problem: Problem) -> int:
        return self.stages()[self.first(problem)].solver.memory(problem)

    def scratch(self, problem: Problem, rows: int, size: int, sparse: bool) -> int:
        return 0


def follow(problem: Problem, before: OnColumns, watch: None) -> Any:
    """The state of proximal steps, from the state of steps on columns."""
    return take(Restarted, before)


def leave(problem: Problem, state: OnColumns, watch: None, report: PassReport, active: np.ndarray) -> str:
    """Switch to proximal steps once no problem makes steps on columns, after the first pass."""
    return "steps" if state.pace.step.any() and not state.sigma.any() else ""
