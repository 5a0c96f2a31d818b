"""Huber's regression loss, quadratic near 0 and linear beyond; a member of the family in `residuals.py`."""

from __future__ import annotations

from streammargin.losses.base import POSITIVE, Largest
from streammargin.losses.residuals import ResidualTerms
from streammargin.words import entry


class Huber(Largest):
    """u^2 / 2 for |u| <= delta, delta (|u| - delta/2) beyond, u = x.w - y: like the mean, but far numbers count less.

    Source: Huber 1964.
    """

    delta: float = entry(1.0, POSITIVE, "the error from which on it is linear, in units of y")

    def terms(self) -> ResidualTerms:
        return ResidualTerms(-self.delta, self.delta, 0.0, 0.0, 1.0)


LOSSES = (Huber,)
