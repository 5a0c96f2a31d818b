"""Dual coordinate ascent (lp-norm perceptron paper, Lemma 1, Algorithm 1, appendices B.1 and C)."""

from __future__ import annotations

import numpy as np

from streammargin.compiled import sdca as kernel
from streammargin.compiled.duals import dual_sums, total
from streammargin.compiled.vectors import square
from streammargin.penalties.base import Penalty
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.visits import Turns
from streammargin.solvers.base import PassReport, State
from streammargin.solvers.coordinate import active_rows as restless
from streammargin.solvers.coordinate import slow_constant
from streammargin.solvers.coordinate.dual_ascent import NUMBERS, DualAscent
from streammargin.solvers.old_state import Array, Layout, Number
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.objectives.base import Running

NEAR = 4.0  # times the tolerance: from there on weights swing about the optimum, and the mean of two passes is nearer
SWING = 0.5  # but not while a pass still takes so much of the gap away: the mean would lag behind
MEAN_GAP = 0.8  # of the estimate: what the gap of that mean mostly is
KEPT_GAP = 0.55  # the same where rows are kept, as later visits settle them: without it text took another read at times


class Method(DualAscent):
    """State: duals alpha (K, n), theta = A^T alpha (K, d+1), curvatures (n,), sleep counters (K, n).

    For p < 2 also `powers` (K, d+1), sign(theta) |theta|^(q-1), and the sums of |theta|^q; for groups `powers` are the
    squares ||theta_g||^2.

    With a finite C and p = 2, what is certified near the end is the mean of theta and of `trail` (K, d+1),
    theta one pass before. Beside rows kept theta comes too far in a pass for that.
    """

    name = "sdca"
    summary = "dual coordinate ascent"

    def layout(self, problem: Problem) -> Layout:
        K, n, width = problem.count, problem.rows, problem.features + 1
        dtype = self.loop_dtype(problem)
        vectors: Layout = {
            "alpha": Array((K, n), dtype),
            "sleep": Array((K, n), np.uint8),
            "curvature": Array((n,)),
            "theta": Array((K, width), dtype),
            "powers": Array((K, width if problem.keeps_powers else 0)),
            "power_sum": Array((K,)),
            "figures": Array((K, kernel.FIGURES)),
            "trail": Array((K, width if self._averages(problem) else 0), dtype),
            **slow_constant.layout(problem),
            **self.certificates(problem, dtype),
            **NUMBERS,
            "near": Number(False),
            "last estimate": Number(1.0),
            "trailing": Number(False),
        }
        return vectors | restless.room_for_rows(problem, vectors)

    def serves(self, penalty: Penalty, free: bool) -> bool:
        return penalty.norm is not None and not free

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        super().begin_pass(problem, state, number)
        state.numbers["trailing"] = state.numbers["near"] and not state.kept
        if state.numbers["trailing"]:
            state.arrays["trail"][:] = state.arrays["theta"]
            for k in range(problem.count):
                slow_constant.seen(state, k, state.arrays["trail"][k])

    def _averages(self, problem: Problem) -> bool:
        return problem.linear and not problem.hard

    def visit_rows(self, problem: Problem, state: State, active: np.ndarray, turns: Turns, figures: np.ndarray) -> None:
        a = state.arrays
        kernel.sdca_turns(
            turns, problem.labels, problem.loss, problem.norm, active, a["alpha"], a["sleep"], a["curvature"],
            a["theta"], self.powers(problem, state), a["power_sum"], a["centre"], state.numbers["damping"], figures,
        )  # fmt: skip

    def end_pass(self, problem: Problem, state: State, active: np.ndarray) -> PassReport:
        a = state.arrays
        if problem.p != 2.0:  # the running sums drift
            for k in active:
                a["power_sum"][k] = float(np.sum(np.abs(a["theta"][k]) ** problem.q))
        self.check_scale(problem, state)
        figures = a["figures"]
        estimate, penalty = np.zeros(problem.count), problem.objective.penalty
        for k in active:
            theta, alpha = a["theta"][k], a["alpha"][k]
            size = lp_norm(theta, 2.0, square(theta)) if problem.linear else penalty.gauge(theta)
            if problem.objective.signed:  # the sum of the duals says nothing
                dual, whole = dual_sums(problem.labels, problem.loss, k, alpha, alpha, 0.0)
            else:  # the size of the objective is needed only roughly: the sum is D + 1/2 ||theta||^2 for the hinge
                dual = whole = total(alpha)
            gap, slack = float(figures[k, kernel.GAP]), float(figures[k, kernel.MIN_MARGIN])
            gap += slow_constant.behind(state, k, theta)
            estimate[k] = self.estimate(problem, state, Running(size, dual - 0.5 * size * size, whole, gap, slack))
        if state.numbers["trailing"]:
            estimate *= MEAN_GAP
        if state.kept:
            estimate *= KEPT_GAP
        now, before = float(estimate.max()), state.numbers["last estimate"]
        state.numbers["near"] = self._averages(problem) and SWING * before < now < NEAR * problem.tol
        state.numbers["last estimate"] = now
        report = PassReport(estimate, int(figures[:, kernel.MISTAKES].sum()))
        report.kept_rows = sum(kept.ids.size for kept in state.kept.values())
        return report

    def weights(self, problem: Problem, state: State) -> np.ndarray:
        mirror = problem.objective.penalty.mirror
        images = state.arrays["theta"].astype(np.float64)
        return np.stack([mirror(slow_constant.seen(state, k, image)) for k, image in enumerate(images)])

    def frozen(self, problem: Problem, state: State, k: int) -> np.ndarray:
        # float32 weights are certified as they are, by sums in float64
        theta = state.arrays["theta"][k]
        if not problem.linear:
            return problem.objective.penalty.mirror(theta)
        if not (state.numbers["trailing"] or 0.0 < state.numbers["damping"] < 1.0):
            return theta
        # where it is kept until it is certified: of many columns an array of its own costs
        frozen = state.arrays["frozen"][k]
        frozen[:] = theta
        slow_constant.seen(state, k, frozen)
        if state.numbers["trailing"]:
            frozen += state.arrays["trail"][k]
            frozen *= 0.5
        return frozen

    def duals(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray]:
        return state.arrays["alpha"], state.arrays["sleep"]

    def rebuilt(self, problem: Problem, state: State, k: int, theta: np.ndarray) -> None:
        # the loop goes on from the exact A^T alpha: rounding never accumulates over certificates
        a = state.arrays
        a["theta"][k] = theta
        if problem.keeps_powers:
            a["powers"][k] = problem.objective.penalty.powers(theta)
        if problem.p != 2.0:
            a["power_sum"][k] = float(np.sum(np.abs(theta) ** problem.q))
