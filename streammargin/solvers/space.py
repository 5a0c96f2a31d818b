"""The spaces that a method of whole vectors moves in: how vectors are mixed there, and how long they are.

Points of the rows' convex hull near 0 bound the margin from above.
"""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import vectors
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import EPS
from streammargin.solvers.roles import K, Shared, f8, of, state


class Space:
    """Weights of columns, with the Euclidean length."""

    def mix(self, share: float, x: np.ndarray, part: float, y: np.ndarray) -> float:
        """x <- share x + part y, in place; returns the new ||x||."""
        return lp_norm(x, 2.0, vectors.mix(share, x, part, y))

    def length(self, x: np.ndarray) -> float:
        """||x||."""
        return lp_norm(x, 2.0, vectors.square(x))

    def towards(self, x: np.ndarray, part: float, y: np.ndarray) -> tuple[float, float]:
        """(x.s, ||s||^2) for the step s = part y - x."""
        along, square = vectors.towards(x, part, y)
        return along, square


class SpaceOfKernel(Space):
    """Vectors sum_i c_i phi(x_i) in the space of a kernel.

    Each row has its coefficient c_i and its score (K c)_i, in turn. So x.z is the sum of the coefficients of one times
    the scores of the other. Several lines follow each other.
    """

    def mix(self, share: float, x: np.ndarray, part: float, y: np.ndarray) -> float:
        vectors.mix(share, x, part, y)
        return self.length(x)

    def length(self, x: np.ndarray) -> float:
        return math.sqrt(max(0.0, float(np.einsum("i,i", x[0::2], x[1::2]))))

    def towards(self, x: np.ndarray, part: float, y: np.ndarray) -> tuple[float, float]:
        step = part * y - x
        scores = step[1::2]
        return float(np.einsum("i,i", x[0::2], scores)), float(np.einsum("i,i", step[0::2], scores))


EUCLIDEAN, OF_KERNEL = Space(), SpaceOfKernel()


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
    point of the segment to the new one, as in von Neumann's algorithm. The method computes the new points anyway. For
    inseparable rows 0 is in the hull, and the stored point approaches it faster than the new ones.

    `vector`   (d+1,), or the lines of group k one after the other.
    `largest`  the largest row norm, in the point's units.
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
