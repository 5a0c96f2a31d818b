"""The solver pdprox: steps on columns if they are cheap, then restarted primal-dual steps, or the paper's."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.errors import Refusal, UsageError
from streammargin.kinds import Word, YesNo
from streammargin.losses.base import POSITIVE, has
from streammargin.penalties.base import Penalty
from streammargin.penalties.lp import LpSquare
from streammargin.solvers.base import FOLDS, NUMBERS, PATH, SEVERAL, TOP, Method, PassReport, Stage, solvers_of
from streammargin.solvers.columns import gathered_steps, working_set
from streammargin.solvers.columns.column_steps import ColumnSteps, OnColumns
from streammargin.solvers.columns.gathered_steps import GatheredSteps
from streammargin.solvers.columns.paper_steps import PaperSteps
from streammargin.solvers.columns.primal_dual import Restarted, RestartedSteps
from streammargin.solvers.expansion.primal_dual import PrimalDual
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.sums import bound_by_side
from streammargin.solvers.roles import take
from streammargin.words import entry

COLUMNS_STAGE, GATHERED_STAGE = ColumnSteps(average=None), GatheredSteps()


class Pdprox(Method):
    """Primal-dual proximal steps, one read each; finite C, any penalty but lp, a free constant, the parameter top.

    Each read updates all duals by the margins u_i, and certifies w and alpha. A step of the weights follows:
        alpha_i <- argmax of the dual of the loss - alpha_i u_i - (alpha_i - old alpha_i)^2 / (2 sigma);
        w <- prox of R at w + tau sum_i (2 alpha_i - old alpha_i) y_i x_i.
    The mean of both since the last restart is certified too, and a restart begins from it. Joint outputs have one W.
    For l1, elasticnet, groups (of a softmax l21, l1, elasticnet) w moves by many steps on columns between two reads.
    With top=M, sum_i alpha_i <= C M: a multiplier of that bound is the weight of one more column.
    For regression it widens the stretch of residuals that cost nothing instead, as their duals have both signs.
    The objective that is certified is at the best multiplier for the margins of all rows, which stay in memory.
    With `primal` and `dual` it projects the duals, in two reads. Without `top` they are as printed: a row of
    generalized_hinge, epsilon_insensitive and quantile has two duals, and c is that of appendix A.

    Source: Pdprox paper, Algorithms 1 and 2, Theorem 6, eq. (19), Lemma 13; restarts: Applegate et al. 2021 (PDLP).
    """

    name = "pdprox"
    algorithm: str | None = entry(
        None, Word(("primal", "dual")), "the paper's own steps: primal is its Algorithm 2, dual Algorithm 1; none: "
        "steps and restarts that the run finds",
    )  # fmt: skip
    average: bool | None = entry(
        None, YesNo(), "report the mean of the iterates; no: the last one; none: the better one; with an algorithm of "
        "the paper that of the last pass, else the best of all passes", kw_only=True,
    )  # fmt: skip
    scale: float | None = entry(
        None, POSITIVE, "with an algorithm of the paper, by how much its steps are longer than sqrt(1 / (2c)); none: 1",
        kw_only=True,
    )  # fmt: skip
    prologue = 1
    requires: ClassVar[tuple[str, ...]] = ("step", "primal", "dual")
    couples = ("coupled_step",)
    takes: ClassVar[tuple[str, ...]] = (NUMBERS, SEVERAL, PATH, TOP, FOLDS)
    whole = ""

    def of(self, problem: Problem) -> Method:
        return self if problem.kernel is None else PrimalDual(**self.get_params())

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if self.algorithm is None and self.scale is not None:
            raise UsageError("the parameter scale of pdprox is for the paper's steps; give algorithm=primal or dual")
        if problem.top < math.inf and problem.joint:
            wrong = "the parameter top counts the largest losses of one output, and here several are joined"
            raise Refusal(wrong, "leave it out")
        if bound_by_side(problem) and not (has(problem.loss, "reach") and has(problem.loss, "lifted")):
            loss = problem.loss_called
            wrong = f"the parameter top needs the methods reach and lifted of a loss of numbers, which {loss} lacks"
            raise Refusal(wrong, "leave it out")
        if problem.hard:
            raise Refusal("pdprox needs a finite C", "for the hard margin, C = inf, use `solver=auto`")

    def lacks(self, penalty: Penalty, free: bool) -> str | None:
        return None if penalty.proximal or isinstance(penalty, LpSquare) else ""  # the exponent is checked elsewhere

    def stages(self) -> dict[str, Stage]:
        return {
            "columns": Stage(COLUMNS_STAGE, leave=leave),
            "gathered": Stage(GATHERED_STAGE),
            "steps": Stage(
                RestartedSteps[Restarted](average=self.average), lambda problem, before, watch: take(Restarted, before)
            ),
            "paper": Stage(PaperSteps(dual=self.algorithm == "dual", average=self.average, scale=self.scale or 1.0)),
        }

    def route(self, problem: Problem) -> tuple[str, ...]:
        if self.algorithm is not None:
            return ("paper",)
        if self.average is None and gathered_steps.suits(problem):
            return ("gathered",)
        on_columns = self.average is None and COLUMNS_STAGE.plan(problem).penalty is not None
        return ("columns", "steps") if on_columns else ("steps",)

    def remark(self, problem: Problem) -> str:
        first = self.route(problem)[0]
        if first == "gathered":
            return "; Newton steps on the columns that matter"
        if problem.holders == 1:
            return ""
        if first == "columns":
            return "; steps on the columns that matter are made here"
        few = problem.sparse and working_set.split(problem) is not None
        return f"; one step a read{', as memory has no room for the columns that matter' * few}"

    def memory(self, problem: Problem) -> int:
        return solvers_of(self, problem)[0].memory(problem)


def leave(problem: Problem, state: OnColumns, watch: None, report: PassReport, active: np.ndarray) -> str:
    """Switch to proximal steps once no problem makes steps on columns, after the first pass."""
    return "steps" if state.pace.step.any() and not state.sigma.any() else ""
