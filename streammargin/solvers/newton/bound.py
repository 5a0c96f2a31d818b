"""Bounds from one read with frozen weights, and the best dual bound of all reads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streammargin.compiled import look as kernel
from streammargin.compiled.look import Curvature, Found, Point, Prox
from streammargin.losses.base import middle_share
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, RowNumbers
from streammargin.solvers.base import PassReport
from streammargin.solvers.linear import LinearState, keep_weights
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import Best, best_figures, gaps_of, keep_bounds
from streammargin.solvers.proof.objectives.base import Candidate
from streammargin.solvers.proof.rounding import EPS, TERM, blur, mean_rounding, norm_rounding
from streammargin.solvers.proof.sums import LookSums
from streammargin.solvers.roles import K, Shared, f8, of, state

CHUNK_ROUNDING = kernel.CHUNK * EPS + TERM  # rounding of sums over chunks, relative to the size of their terms


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
    look: LookSums
    w: Shared[f8]


def begin_look(problem: Problem, state: Looking, active: np.ndarray) -> None:
    """Reset the sums of the active problems.

    Problems that are done show their certified weights, as all classes share one count of mistakes.
    """
    done = problem.done(active)
    state.w[done] = state.best_w[done]
    look = state.look
    look.pull[active], look.duals[active], look.weights[active] = 0.0, 0.0, 0.0
    look.wrong[:], look.rows = 0, 0


def soft_step(problem: Problem, softness: np.ndarray, centres: np.ndarray | None = None, **given: Any) -> Prox:
    """A proximal step with this softness (K,) from the centres, or else the midpoints of the feasible intervals."""
    none = np.zeros((problem.count, 0))
    given = {"midway": middle_share(problem.loss), "gaps": True, "alpha": none, **given}
    return Prox(none if centres is None else centres, curvatures=np.zeros(softness.size), softness=softness, **given)


def add_sums(
    problem: Problem, look: LookSums, rows: tuple[Block, RowNumbers, Labels], active: np.ndarray, w: np.ndarray,
    step: Prox, H: Curvature | None = None, norms: np.ndarray = kernel.NO_NORMS, **found: np.ndarray,
) -> None:  # fmt: skip
    """Add the sums of these rows at w (K, d+1), and what else is to be found of them, as in compiled/look.py."""
    point = Point(w[None], np.zeros((1, problem.count)), blur(w)[None], norms)
    sums = Found(look.weights[None], look.duals, look.pull, look.wrong[None], **found)
    kernel.look(*rows, problem.loss, active, point, step, sums, H)


def look_report(problem: Problem, state: Looking, active: np.ndarray) -> PassReport:
    """The figures that a look proves; none if it was interrupted."""
    if state.look.rows == problem.rows:
        prove(problem, state, state.bound, state.look, state.w, active)
    return report_of(problem, state.best, state.look)


def report_of(problem: Problem, best: Best, look: LookSums) -> PassReport:
    """The best figures proven so far, and the mistakes of a look."""
    figures = best_figures(problem, best)
    wrong = look.wrong.copy() if look.rows == problem.rows else None
    return PassReport(gaps_of(figures), int(look.weights[:, kernel.MISTAKES].sum()), figures, wrong)


def prove(
    problem: Problem, state: LinearState, bound: Bound, look: LookSums, w: np.ndarray, active: np.ndarray
) -> None:
    """Update best weights and bounds from the sums over all rows at w (K, d+1), for the active problems."""
    found: list[Candidate | None] = [None] * problem.count
    dual = np.full(problem.count, -math.inf)
    for k in active:
        weights, duals, image, pull = look.weights[k], look.duals[k, 0], bound.image[k], look.pull[k, 0]
        losses = float(weights[kernel.LOSSES])
        rounding = float(weights[kernel.ROUNDING]) + CHUNK_ROUNDING * losses
        found[k] = problem.objective.weighed(problem.objective.size(w[k]), losses, rounding, weights[kernel.MISTAKES])
        gain = float(duals[kernel.DUAL] - CHUNK_ROUNDING * duals[kernel.SUMMED])
        # two convex combinations of images and of gains, each with a few roundings
        largest, size = max(abs(bound.gain[k]), abs(gain)), max(lp_norm(image, 2.0), lp_norm(pull, 2.0))
        bound.gain[k] = raise_bound(image, bound.gain[k], pull, gain)
        bound.gain[k] = raise_bound(image, bound.gain[k], np.zeros_like(image), 0.0)
        pulled = mean_rounding(problem.present, float(duals[kernel.PULLED]))
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
