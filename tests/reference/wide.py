"""A loss that is no part of the package: the hinge (width - u)_+ that asks for another margin."""

from typing import NamedTuple

from streammargin.kinds import Number
from streammargin.losses.base import Loss
from streammargin.words import entry


class WideHingeTerms(NamedTuple):
    width: float

    def has_hard_margin(self):
        return False

    def primal(self, margin, cost):
        return cost * self.beyond(margin)

    def beyond(self, margin):
        return max(self.width - margin, 0.0)

    def dual(self, alpha, cost):
        return self.width * alpha

    def gap(self, alpha, margin, cost):
        return self.primal(margin, cost) - self.dual(alpha, cost) + alpha * margin

    def feasible(self, alpha, cost):
        return min(max(alpha, 0.0), cost)

    def step(self, alpha, margin, curvature, cost):
        return self.feasible(alpha + (self.width - margin) / curvature, cost) if curvature > 0.0 else cost

    def settled(self, alpha, cost):
        return alpha <= 0.0 or alpha >= cost

    def slack(self, margin):
        return margin

    def missed(self, margin):
        return margin <= 0.0


class WideHinge(Loss):
    """(width - u)_+"""

    width: float = entry(2.0, Number("a positive number", lambda value: value > 0.0), "of the margin that it asks for")

    def terms(self):
        return WideHingeTerms(self.width)
