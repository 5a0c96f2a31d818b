"""The dual bound of the best mean of all reads' duals, under the ridge alone."""

from __future__ import annotations

import numpy as np

from streammargin.penalties.mirror_maps import lp_norm
from streammargin.solvers.proof.bounds import Bounds
from streammargin.solvers.proof.rounding import TERM, norm_rounding
from streammargin.solvers.roles import K, Shared, f8, of, state


@state
class Bound:
    """The best dual bound, gain - 1/2 ||A^T a||^2, without its duals; slip: rounding error of theta = A^T a."""

    theta: Shared[f8]
    gain: Shared[f8] = of(K)
    slip: Shared[f8] = of(K)

    def raised(self, k: int, proof: Bounds) -> float:
        """The bound of line k with those duals of a read that raise it."""
        theta, pull, total = self.theta[k], proof.theta, proof.total
        gain = total.duals - TERM * total.summed
        # two convex combinations of thetas and gains, each with a few roundings
        largest, size = max(abs(float(self.gain[k])), abs(gain)), max(lp_norm(theta, 2.0), lp_norm(pull, 2.0))
        self.gain[k] = raise_bound(theta, self.gain[k], pull, gain)
        self.gain[k] = raise_bound(theta, self.gain[k], np.zeros_like(theta), 0.0)
        self.slip[k] = max(self.slip[k], total.blur) + TERM * size
        length = lp_norm(theta, 2.0) + float(self.slip[k])
        square = length * length * (1.0 + norm_rounding(theta.size))
        return float(self.gain[k]) - TERM * largest - 0.5 * square


def raise_bound(theta: np.ndarray, gain: float, new_theta: np.ndarray, new_gain: float) -> float:
    """The best dual bound on the segment between two: updates `theta` to its A^T a, and returns its gain.

    A bound is gain - 1/2 ||A^T a||^2; by concavity the gain of a mean of duals is at least the mean of their gains.
    """
    towards = new_theta - theta
    length = float(towards @ towards)
    along = new_gain - gain - float(theta @ towards)
    t = min(max(along / length, 0.0), 1.0) if length > 0.0 else float(along > 0.0)
    theta += t * towards
    return gain + t * (new_gain - gain)
