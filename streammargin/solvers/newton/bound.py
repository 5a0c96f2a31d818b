"""The best dual bound of all looks: that of a mean of their duals."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from streammargin.compiled.look import Prox
from streammargin.losses.base import middle_share
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.bounds import Bounds
from streammargin.solvers.proof.look import CertifiedByLook, LookedAt
from streammargin.solvers.proof.rounding import TERM, norm_rounding
from streammargin.solvers.roles import K, Shared, f8, of, state


@state
class Bound:
    """The best dual bound, gain - 1/2 ||A^T a||^2, without its duals; slip: rounding error of image = A^T a."""

    image: Shared[f8]
    gain: Shared[f8] = of(K)
    slip: Shared[f8] = of(K)


@state
class Looking(LookedAt):
    """The state of a solver of problems with one line under the ridge."""

    bound: Bound


L = TypeVar("L", bound=Looking)


class BoundByMeans(CertifiedByLook[L]):
    """Base class: means of the duals of all looks prove a bound, as those of one look may be far from the optimum."""

    def bound(self, problem: Problem, state: L, k: int, proof: Bounds) -> float:
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


def soft_step(problem: Problem, softness: np.ndarray, centres: np.ndarray | None = None, **given: Any) -> Prox:
    """A proximal step with this softness (K,) from the centres, or else the midpoints of the feasible intervals."""
    none = np.zeros((problem.count, 0))
    given = {"midway": middle_share(problem.loss), "gaps": True, "alpha": none, **given}
    return Prox(none if centres is None else centres, curvatures=np.zeros(softness.size), softness=softness, **given)


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
