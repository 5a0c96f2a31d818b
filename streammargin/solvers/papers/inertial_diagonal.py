"""Diagonal descent with inertia (diagonal descent paper, Algorithm 2, eq. (4.4)-(4.7))."""

from __future__ import annotations

from streammargin.solvers.papers import diagonal
from streammargin.solvers.roles import K, N, Rows, f8, of, state


@state
class Inertial(diagonal.Diagonal):
    """With the previous duals."""

    previous: Rows[f8] = of(K, N)


class Method(diagonal.Method):
    """As `diagonal`, from z = beta + t/(t+3) (beta - beta_before), t starting again when the inertia leads uphill."""

    name = "inertial-diagonal"
    summary = "diagonal descent with inertia"
    state_class = Inertial
