"""Out of core: a read of all rows for each Newton step, with no number that belongs to a row.

Each read certifies its weights, and sums up the gradient and the Hessian for the step that follows it. A loss with a
kink is smoothed around fixed centres, the midpoints of the feasible intervals (Nesterov 2005). So the duals are a
function of the weights, and feasible, and the proof is exact. Its gap falls with the square of the softness.

The softness falls no further than a step changes the margins. Near the minimum a step also follows the path of minima.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.compiled import look as kernel
from streammargin.compiled.look import Curvature
from streammargin.losses.base import smooth
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.blocks import GRAM_ROWS, Block
from streammargin.rows.labels import RowLabels, numbered_from
from streammargin.solvers.base import PassReport, matrix_work
from streammargin.solvers.cache import rows as store
from streammargin.solvers.newton.subproblem import direction, soft_step
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.bounds import Bounds
from streammargin.solvers.proof.look import CertifiedByLook, LookedAt
from streammargin.solvers.proof.rounding import TERM, norm_rounding
from streammargin.solvers.roles import K, Kept, Shared, Sum, W, f8, i8, of, state
from streammargin.solvers.softness import LEAST_FALL, may_soften, next_fall, share_of_softness
from streammargin.solvers.state import labels_of
from streammargin.solvers.visits import Visit

SOFTNESS = 0.5  # the first 1 / sigma, relative to the caps
WIDE = 4.0  # the same at w = 0: all rows have a positive slope
WIDER = 8.0  # times the softness after a step that was too long, as no row had a slope
OVERSHOT = 0.3  # a step is shortened if the slope at its end exceeds this times the initial descent
SHORTEST, LONGEST = 0.1, 0.9  # shares of a step that may be left when it is shortened
STAYS = 0.9  # a share above this is 1
EVEN = 24  # times the gap of a row spread evenly over the softened part is its cap times the width of that part


@state
class Begun:
    """Where the last step began: w (K, d+1), and at w the softness (K,), gradient, drift (K, d+1) and H.

    newton (K, d+1): the Newton step; active (K,): rows with a slope.
    """

    w: Kept[f8]
    softness: Kept[f8] = of(K)
    gradient: Kept[f8]
    newton: Kept[f8]
    drift: Kept[f8]
    H: Kept[f8] = of(K, *2 * [W.where(lambda problem: not smooth(problem.loss))])
    active: Kept[i8] = of(K)


@state
class Bound:
    """The best dual bound, gain - 1/2 ||A^T a||^2, without its duals; slip: rounding error of image = A^T a."""

    image: Shared[f8]
    gain: Shared[f8] = of(K)
    slip: Shared[f8] = of(K)


@state
class ReadsState(LookedAt):
    """Weights w (K, d+1), and at w the sums `look`, H (K, d+1, d+1) and drift (K, d+1), as in compiled/look.py.

    sloped (K,): the number of rows with a slope there.

    last_step (K, d+1): to w; descent (K,): minus the slope at its start; left (K,): the share of the softness that it
    left. fall (K,): the least share that the next one may leave.
    """

    H: Sum[f8] = of(K, W, W)
    drift: Sum[f8]
    sloped: Sum[f8] = of(K)
    softness: Shared[f8] = of(K, fill=SOFTNESS)
    last_step: Shared[f8]
    descent: Shared[f8] = of(K)
    left: Shared[f8] = of(K, fill=1.0)
    fall: Shared[f8] = of(K, fill=LEAST_FALL)
    begun: Begun
    bound: Bound


class Reads(CertifiedByLook[ReadsState]):
    """A Newton step on all rows after each read."""

    name = "newton's reads"
    state_class: ClassVar[type[ReadsState]] = ReadsState
    adds = ()

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

    def begin_pass(self, problem: Problem, state: ReadsState, active: np.ndarray) -> None:
        super().begin_pass(problem, state, active)
        state.H[active], state.drift[active], state.sloped[active] = 0.0, 0.0, 0.0

    def visit(self, problem: Problem, state: ReadsState, active: np.ndarray) -> Visit:
        cost = problem.count * (store.LOOK + (problem.features + 1) / 2)
        return super().visit(problem, state, active)._replace(square=True, cost=cost)

    def run_block(self, problem: Problem, state: ReadsState, active: np.ndarray, block: Block, first: int) -> None:
        """Add the sums of these rows at the current weights."""
        state.look.rows += block.rows()
        rows = block, numbered_from(first), labels_of(problem, state)
        curvature = Curvature(state.H, drift=state.drift, active=state.sloped)
        state.look.add(problem.loss, rows, active, state.w, soft_step(problem, state.softness), curvature)

    def end_pass(self, problem: Problem, state: ReadsState, active: np.ndarray) -> PassReport:
        if state.look.rows == problem.rows:
            self.prove(problem, state, active)
        report = self.report(problem, state)
        if state.look.rows == problem.rows:
            for k in active[report.estimate[active] > problem.tol]:
                self._step(problem, state, k)
        return report

    def bound(self, problem: Problem, state: ReadsState, k: int, proof: Bounds) -> float:
        """That of the best mean of the duals of all reads, as those of one may be far from the optimum."""
        best, pull, total = state.bound, proof.theta, proof.total
        image, gain = best.image[k], total.duals - TERM * total.summed
        # two convex combinations of images and of gains, each with a few roundings
        largest, size = max(abs(float(best.gain[k])), abs(gain)), max(lp_norm(image, 2.0), lp_norm(pull, 2.0))
        best.gain[k] = raise_bound(image, best.gain[k], pull, gain)
        best.gain[k] = raise_bound(image, best.gain[k], np.zeros_like(image), 0.0)
        best.slip[k] = max(best.slip[k], total.blur) + TERM * size
        length = lp_norm(image, 2.0) + float(best.slip[k])
        square = length * length * (1.0 + norm_rounding(image.size))
        return float(best.gain[k]) - TERM * largest - 0.5 * square

    def _step(self, problem: Problem, state: ReadsState, k: int) -> None:
        """Set the weights of the next read: where a step from here leads, or one from where the last step began.

        The last step is made again with a larger share of the softness if it followed the path of minima too far. It is
        shortened, with all of the softness, if the slope at its end is too steep.
        """
        w, step, begun = state.w[k], state.last_step[k], state.begun
        gradient = w - state.look.pull[k, 0]
        newton = direction(state.H[k].copy(), gradient)
        slope, gap = float(gradient @ step), float(state.look.weights[k, kernel.GAP])
        # how far the Newton step changes the margins of rows with a slope, relative to the width of the softened part
        moved = math.sqrt(max(0.0, curvature(state.H[k], newton)) / (EVEN * gap)) if gap > 0.0 else math.inf
        follows = state.left[k] < 1.0 and bool(begun.drift[k].any())  # then the step depends on what is left
        if not follows and slope > OVERSHOT * state.descent[k]:
            self._leave(state, k, 1.0)
            self._shorten(state, k, slope)
            return
        if follows and moved > 1.0:
            self._leave(state, k, math.sqrt(state.left[k]))
            state.fall[k] = max(state.fall[k], min(state.left[k], STAYS))
        else:
            self._begin(problem, state, k, gradient, newton, moved)
        state.multiplications += matrix_work(w.size, float(begun.active[k]), problem.values / problem.rows)
        step[:] = self._direction(state, k)
        state.descent[k] = -float(begun.gradient[k] @ step)
        w[:] = begun.w[k] + step

    def _begin(
        self, problem: Problem, state: ReadsState, k: int, gradient: np.ndarray, newton: np.ndarray, moved: float
    ) -> None:
        """Begin a step at w. It leaves so much of the softness that its gap, which falls with the square, meets tol."""
        w, begun = state.w[k], state.begun
        gap, goal = float(state.look.weights[k, kernel.GAP]), problem.tol * float(abs(state.best.primal[k]))
        begun.w[k], begun.softness[k], begun.gradient[k], begun.newton[k] = w, state.softness[k], gradient, newton
        begun.active[k] = state.sloped[k]
        if begun.H.size:
            begun.H[k] = state.H[k]
        near = may_soften(-0.5 * float(gradient @ newton), gap)
        begun.drift[k] = state.drift[k] if near else 0.0
        share = max(moved, share_of_softness(gap, goal, float(state.fall[k])))
        # with fewer rows than columns the quadratic model is accurate only nearby
        self._leave(state, k, share if near or share * begun.active[k] >= w.size else 1.0)
        state.fall[k] = next_fall(float(state.fall[k]))

    @staticmethod
    def _leave(state: ReadsState, k: int, share: float) -> None:
        """Set the softness to a share of that where the step begins."""
        state.left[k] = share if share <= STAYS else 1.0
        state.softness[k] = state.left[k] * state.begun.softness[k]

    @staticmethod
    def _direction(state: ReadsState, k: int) -> np.ndarray:
        """The Newton step, and near the minimum also that along the path of minima to the softness that is left.

        On the path margins of rows with a slope stay in proportion to the softness, so that their duals hardly change.
        """
        begun, left = state.begun, float(state.left[k])
        if left == 1.0:
            return begun.newton[k]
        return begun.newton[k] + direction(begun.H[k] / left, (1.0 - 1.0 / left) * begun.drift[k])

    @staticmethod
    def _shorten(state: ReadsState, k: int, slope: float) -> None:
        """Take back a part of the last step; all of it, with a larger softness, if no row had a slope there."""
        w, step, left = state.w[k], state.last_step[k], 0.0
        if state.begun.active[k] == 0 and state.softness[k] > 0.0:
            state.softness[k] *= WIDER
        else:
            left = share_left(float(state.descent[k]), slope, float(step @ step) + curvature(state.H[k], step))
        w -= (1.0 - left) * step
        step *= left
        state.descent[k] *= left


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


def raise_bound(image: np.ndarray, gain: float, new_image: np.ndarray, new_gain: float) -> float:
    """The best dual bound on the segment between two: updates `image` to its A^T a, and returns its gain.

    A bound is gain - 1/2 ||A^T a||^2; by concavity the gain of a mean of duals is at least the mean of their gains.
    """
    towards = new_image - image
    length = float(towards @ towards)
    along = new_gain - gain - float(image @ towards)
    t = min(max(along / length, 0.0), 1.0) if length > 0.0 else float(along > 0.0)
    image += t * towards
    return gain + t * (new_gain - gain)
