"""The point of the convex hull of the rows that is nearest to 0, among those that a method comes by."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled.vectors import mix, towards
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.solvers.base import State
from streammargin.solvers.old_state import Array, Layout
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import EPS


def hull_rounding(state: State) -> float:
    """What `hull_bound` adds for rounding, relative to the largest norm; 0 for a method that has no hull."""
    points = state.arrays.get("points")
    return 0.0 if points is None else 2.0 * EPS * float(points.max())


def hull_layout(problem: Problem) -> Layout:
    """`hull` (K, d+1), a point for each problem, and `points` (K,), how many it was made of."""
    return {"hull": Array((problem.count, problem.features + 1)), "points": Array((problem.count,))}


def hull_bound(problem: Problem, state: State, k: int, share: float, vector: np.ndarray, largest: float) -> float:
    """A bound of the margin, rounding included, from the point share * vector of the hull and all the ones before.

    By duality the length of every point of the hull of the rows bounds the margin. The one kept moves to the best
    point of the segment between itself and the new one: the step of von Neumann's algorithm, for whatever points the
    method computes anyway. Where no hyperplane separates the rows, 0 is in the hull, and the kept point comes to it
    long before any of the new ones does. vector (d+1,); largest: the largest norm of the rows, in the point's units.
    """
    kept, points = state.arrays["hull"][k], state.arrays["points"]
    part = 1.0
    if points[k] > 0.0:
        along, square = towards(kept, share, vector)
        part = min(max(-along / square, 0.0), 1.0) if 0.0 < square < math.inf else 0.0
    before = kept.copy() if problem.q != 2.0 and points[k] > 0.0 else None
    square = mix(1.0 - part, kept, part * share, vector)
    size = lp_norm(kept, problem.q, square)
    if before is not None and lp_norm(before, problem.q) <= size:  # `part` is that of the Euclidean norm
        kept[:] = before
        size = lp_norm(kept, problem.q)
    points[k] += 1.0
    bound = size + 2.0 * EPS * float(points[k]) * largest
    return bound if math.isfinite(bound) else math.inf
