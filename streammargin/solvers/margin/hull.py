"""The point of the convex hull of the rows that is nearest to 0, among those that a method comes by."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled.vectors import mix, towards
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import EPS
from streammargin.solvers.roles import K, Shared, f8, of, state


@state
class Hull:
    """A point for each problem, and how many it was made of."""

    point: Shared[f8]
    count: Shared[f8] = of(K)


def hull_rounding(hull: Hull) -> float:
    """What `hull_bound` adds for rounding, relative to the largest norm."""
    return 2.0 * EPS * float(hull.count.max())


def hull_bound(problem: Problem, hull: Hull, k: int, share: float, vector: np.ndarray, largest: float) -> float:
    """A bound of the margin, rounding included, from the point share * vector of the hull and all the ones before.

    By duality the length of every point of the hull of the rows bounds the margin. The one kept moves to the best
    point of the segment between itself and the new one: the step of von Neumann's algorithm, for whatever points the
    method computes anyway. Where no hyperplane separates the rows, 0 is in the hull, and the kept point comes to it
    long before any of the new ones does. vector (d+1,); largest: the largest norm of the rows, in the point's units.
    """
    kept, count = hull.point[k], hull.count
    part = 1.0
    if count[k] > 0.0:
        along, square = towards(kept, share, vector)
        part = min(max(-along / square, 0.0), 1.0) if 0.0 < square < math.inf else 0.0
    before = kept.copy() if problem.q != 2.0 and count[k] > 0.0 else None
    square = mix(1.0 - part, kept, part * share, vector)
    size = lp_norm(kept, problem.q, square)
    if before is not None and lp_norm(before, problem.q) <= size:  # `part` is that of the Euclidean norm
        kept[:] = before
        size = lp_norm(kept, problem.q)
    count[k] += 1.0
    bound = size + 2.0 * EPS * float(count[k]) * largest
    return bound if math.isfinite(bound) else math.inf
