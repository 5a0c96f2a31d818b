"""Diagonal descent with inertia (diagonal descent paper, Algorithm 2, eq. (4.4)-(4.7))."""

from __future__ import annotations

import math

import numpy as np

from streammargin.kinds import Number, YesNo
from streammargin.rows.blocks import Block
from streammargin.solvers.base import multiplications
from streammargin.solvers.papers.diagonal import Diagonal, DiagonalState
from streammargin.solvers.papers.hinge_pass import HingeSums
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.margins import pieces, sum_margins
from streammargin.solvers.roles import EVERY_COLUMN, K, N, Rows, Sum, f8, i8, of, state
from streammargin.words import entry


@state
class BehindSums(HingeSums):
    """smallest, missed, confused: with ahead=no, the smallest margins, mistakes and wrong rows of w of eq. (4.7)."""

    smallest: Sum[f8] = of(K, fill=math.inf, smallest=EVERY_COLUMN)
    missed: Sum[i8] = of(K)
    confused: Sum[i8] = of(1)


@state
class InertialState(DiagonalState):
    """With the duals before."""

    previous: Rows[f8] = of(K, N)
    sums: BehindSums


class InertialDiagonal(Diagonal):
    """Like `diagonal`, with inertia, which takes fewer reads; C = inf, l2; stops by the margin gap.

    In iteration t, one read, with the penalty lambda_t = lambda0 / decay(t):
        z_i <- beta_i + t/(t + alpha) (beta_i - old beta_i);
        beta_i <- clip(z_i + gamma (1 - y_i x_i.v), 0, 1 / lambda_t),   v = sum_i z_i y_i x_i;
        w <- sum_i beta_i y_i x_i.
    Certified and saved is the next v, the point with inertia of eq. (4.4), whose margins a read has. With ahead=no it
    is w of eq. (4.7), and each row is multiplied once more. The count t starts again if the inertia leads uphill;
    all else is as for diagonal. The paper's method is gamma=fixed, restarts=no, ahead=no.

    Source: diagonal descent paper, Algorithm 2, eq. (4.4)-(4.7).
    """

    name = "inertial-diagonal"
    alpha: float = entry(
        3.0, Number("a finite number of at least 3", lambda value: 3.0 <= value < math.inf),
        "the inertia of iteration t is t/(t + alpha)", kw_only=True,
    )  # fmt: skip
    restarts: bool = entry(True, YesNo(), "t starts again if the inertia leads uphill", kw_only=True)
    ahead: bool = entry(
        True, YesNo(), "the answer is the point with inertia, eq. (4.4); no: w of eq. (4.7), by a second product with "
        "each row", kw_only=True,
    )  # fmt: skip
    state_class = InertialState

    def weights(self, problem: Problem, state: DiagonalState) -> np.ndarray:
        return super().weights(problem, state) if self.ahead else state.theta / self.largest_norm(state)

    def keep(self, problem: Problem, state: DiagonalState, group: int) -> None:
        super().keep(problem, state, group)
        state.theta[group] = state.best_w[group] * self.largest_norm(state)

    def shown_figures(self, state: DiagonalState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sums = state.sums
        if self.ahead:
            return super().shown_figures(state)
        assert isinstance(sums, BehindSums)
        return sums.smallest, sums.missed, sums.confused

    def run_block(self, problem: Problem, state: DiagonalState, active: np.ndarray, block: Block, first: int) -> None:
        super().run_block(problem, state, active, block, first)
        sums = state.sums
        if not self.ahead and isinstance(sums, BehindSums):
            state.multiplications += multiplications([(first, block)], problem.count) / 2
            w = self.weights(problem, state)
            for seen in pieces(state.labels, problem.outputs, block, first):
                sum_margins(problem, seen.labels, seen.scores(w), sums.smallest, sums.missed, sums.confused)

    def momentum(self, state: DiagonalState) -> np.ndarray:
        t = state.steps
        return np.where(t > 1.0, t / (t + self.alpha), 0.0)

    def starts_again(self, turn: float) -> bool:
        return self.restarts and turn > 0.0
