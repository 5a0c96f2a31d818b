"""Bounds from one read with frozen weights, and the best dual bound of all reads."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import newton as kernel
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.solvers.base import PassReport
from streammargin.solvers.linear import LinearState, keep_weights
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import Best, best_figures, gaps_of, keep_bounds
from streammargin.solvers.proof.objectives.base import Candidate
from streammargin.solvers.proof.rounding import EPS, TERM, mean_rounding, norm_rounding
from streammargin.solvers.roles import TRIALS, Count, K, Shared, Sum, f8, i8, of, state

CHUNK_ROUNDING = kernel.CHUNK * EPS + TERM  # rounding of sums over chunks, relative to the size of their terms


@state
class Look:
    """Sums over the rows at frozen weights: image = A^T a, totals as in compiled/newton.py, seen: number of rows.

    `newton_sums` of compiled/newton.py fills them. Those of compiled/look.py are `LookSums` (proof/sums.py).
    """

    image: Sum[f8]
    totals: Sum[f8] = of(K, kernel.SUMS, carried=kernel.CARRIED)
    wrong: Sum[i8] = of(TRIALS)
    seen: Count = 0

    def added(self) -> kernel.Totals:
        """The sums that a kernel adds to."""
        return kernel.Totals(self.image, self.totals, self.wrong)


@state
class Bound:
    """The best dual bound, gain - 1/2 ||A^T a||^2, without its duals; slip: rounding error of image = A^T a."""

    image: Shared[f8]
    gain: Shared[f8] = of(K)
    slip: Shared[f8] = of(K)


@state
class Looking(LinearState):
    """Looks at all rows at its weights w (K, d+1), whose sums are `look`."""

    bound: Bound
    look: Look
    w: Shared[f8]


def begin_look(problem: Problem, state: Looking, active: np.ndarray) -> None:
    """Reset the sums of the active problems.

    Problems that are done show their certified weights, as all classes share one count of mistakes.
    """
    done = problem.done(active)
    state.w[done] = state.best_w[done]
    state.look.image[active] = 0.0
    state.look.totals[active] = 0.0
    state.look.wrong[:] = 0
    state.look.seen = 0


def look_report(problem: Problem, state: Looking, active: np.ndarray) -> PassReport:
    """The figures that a look proves; none if it was interrupted."""
    if state.look.seen == problem.rows:
        prove(problem, state, state.bound, state.look, state.w, active)
    return report_of(problem, state.best, state.look)


def report_of(problem: Problem, best: Best, look: Look) -> PassReport:
    """The best figures proven so far, and the mistakes of a look."""
    figures = best_figures(problem, best)
    wrong = look.wrong.copy() if look.seen == problem.rows else None
    return PassReport(gaps_of(figures), int(look.totals[:, kernel.MISTAKES].sum()), figures, wrong)


def prove(problem: Problem, state: LinearState, bound: Bound, look: Look, w: np.ndarray, active: np.ndarray) -> None:
    """Update best weights and bounds from the sums over all rows at w (K, d+1), for the active problems."""
    found: list[Candidate | None] = [None] * problem.count
    dual = np.full(problem.count, -math.inf)
    for k in active:
        total, image = look.totals[k], bound.image[k]
        losses = float(total[kernel.PRIMAL])
        rounding = float(total[kernel.ROUNDING]) + CHUNK_ROUNDING * losses
        found[k] = problem.objective.weighed(problem.objective.size(w[k]), losses, rounding, total[kernel.MISTAKES])
        gain = float(total[kernel.DUAL] - CHUNK_ROUNDING * total[kernel.SUMMED])
        # two convex combinations of images and of gains, each with a few roundings
        largest, size = max(abs(bound.gain[k]), abs(gain)), max(lp_norm(image, 2.0), lp_norm(look.image[k], 2.0))
        bound.gain[k] = raise_bound(image, bound.gain[k], look.image[k], gain)
        bound.gain[k] = raise_bound(image, bound.gain[k], np.zeros_like(image), 0.0)
        pulled = mean_rounding(problem.present, float(total[kernel.PULLED]))
        bound.slip[k] = max(bound.slip[k], pulled) + TERM * size
        length = lp_norm(image, 2.0) + float(bound.slip[k])
        square = length * length * (1.0 + norm_rounding(image.size))
        dual[k] = bound.gain[k] - TERM * largest - 0.5 * square
    keep_bounds(state.best, dual, np.full(problem.count, math.inf))
    keep_weights(problem, state, w.copy(), found)


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
