"""Feasibility sets of numbers: |x.w - y| <= epsilon (lp-norm perceptron paper, section 2.3 and appendix B.1).

phi(u) = (|u| - epsilon)_+ of the residual u = x.w - y; its limit C = inf is the minimum-norm interpolator.
The duals are signed. The share alpha y of the dual objective belongs to the target, which is not known here.
"""

from __future__ import annotations

from typing import NamedTuple


class Interpolate(NamedTuple):
    """The set of y + [-epsilon, epsilon]; epsilon = 0 is the single point y."""

    epsilon: float

    def has_hard_margin(self):
        return True

    def feasible(self, alpha, cap):
        return min(max(alpha, -cap), cap)

    def slack(self, u):
        return -self.primal(u, 1.0)

    def missed(self, u):
        return abs(u) > self.epsilon

    def step(self, alpha, u, L, cap):
        if L <= 0.0:  # a row of norm 0 is met or is not, whatever its dual
            return alpha
        moved = alpha - u / L
        shrunk = max(abs(moved) - self.epsilon / L, 0.0)
        return min(shrunk, cap) if moved > 0.0 else max(-shrunk, -cap)

    def primal(self, u, cap):
        return cap * max(abs(u) - self.epsilon, 0.0)

    def dual(self, alpha, cap):
        return -self.epsilon * abs(alpha)

    def settled(self, alpha, cap):
        return alpha == 0.0 and self.epsilon > 0.0

    def gap(self, alpha, u, cap):
        return self.primal(u, cap) - self.dual(alpha, cap) + alpha * u


LOSSES = {"interpolate": lambda width: Interpolate(0.0)}
