"""Dual coordinate ascent (lp-norm perceptron paper, Lemma 1, Algorithm 1, appendices B.1 and C)."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import sdca as kernel
from streammargin.compiled.duals import dual_sums
from streammargin.compiled.vectors import square
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.solvers.base import PassReport
from streammargin.solvers.coordinate import active_rows, slow_constant
from streammargin.solvers.coordinate.dual_ascent import Ascent, Beside, DualAscent
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.objectives.base import Running
from streammargin.solvers.roles import K, Shared, W, f8, of, state, state_bytes
from streammargin.solvers.state import labels_of

KEPT_GAP = 0.55  # typical gap with cached rows, relative to the estimate, as they are visited more often


@state
class PlainAscent(Ascent):
    """For p < 2, powers (K, d+1) = sign(theta) |theta|^(q-1) and power_sum (K,) = sum |theta|^q; for groups, powers are
    the squares ||theta_g||^2.
    """

    powers: Shared[f8] = of(K, W.where(lambda problem: problem.keeps_powers))
    power_sum: Shared[f8] = of(K)


class Plain(DualAscent[PlainAscent]):
    """Coordinate ascent without momentum; out of core, active rows are cached."""

    name = "plain ascent"
    behind_map = 16  # mapping a row of d values to m columns takes the multiplications of (d + m) / 2 visits

    def kept_bytes(self, problem: Problem) -> int:
        return active_rows.cache_bytes(problem, state_bytes(PlainAscent, problem, self.dtype(problem)))

    def reserved_bytes(self, problem: Problem) -> int:
        budget = self.kept_bytes(problem)
        return budget + active_rows.copies(budget)

    def beside(self, problem: Problem, state: PlainAscent) -> Beside:
        return state.powers if problem.keeps_powers else state.theta, state.power_sum, None

    def end_pass(self, problem: Problem, state: PlainAscent, active: np.ndarray) -> PassReport | float:
        if (share := self.settle(problem, state, active)) is not None:
            return share
        figures = state.figures
        if problem.p != 2.0:  # correct accumulated rounding
            for k in active:
                state.power_sum[k] = float(np.sum(np.abs(state.theta[k]) ** problem.q))
        self.check_scale(problem, state)
        estimate, conjugate = np.zeros(problem.count), problem.objective.penalty.conjugate
        for k in active:
            theta, alpha = state.theta[k], state.alpha[k]
            size = lp_norm(theta, 2.0, square(theta)) if problem.linear else math.sqrt(2.0 * conjugate(theta))
            if problem.objective.signed:  # signed duals cancel in the sum
                dual, whole = dual_sums(labels_of(problem, state), problem.loss, k, alpha, alpha, 0.0)
            else:  # a rough objective suffices: for the hinge the sum is D + 1/2 ||theta||^2
                dual = whole = float(alpha.sum(dtype=np.float64))
            gap, slack = float(figures[k, kernel.PASS_GAP]), float(figures[k, kernel.MIN_MARGIN])
            gap += slow_constant.behind(state.constant, k, theta)
            estimate[k] = self.estimate(problem, state, Running(size, dual - 0.5 * size * size, whole, gap, slack))
        if state.active.rows.pieces:
            estimate *= KEPT_GAP
        report = PassReport(estimate, int(figures[:, kernel.PASS_MISTAKES].sum()))
        report.kept_rows = state.active.rows.count
        return report

    def weights(self, problem: Problem, state: PlainAscent) -> np.ndarray:
        mirror = problem.objective.penalty.mirror
        images = state.theta.astype(np.float64)
        return np.stack([mirror(slow_constant.seen(state.constant, k, image)) for k, image in enumerate(images)])

    def frozen(self, problem: Problem, state: PlainAscent, k: int) -> np.ndarray:
        # float32 weights are certified unchanged, with sums in float64
        theta = state.theta[k]
        if not problem.linear:
            return problem.objective.penalty.mirror(theta)
        if not 0.0 < state.constant.damping < 1.0:
            return theta
        # computed in place, as another array of many columns is slow
        frozen = state.sweep.frozen[k]
        frozen[:] = theta
        slow_constant.seen(state.constant, k, frozen)
        return frozen

    def rebuilt(self, problem: Problem, state: PlainAscent, k: int, theta: np.ndarray) -> None:
        # continue from the exact A^T alpha, so that rounding does not accumulate over certificates
        self.place(problem, state, k, theta)

    def place(self, problem: Problem, state: PlainAscent, k: int, image: np.ndarray) -> None:
        state.theta[k] = image
        if problem.keeps_powers:
            state.powers[k] = problem.objective.penalty.powers(image)
        if problem.p != 2.0:
            state.power_sum[k] = float(np.sum(np.abs(image) ** problem.q))
