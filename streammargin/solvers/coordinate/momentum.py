"""Accelerated dual coordinate ascent (lp-norm perceptron paper, Algorithms 2-4, eq. (8), (13))."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.compiled import sdca as kernel
from streammargin.compiled.duals import dual_sums
from streammargin.penalties.mirror_maps import lp_norm, mirror
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import PassReport
from streammargin.solvers.coordinate import slow_constant
from streammargin.solvers.coordinate.dual_ascent import Ascent, Beside, DualAscent
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.objectives.base import Running
from streammargin.solvers.roles import Float, K, Rows, Shared, f8, i8, new, of, state
from streammargin.solvers.state import VECTOR_CHUNK_ROWS, labels_of, rows_of_lines

RESTART = 30.0  # restart once the gap fell by this factor; without restarts it oscillates
REFRESH = 8  # sum |theta_j|^q is recomputed after 8 (d + 1) values, as rounding accumulates
SHORTEST = 4  # least passes between restarts


@state
class MomentumAscent(Ascent):
    """alpha is the mirror sequence, momentum (K, n) its momentum, and drift (K, d+1) = A^T momentum.

    The averaged sequence alpha + last^2 momentum is certified and returned. steps (K,): rows present.
    """

    momentum: Rows[Float]
    drift: Shared[Float]
    steps: Shared[f8] = of(K)
    pace: Shared[f8] = of(K, kernel.PACE)
    dual: Shared[f8] = of(K, fill=-math.inf)
    departure: Shared[f8] = of(K, fill=1.0)
    passes: Shared[i8] = of(K)


class Momentum(DualAscent[MomentumAscent]):
    """Accelerated coordinate ascent with restarts."""

    name = "accelerated ascent"
    vectors = 2
    refresh: ClassVar[int] = REFRESH

    def start(self, problem: Problem, labels: RowLabels) -> MomentumAscent:
        return self.prepare(problem, super().start(problem, labels))

    def prepare(self, problem: Problem, state: MomentumAscent) -> MomentumAscent:
        """Initialise the steps and the pace of a state."""
        state.steps[:] = np.maximum(rows_of_lines(state.labels, problem.outputs), 1.0)
        for k in range(problem.count):
            self._start_momentum(state, k)
        return state

    def follow(self, problem: Problem, before: Ascent) -> MomentumAscent:
        """A state that continues from the duals of plain ascent, with its bounds and best weights."""
        after = new(
            MomentumAscent, problem, self.dtype(problem), labels=before.labels, alpha=before.alpha, theta=before.theta,
            curvature=before.curvature, constant=before.constant, norms=before.norms, best=before.best,
            best_w=before.best_w,
        )  # fmt: skip
        after.sweep.largest_blur = before.sweep.largest_blur
        return self.prepare(problem, after)

    def beside(self, problem: Problem, state: MomentumAscent) -> Beside:
        refresh = float(self.refresh * (problem.features + 1))
        ahead = kernel.Ahead(state.momentum, state.drift, state.steps, state.pace, refresh)
        return state.theta, np.zeros(problem.count), ahead

    def end_pass(self, problem: Problem, state: MomentumAscent, active: np.ndarray) -> PassReport:
        figures = state.figures
        self.check_scale(problem, state)
        estimate = np.zeros(problem.count)
        labels = labels_of(problem, state)
        for k in active:
            image = self._image(state, k)
            size = lp_norm(image, problem.q)
            share = state.pace[k, kernel.LAST] ** 2
            gain, total = dual_sums(labels, problem.loss, k, state.alpha[k], state.momentum[k], share)
            dual = gain - 0.5 * size * size
            gap, slack = float(figures[k, kernel.PASS_GAP]), float(figures[k, kernel.MIN_MARGIN])
            gap += slow_constant.behind(state.constant, k, image)
            estimate[k] = self.estimate(problem, state, Running(size, dual, total, gap, slack))
            self.pace(problem, state, k, estimate[k], dual)
        return PassReport(estimate, int(figures[:, kernel.PASS_MISTAKES].sum()))

    def pace(self, problem: Problem, state: MomentumAscent, k: int, estimate: float, dual: float) -> None:
        """Restart once the gap fell by the factor RESTART since the last restart, or the dual objective fell."""
        state.passes[k] += 1
        if state.passes[k] == 1:
            state.departure[k] = min(estimate, 1.0)
        # only for p < 2, if the scale of the weights lags; for p = 2 float32 sums could fall by rounding
        fell = problem.p != 2.0 and dual < state.dual[k] - 1e-9 * abs(dual)
        if fell or (state.passes[k] >= SHORTEST and estimate < state.departure[k] / RESTART):
            self.restart(problem, state, k)
        state.dual[k] = dual

    def _image(self, state: MomentumAscent, k: int) -> np.ndarray:
        """A^T of the averaged sequence, with the dtype of theta."""
        return state.theta[k] + state.theta.dtype.type(state.pace[k, kernel.LAST] ** 2) * state.drift[k]

    def _average(self, problem: Problem, state: MomentumAscent, k: int, sign: float) -> None:
        """Turn alpha into the averaged sequence (sign 1), or back (sign -1)."""
        share = state.alpha.dtype.type(sign * state.pace[k, kernel.LAST] ** 2)
        for start in range(0, problem.rows, VECTOR_CHUNK_ROWS):
            piece = state.alpha[k, start : start + VECTOR_CHUNK_ROWS]
            piece += share * state.momentum[k, start : start + VECTOR_CHUNK_ROWS]
            if not problem.objective.signed:
                np.maximum(piece, 0.0, out=piece)  # feasible up to rounding

    def restart(self, problem: Problem, state: MomentumAscent, k: int) -> None:
        """Restart problem k from its averaged sequence."""
        state.theta[k] = self._image(state, k)
        self._average(problem, state, k, 1.0)
        state.sleep[k] = 0  # duals at a bound have left it
        state.momentum[k] = 0.0
        state.drift[k] = 0.0
        self._start_momentum(state, k)

    def _start_momentum(self, state: MomentumAscent, k: int) -> None:
        state.pace[k, [kernel.GAMMA, kernel.LAST]] = 1.0 / state.steps[k]
        state.pace[k, kernel.READ] = math.inf  # recompute the square at once
        state.passes[k] = 0

    def weights(self, problem: Problem, state: MomentumAscent) -> np.ndarray:
        images = (
            slow_constant.seen(state.constant, k, self._image(state, k).astype(np.float64))
            for k in range(problem.count)
        )
        return np.stack([mirror(image, problem.q) for image in images])

    def frozen(self, problem: Problem, state: MomentumAscent, k: int) -> np.ndarray:
        image = slow_constant.seen(state.constant, k, self._image(state, k))
        return image if problem.p == 2.0 else mirror(image, problem.q)

    def begin_certificate(self, problem: Problem, state: MomentumAscent, active: np.ndarray) -> None:
        super().begin_certificate(problem, state, active)
        for k in self.judged(problem, active).tolist():
            self._average(problem, state, k, 1.0)

    def end_certificate(
        self, problem: Problem, state: MomentumAscent, active: np.ndarray | None = None
    ) -> tuple[list[Figures], np.ndarray]:
        answer = super().end_certificate(problem, state, active)
        for k in self.judged(problem, active).tolist():
            self._average(problem, state, k, -1.0)
        return answer

    def rebuilt(self, problem: Problem, state: MomentumAscent, k: int, theta: np.ndarray) -> None:
        self.place(problem, state, k, theta - state.pace[k, kernel.LAST] ** 2 * state.drift[k])

    def place(self, problem: Problem, state: MomentumAscent, k: int, image: np.ndarray) -> None:
        state.theta[k] = image
        state.pace[k, kernel.READ] = math.inf
