"""Upper bounds on the margin from points of the rows' convex hull near 0."""

from __future__ import annotations

import math

import numpy as np

from streammargin.penalties.mirror_maps import lp_norm
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import EPS
from streammargin.solvers.roles import K, Shared, f8, of, state
from streammargin.solvers.space import EUCLIDEAN, Space


@state
class Hull:
    """The best point of each problem, and the number of points combined in it."""

    point: Shared[f8]
    count: Shared[f8] = of(K)


def hull_rounding(hull: Hull) -> float:
    """The allowance for rounding in `hull_bound`, relative to the largest row norm."""
    return 2.0 * EPS * float(hull.count.max())


def hull_bound(
    problem: Problem, hull: Hull, k: int, share: float, vector: np.ndarray, largest: float, space: Space = EUCLIDEAN
) -> float:
    """An upper bound on the margin, rounding included, from the hull point share * vector and all earlier ones.

    By duality the norm of every point of the rows' convex hull bounds the margin. The stored point moves to the best
    point of the segment to the new one, as in von Neumann's algorithm, for points that the method computes anyway. For
    inseparable rows 0 is in the hull, and the stored point approaches it faster than the new ones. vector (d+1,),
    or the lines of group k one after the other; largest: the largest row norm, in the point's units.
    """
    kept, count = problem.view(hull.point, k).reshape(-1), hull.count
    part = 1.0
    if count[k] > 0.0:
        along, square = space.towards(kept, share, vector)
        part = min(max(-along / square, 0.0), 1.0) if 0.0 < square < math.inf else 0.0
    before = kept.copy() if problem.q != 2.0 and count[k] > 0.0 else None
    size = space.mix(1.0 - part, kept, part * share, vector)
    if problem.q != 2.0:
        size = lp_norm(kept, problem.q)
    if before is not None and lp_norm(before, problem.q) <= size:  # `part` minimises the Euclidean norm, not ||.||_q
        kept[:] = before
        size = lp_norm(kept, problem.q)
    count[k] += 1.0
    bound = size + 2.0 * EPS * float(count[k]) * largest
    return bound if math.isfinite(bound) else math.inf
