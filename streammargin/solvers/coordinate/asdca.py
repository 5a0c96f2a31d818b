"""Accelerated dual coordinate ascent (lp-norm perceptron paper, Algorithms 2-4, eq. (8), (13))."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import asdca as kernel
from streammargin.compiled.duals import dual_sums
from streammargin.penalties.mirror_maps import lp_norm, mirror
from streammargin.rows.visits import Turns
from streammargin.solvers.base import PassReport, State
from streammargin.solvers.coordinate import slow_constant
from streammargin.solvers.coordinate.dual_ascent import NUMBERS, PIECE, DualAscent
from streammargin.solvers.old_state import Array, Layout
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.objectives.base import Running

RESTART = 30.0  # the momentum is forgotten once the gap fell so far: without that passes double, as it swings
REFRESH = 8  # times its length of values read until sum |theta_j|^q is taken afresh: it drifts, and costs a length
SHORTEST = 4  # passes: the first ones after a restart say little


class Method(DualAscent):
    """State: the mirror sequence alpha, its momentum and sleep counters (K, n), the images theta and drift (K, d+1).

    What is certified, and answered, is the averaged sequence alpha + last^2 momentum.
    """

    name = "asdca"
    summary = "accelerated dual coordinate ascent"
    vectors = 2

    def layout(self, problem: Problem) -> Layout:
        K, n, width = problem.count, problem.rows, problem.features + 1
        dtype = self.loop_dtype(problem)
        return {
            "alpha": Array((K, n), dtype),
            "momentum": Array((K, n), dtype),
            "sleep": Array((K, n), np.uint8),
            "curvature": Array((n,)),
            "theta": Array((K, width), dtype),
            "drift": Array((K, width), dtype),
            "steps": Array((K,)),
            "pace": Array((K, kernel.PACE)),
            "figures": Array((K, kernel.FIGURES)),
            "dual": Array((K,), fill=-math.inf),
            "departure": Array((K,), fill=1.0),
            "passes": Array((K,), np.int64),
            **slow_constant.layout(problem),
            **self.certificates(problem, dtype),
            **NUMBERS,
        }

    def start(self, problem: Problem) -> State:
        state = super().start(problem)
        counts = np.bincount(problem.codes[problem.there(slice(None))], minlength=problem.caps.shape[1])
        state.arrays["steps"][:] = np.maximum((problem.caps > 0.0) @ counts.astype(np.float64), 1.0)
        for k in range(problem.count):
            self._set_off(state, k)
        return state

    def visit_rows(self, problem: Problem, state: State, active: np.ndarray, turns: Turns, figures: np.ndarray) -> None:
        a = state.arrays
        refresh = float(REFRESH * (problem.features + 1))
        kernel.asdca_turns(
            turns, problem.labels, problem.loss, problem.norm, active, a["steps"], refresh, a["alpha"], a["momentum"],
            a["sleep"], a["curvature"], a["theta"], a["drift"], a["pace"], a["centre"], state.numbers["damping"],
            figures,
        )  # fmt: skip

    def end_pass(self, problem: Problem, state: State, active: np.ndarray) -> PassReport:
        a = state.arrays
        figures = a["figures"]
        self.check_scale(problem, state)
        estimate = np.zeros(problem.count)
        for k in active:
            image = self._image(state, k)
            size = lp_norm(image, problem.q)
            share = a["pace"][k, kernel.LAST] ** 2
            gain, total = dual_sums(problem.labels, problem.loss, k, a["alpha"][k], a["momentum"][k], share)
            dual = gain - 0.5 * size * size
            gap, slack = float(figures[k, kernel.GAP]), float(figures[k, kernel.MIN_MARGIN])
            gap += slow_constant.behind(state, k, image)
            estimate[k] = self.estimate(problem, state, Running(size, dual, total, gap, slack))
            self._pace(problem, state, k, estimate[k], dual)
        return PassReport(estimate, int(figures[:, kernel.MISTAKES].sum()))

    def _pace(self, problem: Problem, state: State, k: int, estimate: float, dual: float) -> None:
        """Restart once the gap is a RESTART-th of what it was after the last restart, or the dual falls."""
        a = state.arrays
        a["passes"][k] += 1
        if a["passes"][k] == 1:
            a["departure"][k] = min(estimate, 1.0)
        # the scale of the weights is a little old for p < 2; float32 sums of p = 2 could only fall by rounding
        fell = problem.p != 2.0 and dual < a["dual"][k] - 1e-9 * abs(dual)
        if fell or (a["passes"][k] >= SHORTEST and estimate < a["departure"][k] / RESTART):
            self.restart(problem, state, k)
        a["dual"][k] = dual

    def _image(self, state: State, k: int) -> np.ndarray:
        """A^T of the averaged sequence, in the precision of the loop."""
        a = state.arrays
        return a["theta"][k] + a["theta"].dtype.type(a["pace"][k, kernel.LAST] ** 2) * a["drift"][k]

    def _average(self, problem: Problem, state: State, k: int, sign: float) -> None:
        """alpha becomes the averaged sequence, or again what it was (sign -1)."""
        a = state.arrays
        share = a["alpha"].dtype.type(sign * a["pace"][k, kernel.LAST] ** 2)
        for start in range(0, problem.rows, PIECE):
            piece = a["alpha"][k, start : start + PIECE]
            piece += share * a["momentum"][k, start : start + PIECE]
            if not problem.objective.signed:
                np.maximum(piece, 0.0, out=piece)  # it is a mean of feasible points, but for rounding

    def restart(self, problem: Problem, state: State, k: int) -> None:
        """From the averaged sequence of problem k, as if it were the first pass."""
        a = state.arrays
        a["theta"][k] = self._image(state, k)
        self._average(problem, state, k, 1.0)
        a["sleep"][k] = 0  # duals that rested at a bound have left it
        a["momentum"][k] = 0.0
        a["drift"][k] = 0.0
        self._set_off(state, k)

    def _set_off(self, state: State, k: int) -> None:
        a = state.arrays
        a["pace"][k, [kernel.GAMMA, kernel.LAST]] = 1.0 / a["steps"][k]
        a["pace"][k, kernel.READ] = math.inf  # the square is summed afresh at once
        a["passes"][k] = 0

    def weights(self, problem: Problem, state: State) -> np.ndarray:
        images = (slow_constant.seen(state, k, self._image(state, k).astype(np.float64)) for k in range(problem.count))
        return np.stack([mirror(image, problem.q) for image in images])

    def frozen(self, problem: Problem, state: State, k: int) -> np.ndarray:
        image = slow_constant.seen(state, k, self._image(state, k))
        return image if problem.p == 2.0 else mirror(image, problem.q)

    def begin_certificate(self, problem: Problem, state: State, active: np.ndarray) -> None:
        super().begin_certificate(problem, state, active)
        for k in range(problem.count):
            self._average(problem, state, k, 1.0)

    def end_certificate(self, problem: Problem, state: State) -> tuple[list[Figures], np.ndarray]:
        answer = super().end_certificate(problem, state)
        for k in range(problem.count):
            self._average(problem, state, k, -1.0)
        return answer

    def duals(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray]:
        # of the averaged sequence, during a certificate
        return state.arrays["alpha"], state.arrays["sleep"]

    def rebuilt(self, problem: Problem, state: State, k: int, theta: np.ndarray) -> None:
        a = state.arrays
        a["theta"][k] = theta - a["pace"][k, kernel.LAST] ** 2 * a["drift"][k]
        a["pace"][k, kernel.READ] = math.inf
