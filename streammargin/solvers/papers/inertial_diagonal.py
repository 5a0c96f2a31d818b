"""Diagonal descent with inertia (diagonal descent paper, Algorithm 2, eq. (4.4)-(4.7))."""

from __future__ import annotations

from streammargin.solvers.papers import diagonal


class Method(diagonal.Method):
    """As `diagonal`, from z = beta + t/(t+3) (beta - beta_before), t starting again when the inertia leads uphill."""

    name = "inertial-diagonal"
    summary = "diagonal descent with inertia"
    inertial = True
