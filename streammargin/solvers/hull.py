"""The point of the convex hull of the rows that is nearest to 0, among those that a method comes by."""

from __future__ import annotations

import math

import numpy as np

from streammargin.solvers.base import Problem, State
from streammargin.specs.norms import dual_norm

EPS = float(np.finfo(np.float64).eps)


def start_hull(problem: Problem, state: State) -> None:
    """Add `hull` (K, d+1), a point for each problem, and `points` (K,), how many it was made of."""
    state.arrays.update(hull=np.zeros((problem.count, problem.features + 1)), points=np.zeros(problem.count))


def hull_memory(problem: Problem) -> int:
    """Bytes of what `start_hull` adds."""
    return 8 * problem.count * (problem.features + 1)


def hull_bound(problem: Problem, state: State, k: int, point: np.ndarray, largest: float) -> float:
    """A bound of the margin, rounding included, from the new point (d+1,) of the hull and all the ones before.

    By duality the length of every point of the hull of the rows bounds the margin. The one kept moves to the best
    point of the segment between itself and the new one: the step of von Neumann's algorithm, for whatever points the
    method computes anyway. Where no hyperplane separates the rows, 0 is in the hull, and the kept point comes to it
    long before any of the new ones does. largest: the largest norm of the rows, in the units of the point.
    """
    kept, points = state.arrays["hull"][k], state.arrays["points"]
    if points[k] == 0.0:
        kept[:] = point
    else:
        before = dual_norm(kept, problem.q)
        direction = point - kept
        square = float(direction @ direction)
        share = min(max(-float(kept @ direction) / square, 0.0), 1.0) if square > 0.0 else 0.0
        moved = kept + share * direction
        if problem.q == 2.0 or dual_norm(moved, problem.q) < before:  # the share is that of the Euclidean norm
            kept[:] = moved
    points[k] += 1.0
    bound = dual_norm(kept, problem.q) + 2.0 * EPS * float(points[k]) * largest
    return bound if math.isfinite(bound) else math.inf
