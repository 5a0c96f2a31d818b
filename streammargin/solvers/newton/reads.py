"""Out of core: a read of all rows for each Newton step, with no number that belongs to a row.

Each read certifies its weights, and sums up the gradient and the Hessian for the step that follows it. A loss with a
kink is smoothed around fixed centres, the midpoints of the feasible intervals (Nesterov 2005). So the duals are a
function of the weights, and feasible, and the proof is exact. Its gap falls with the square of the softness.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.compiled import newton as kernel
from streammargin.losses.base import smooth
from streammargin.rows.blocks import GRAM_ROWS, Block
from streammargin.rows.labels import RowLabels, numbered_from
from streammargin.solvers.base import PassReport, Share, matrix_work
from streammargin.solvers.cache import rows as store
from streammargin.solvers.linear import LinearSolver
from streammargin.solvers.newton.bound import Looking, begin_look, look_report
from streammargin.solvers.newton.subproblem import ACTIVE_LEFT, direction
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import blur
from streammargin.solvers.roles import K, Shared, Sum, W, b1, f4, f8, i8, of, state
from streammargin.solvers.state import labels_of

SOFTNESS = 0.5  # the first 1 / sigma, relative to the caps
WIDE = 4.0  # the same at w = 0: all rows have a positive slope
WIDER = 8.0  # times the softness after a step that was too long, as no row had a slope
BACK = 1.1  # the softness goes back towards an earlier one that is at least so many times as large
OVERSHOT = 0.3  # a step is shortened if the slope at its end exceeds this times the initial descent
SHORTEST, LONGEST = 0.1, 0.9  # shares of a step that may be left when it is shortened
LEAST_FALL = 1 / 8  # share of the softness that is left after a read, at least, until a step was too long
MOST_ACTIVE = 0.5  # share of the rows; with more, they lie at the bend, and a smaller softness may leave next to none
ENOUGH = 0.5  # of the goal: the gap that the softness aims at; the rest is for the distance of w from A^T a
NO_KEYS = np.empty(0, f4)


@state
class ReadsState(Looking):
    """Weights w (K, d+1), and at w the sums `look` and H (K, d+1, d+1).

    last_step (K, d+1): to w; descent (K,): minus the slope at its start; settled (K,): w was near the minimum there, or
    the step was shortened, so that it stays; fell (K,): the softness fell with the step.
    sloped (K,): how many rows had a slope at its start.
    wider (K,): the softness before it fell last; fall (K,): what share of it may be left, at least.
    careful (K,): it falls only when w is near the minimum.
    """

    H: Sum[f8] = of(K, W, W)
    softness: Shared[f8] = of(K, fill=SOFTNESS)
    last_step: Shared[f8]
    descent: Shared[f8] = of(K)
    settled: Shared[b1] = of(K)
    fell: Shared[b1] = of(K)
    sloped: Shared[i8] = of(K)
    wider: Shared[f8] = of(K)
    fall: Shared[f8] = of(K, fill=LEAST_FALL)
    careful: Shared[b1] = of(K)


class Reads(LinearSolver[ReadsState]):
    """A Newton step on all rows after each read."""

    name = "newton's reads"
    state_class: ClassVar[type[ReadsState]] = ReadsState

    def reserved_bytes(self, problem: Problem) -> int:
        width = problem.features + 1
        return 8 * width * (width + 6 + GRAM_ROWS)  # for the step of one problem

    def start(self, problem: Problem, labels: RowLabels) -> ReadsState:
        state = super().start(problem, labels)
        state.softness[:] = 0.0 if smooth(problem.loss) else WIDE
        return state

    def begin_at(self, problem: Problem, state: ReadsState, w: np.ndarray) -> None:
        state.w[:] = w
        if not smooth(problem.loss):
            state.softness[:] = SOFTNESS

    def begin_pass(self, problem: Problem, state: ReadsState, number: int) -> None:
        super().begin_pass(problem, state, number)
        state.look.seen = state.part = 0

    def run_block(self, problem: Problem, state: ReadsState, active: np.ndarray, block: Block, first: int) -> Share:
        """Add the sums of a unit of these rows at the current weights."""
        if state.look.seen == 0:
            begin_look(problem, state, active)
            state.H[active] = 0.0
        work = problem.count * (store.LOOK + (problem.features + 1) / 2)
        start, stop = store.next_rows(state, block, work, active.size)
        look, none = state.look, np.zeros((problem.count, 0))
        look.seen += stop - start
        kernel.newton_sums(
            store.part(block, start, stop), numbered_from(first + start), labels_of(problem, state), problem.loss,
            active, problem.trials, state.softness, state.w, blur(state.w), none[0], 0, none, none[0], False, none,
            NO_KEYS, look.image, state.H, look.totals, look.wrong,
        )  # fmt: skip
        return stop / block.rows() if stop < block.rows() else None

    def end_pass(self, problem: Problem, state: ReadsState, active: np.ndarray) -> PassReport:
        report = look_report(problem, state, active)
        if state.look.seen == problem.rows:
            for k in active[report.estimate[active] > problem.tol]:
                self._step(problem, state, k)
        return report

    def _step(self, problem: Problem, state: ReadsState, k: int) -> None:
        """Make one Newton step of problem k, or shorten the last one if it was too long."""
        w, step, descent = state.w[k], state.last_step[k], float(state.descent[k])
        gradient = w - state.look.image[k]
        slope = float(gradient @ step)
        if state.softness[k] <= SOFTNESS and state.look.totals[k, kernel.ACTIVE] > MOST_ACTIVE * problem.present:
            state.careful[k] = state.softness[k] > 0.0
        if slope > OVERSHOT * descent and not state.settled[k]:
            state.careful[k] = True
            if state.sloped[k] < w.size and self._widen(state, k):
                return
            left = share_left(descent, slope, float(step @ step) + curvature(state.H[k], step))
            w -= (1.0 - left) * step
            step *= left
            state.descent[k] *= left
            state.settled[k] = state.fell[k]  # the step led down at the softness of before
            return
        state.multiplications += matrix_work(
            w.size, state.look.totals[k, kernel.ACTIVE], problem.values / problem.rows
        )  # fmt: skip
        if state.softness[k] > 0.0:
            self._soften(problem, state, k, 0.5 * float(gradient @ gradient))
        state.sloped[k] = state.look.totals[k, kernel.ACTIVE]
        step[:] = direction(state.H[k], gradient)
        state.descent[k] = -float(gradient @ step)
        w += step

    @staticmethod
    def _widen(state: ReadsState, k: int) -> bool:
        """Undo a step whose matrix had too few rows, where the softness fell too far, or was too small."""
        soft, before = float(state.softness[k]), float(state.wider[k])
        if before < BACK * soft and state.sloped[k] > 0:
            return False
        state.softness[k] = math.sqrt(soft * before) if before >= BACK * soft else WIDER * soft
        state.fall[k] = math.sqrt(state.fall[k])
        state.w[k] -= state.last_step[k]
        state.last_step[k], state.descent[k] = 0.0, 0.0
        return True

    def _soften(self, problem: Problem, state: ReadsState, k: int, away: float) -> None:
        """Lower the softness, as the gap falls with its square; away: 1/2 ||w - A^T a||^2.

        With few active rows the quadratic model is accurate only nearby, so w must be near the minimum then. So it must
        be where most rows lie at the bend of the loss, or a step was too long.
        """
        total = state.look.totals[k]
        gap, goal = float(total[kernel.GAP]), ENOUGH * problem.tol * float(abs(state.best.primal[k]))
        fall = min(1.0, max(state.fall[k], math.sqrt(goal / gap) if gap > 0.0 else 1.0))
        state.settled[k] = away < 0.5 * gap
        before = float(state.softness[k])
        many = fall * total[kernel.ACTIVE] >= ACTIVE_LEFT * state.w[k].size
        if state.settled[k] or (many and not state.careful[k]):
            state.wider[k] = state.softness[k]
            state.fall[k] = max(LEAST_FALL, state.fall[k] ** 2)
            state.softness[k] *= fall
        state.fell[k] = state.softness[k] < before

    def weights(self, problem: Problem, state: ReadsState) -> np.ndarray:
        return state.w.copy()


def curvature(H: np.ndarray, p: np.ndarray) -> float:
    """p.H p for the upper triangle of H."""
    upper = np.triu(H) @ p
    return float(2.0 * (p @ upper) - np.square(p) @ np.diagonal(H))


def share_left(descent: float, slope: float, bend: float) -> float:
    """The share of a step to keep: where the cubic through the slopes -descent and slope at its ends is 0.

    Its derivatives there are descent, as a Newton step has it, and bend.
    """
    low, high = 0.0, 1.0
    for _ in range(40):
        t = 0.5 * (low + high)
        s = 1.0 - t
        value = s * s * ((1.0 + 2.0 * t) * -descent + t * descent) + t * t * ((3.0 - 2.0 * t) * slope - s * bend)
        low, high = (t, high) if value < 0.0 else (low, t)
    return min(max(low, SHORTEST), LONGEST)
