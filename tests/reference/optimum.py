"""The exact answer by an interior-point method on the dual; nothing here knows of coordinate ascent.

Newton's method on  1/2 ||A^T alpha||_q^2 - (dual of the losses) - mu sum (log alpha + log(top - alpha))
for a falling mu. On the central path the duality gap is at most 2 n mu, and it is recomputed at the end.
"""

from typing import NamedTuple

import numpy as np
from reference.norms import length, mirror


class Optimum(NamedTuple):
    """w and alpha of a relative gap within 1e-8; value lies between the dual and the primal objective."""

    w: np.ndarray
    alpha: np.ndarray
    primal: float
    dual: float


def _loss_derivatives(problem, name, width, alpha):
    """First and second derivative of the losses' share of the dual."""
    if problem.hard or name == "hinge":
        return np.ones(len(alpha)), np.zeros(len(alpha))
    if name == "logistic":
        return np.log(problem.caps / alpha - 1), -problem.caps / (alpha * (problem.caps - alpha))
    g = {"squared_hinge": 0.5, "smooth_hinge": width}[name]
    return 1 - g * alpha / problem.caps, -g / problem.caps


def _norm_hessian(theta, q):
    """Hessian of 1/2 ||theta||_q^2."""
    size = length(theta, q)
    if size == 0:
        return np.eye(len(theta)) * (q == 2)
    slope = np.sign(theta) * (np.abs(theta) / size) ** (q - 1)
    return (q - 1) * np.diag((np.abs(theta) / size) ** (q - 2)) + (2 - q) * np.outer(slope, slope)


def solve(problem, name, width=1.0, accuracy=1e-8):
    """The optimum of a reference.training.Binary whose loss has this name."""
    n = len(problem.A)
    top = problem.top
    boxed = np.isfinite(top)
    room = np.where(boxed, top, 1.0)

    def merit(alpha, mu):
        if np.any(alpha <= 0) or np.any(boxed & (alpha >= top)):
            return np.inf
        return -problem.dual(alpha) - mu * np.sum(np.log(alpha) + np.where(boxed, np.log(np.abs(room - alpha)), 0))

    def newton_step(alpha, mu):
        theta = problem.theta(alpha)
        first, second = _loss_derivatives(problem, name, width, alpha)
        upper = np.where(boxed, 1 / np.where(boxed, top - alpha, 1), 0)
        gradient = problem.A @ mirror(theta, problem.q) - first - mu * (1 / alpha - upper)
        diagonal = mu * (1 / alpha**2 + upper**2) - second
        hessian = problem.A @ _norm_hessian(theta, problem.q) @ problem.A.T + np.diag(diagonal)
        scale = 1 / np.sqrt(np.diag(hessian))
        step = -scale * np.linalg.solve(hessian * np.outer(scale, scale), scale * gradient)
        return step, -gradient @ step

    alpha, mu = 0.1 * np.where(boxed, top, 1.0), 1.0
    while mu > 1e-14:
        for _ in range(60):
            step, decrement = newton_step(alpha, mu)
            # the way to the walls bounds the first trial
            shrink = np.max(np.concatenate([-step / alpha, np.where(boxed, step / (room - alpha), 0)]))
            length_of_step = min(1.0, 0.99 / shrink) if shrink > 0 else 1.0
            start = merit(alpha, mu)
            while merit(alpha + length_of_step * step, mu) > start - 1e-4 * length_of_step * decrement:
                length_of_step /= 2
                if length_of_step < 1e-10:
                    break
            else:
                alpha = alpha + length_of_step * step
            if decrement < 1e-3 * mu or length_of_step < 1e-10:
                break
        w = mirror(problem.theta(alpha), problem.q)
        if problem.gap(w, alpha) <= accuracy / 10:
            break
        mu /= 5
    gap = problem.gap(w, alpha)
    assert 0 <= gap <= accuracy, f"the interior-point method ended at a relative gap of {gap} with {n} rows"
    return Optimum(w, alpha, problem.primal(w), problem.dual(alpha))
