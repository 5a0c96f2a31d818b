"""Diagonal descent with inertia (diagonal descent paper, Algorithm 2, eq. (4.4)-(4.7))."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.kinds import Number, YesNo
from streammargin.solvers.papers.diagonal import Diagonal, DiagonalState, FixedState
from streammargin.solvers.roles import K, N, Rows, f8, of, state
from streammargin.words import entry


@state
class InertialState(DiagonalState):
    """With the duals before."""

    previous: Rows[f8] = of(K, N)


@state
class FixedInertialState(FixedState):
    """With the duals before, and a power iteration."""

    previous: Rows[f8] = of(K, N)


class InertialDiagonal(Diagonal):
    """As diagonal, with inertia, which takes fewer reads; C = inf, l2; stops by the margin gap.

    In iteration t, one read, with the penalty lambda_t = lambda0 / decay(t):
        z_i <- beta_i + t/(t + alpha) (beta_i - old beta_i);
        beta_i <- clip(z_i + gamma (1 - y_i x_i.v), 0, 1 / lambda_t),   v = sum_i z_i y_i x_i;
        w <- sum_i beta_i y_i x_i.
    What is certified and saved is the next v, the point with inertia of eq. (4.4), and not w of eq. (4.7): a read has
    the margins of v alone. The count t starts again if the inertia leads uphill; all else is as for diagonal.
    The paper's method is gamma=fixed, restarts=no.

    Source: diagonal descent paper, Algorithm 2, eq. (4.4)-(4.7).
    """

    name = "inertial-diagonal"
    alpha: float = entry(
        3.0, Number("a finite number of at least 3", lambda value: 3.0 <= value < math.inf),
        "the inertia of iteration t is t/(t + alpha)", kw_only=True,
    )  # fmt: skip
    restarts: bool = entry(True, YesNo(), "t starts again if the inertia leads uphill", kw_only=True)
    state_class: ClassVar[type[InertialState]] = InertialState
    fixed_class: ClassVar[type[FixedInertialState]] = FixedInertialState

    def momentum(self, state: DiagonalState) -> np.ndarray:
        t = state.steps
        return np.where(t > 1.0, t / (t + self.alpha), 0.0)

    def starts_again(self, turn: float) -> bool:
        return self.restarts and turn > 0.0
