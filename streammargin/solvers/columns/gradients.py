"""The minimum of a quadratic model in memory: by conjugate gradients with a diagonal preconditioner, or a factor."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from streammargin.compiled import newton as kernel
from streammargin.solvers.proof.sums import LINES
from streammargin.solvers.roles import Shared, W, f8, of, state

PIVOT = 1e-13  # a pivot below this times its diagonal entry is rounding


@state
class ConjugateGradients:
    """The step so far; residual: minus the gradient there; direction: the next one; square: residual . M^-1 residual.

    M is the preconditioner. The caller has the products with the Hessian and M, and says when they end.
    """

    step: Shared[f8] = of(LINES, W)
    residual: Shared[f8] = of(LINES, W)
    direction: Shared[f8] = of(LINES, W)
    square: float = 0.0

    def move(self, product: np.ndarray) -> float:
        """Go to the minimum along the direction, whose product with the Hessian this is; returns how far."""
        length = self.square / float(np.vdot(self.direction, product))
        self.step += length * self.direction
        self.residual -= length * product
        return length

    def redirect(self, conditioned: np.ndarray) -> None:
        """Set the direction that is conjugate to the last one, by M^-1 residual."""
        before, self.square = self.square, float(np.vdot(self.residual, conditioned))
        self.direction[:] = conditioned + self.square / before * self.direction


def conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray], down: np.ndarray, scale: np.ndarray, loose: float, most: int
) -> tuple[np.ndarray, float]:
    """(p with H p near `down`, the share of `down` that it leaves), after at most so many products H v.

    scale: one over the diagonal of H, or near it; loose: the share that is small enough. Both are measured with it.
    """
    at = ConjugateGradients(step=np.zeros_like(down), residual=down.copy(), direction=scale * down)
    at.square = begun = float(down @ at.direction)
    for _ in range(most):
        curved = product(at.direction)
        if not float(at.direction @ curved) > 0.0:  # the gradient is 0, or rounding
            break
        at.move(curved)
        at.redirect(scale * at.residual)
        if not at.square > loose**2 * begun:
            break
    return at.step, math.sqrt(at.square / begun) if begun > 0.0 else 0.0


def direction(H: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """-(I + H)^-1 gradient, (d+1,); of H (d+1, d+1) the upper triangle counts, and is overwritten.

    Falls back to -gradient if rounding leaves no descent direction.
    """
    found, _ = kernel.newton_direction(H, gradient, PIVOT)
    return found if -math.inf < found @ gradient < 0.0 else -gradient  # also if it is nan
