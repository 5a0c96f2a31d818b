"""Diagonal descent with inertia (diagonal descent paper, Algorithm 2, eq. (4.4)-(4.7))."""

from __future__ import annotations

from streammargin.solvers.papers.diagonal import Diagonal, DiagonalState
from streammargin.solvers.roles import K, N, Rows, f8, of, state


@state
class InertialState(DiagonalState):
    """With the duals before."""

    previous: Rows[f8] = of(K, N)


class InertialDiagonal(Diagonal):
    """As diagonal, with inertia: the fastest with one read an iteration; C = inf, l2; stops by the margin gap.

    In iteration t, one read, with the penalty lambda_t = lambda0 / decay(t):
        z_i <- beta_i + t/(t + 3) (beta_i - old beta_i)
        beta_i <- clip(z_i + gamma (1 - y_i x_i.v), 0, 1 / lambda_t),   v = sum_i z_i y_i x_i
        w <- sum_i beta_i y_i x_i
    t starts again where the inertia leads uphill; all else is as for diagonal.

    Source: diagonal descent paper, Algorithm 2, eq. (4.4)-(4.7).
    """

    name = "inertial-diagonal"
    state_class = InertialState
