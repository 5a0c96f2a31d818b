"""Pdprox in the space of a kernel (Pdprox paper, Algorithm 1 with the step (18) for R(g) = ||g||^2 / 2).

g = sum_i b_i K(x_i, .) is kept by its coefficients b. A step makes them a mean of those before and of the signed
duals, so they stay feasible duals. So the same coefficients have a primal and a dual objective, as those of smo have.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.compiled.largest import step_duals
from streammargin.errors import Refusal, UsageError
from streammargin.kinds import Word, YesNo
from streammargin.losses.base import POSITIVE
from streammargin.rows.blocks import Block
from streammargin.solvers.base import PassReport, Share
from streammargin.solvers.expansion.columns import fill, multiply_unit
from streammargin.solvers.expansion.form import Form
from streammargin.solvers.expansion.found import SmoState
from streammargin.solvers.expansion.measured import largest_value
from streammargin.solvers.expansion.rounds import constant_of, estimate
from streammargin.solvers.expansion.smo import Smo
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import K, Rows, Shared, f8, of, state
from streammargin.solvers.state import labels_of
from streammargin.words import entry


@state
class PrimalDualState(SmoState):
    """alpha: the coefficients b of g; scores: theirs. beta: the duals between two steps of g.

    toward, toward_scores: the signed duals that the next step of g goes towards, and their scores. constant: the one
    that is learned beside g.
    """

    beta: Rows[f8]
    toward: Rows[f8]
    toward_scores: Rows[f8]
    constant: Shared[f8] = of(K)


class PrimalDual(Smo):
    """Two proximal steps of all duals and one of g in each pass, by a product with the Gram matrix."""

    name = "pdprox"
    algorithm: str | None = entry(None, Word(("primal", "dual")), "dual: Algorithm 1, the only one here")
    average: bool | None = entry(None, YesNo(), "no: the last iterate, the only one here", kw_only=True)
    scale: float | None = entry(None, POSITIVE, "by how much steps are longer than those of Theorem 6", kw_only=True)
    state_class = PrimalDualState
    requires: ClassVar[tuple[str, ...]] = ("step",)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.hard:
            raise Refusal("pdprox needs a finite C", "for the hard margin, C = inf, use `solver=smo`")
        if self.algorithm == "primal" or self.average:
            raise Refusal("with a kernel pdprox is Algorithm 1 with its last iterate", "use `solver=pdprox`")

    def pace(self, problem: Problem, state: SmoState, k: int) -> tuple[float, float]:
        """(sigma, tau), the steps of the duals and of g by Theorem 6, with C in place of 1 / (n lambda)."""
        longest = largest_value(problem, state.measured) + (1.0 if problem.free else 0.0)
        step, cap = 1.0 / math.sqrt(2.0 * problem.present * (longest or 1.0)), problem.outputs.largest_cap(k)
        step *= self.scale or 1.0
        return step * cap, step / cap

    def begin_pass(self, problem: Problem, state: PrimalDualState, active: np.ndarray) -> None:  # type: ignore[override]
        if not problem.resident:
            wrong = f"{self.called} gives each row a coefficient, so all rows must be in memory at once"
            raise UsageError(f"{wrong}; give more `memory`, or use `solver=smo`")
        super().begin_pass(problem, state, active)
        labels = labels_of(problem, state)
        for k in active.tolist():
            form, beta = self._form(problem, state, k, None), state.beta[k]
            u = form.sign * (state.scores[k] + state.constant[k]) - form.target
            at = u, beta, 1.0 / self.pace(problem, state, k)[0], 0.0
            if state.number > 1:
                step_duals(problem.loss, labels, k, *at, beta)  # beta_t, from the margins of g_t
            ahead = np.empty(problem.rows)
            step_duals(problem.loss, labels, k, *at, ahead)  # alpha_(t+1), from the same margins
            state.toward[k] = form.sign * ahead

    def run_block(  # type: ignore[override]
        self, problem: Problem, state: PrimalDualState, active: np.ndarray, block: Block, first: int
    ) -> Share:
        """A unit of the scores of the signed duals, by the columns that are held and by values computed again."""
        columns, rows = self.take(problem, state, block), problem.rows
        if fill(columns):
            return 0.0
        coefs, low = np.ascontiguousarray(state.toward[active].T, columns.values.dtype), state.part
        found, each = multiply_unit(columns, problem, columns.block, low, coefs)
        state.part = high = low + len(found)
        state.toward_scores[active, low:high] = found.T
        state.multiplications += 2.0 * each * len(found)
        return high / rows if high < rows else None

    def end_pass(self, problem: Problem, state: PrimalDualState, active: np.ndarray) -> PassReport:  # type: ignore[override]
        if state.part == problem.rows:
            for k in active.tolist():
                tau = self.pace(problem, state, k)[1]
                for now, added in ((state.alpha[k], state.toward[k]), (state.scores[k], state.toward_scores[k])):
                    now[:] = (now + tau * added) / (1.0 + tau)
                state.constant[k] += tau * math.fsum(state.toward[k]) if problem.free else 0.0
                state.travel[k] = math.inf  # nothing bounds the error of scores that products have moved
                state.gaps[k] = self._estimate(problem, state, k, self._form(problem, state, k, None))
        self.freeze(problem, state)
        return PassReport(state.gaps.copy(), self.mistakes(problem, state, active))

    def balance(self, problem: Problem, state: SmoState) -> None:
        """The coefficients add up to 0 in the limit only."""

    def _estimate(self, problem: Problem, state: SmoState, k: int, form: Form) -> float:
        f, b = state.scores[k], state.alpha[k]
        return estimate(form, problem.loss, f, b, constant_of(form, problem.free, f, b)[0])
