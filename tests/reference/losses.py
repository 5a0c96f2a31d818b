"""The loss table on the unit scale: phi(u), -phi*(-alpha) and the coordinate step, for arrays or numbers."""

from typing import NamedTuple

import numpy as np
from scipy.special import entr


class Loss(NamedTuple):
    """phi is the loss of the margin, dual its -phi*(-alpha) on [0, top], step(alpha, u, kappa) the new alpha."""

    phi: object
    dual: object
    step: object
    top: float = 1.0


def _hinge_step(alpha, u, kappa):
    return np.clip(alpha + (1 - u) / kappa, 0, 1) if kappa else 1.0  # an empty row: u = 0 and the dual is linear


def _smooth_phi(u, g):
    r = 1 - np.asarray(u, float)
    return np.where(r <= 0, 0, np.where(r >= g, r - g / 2, r**2 / (2 * g)))


def _logistic_step(alpha, u, kappa):
    """Bisection for the zero of the falling slope log((1-a)/a) - u - kappa (a - alpha), in z = logit(a)."""
    low, high = -1e4, 1e4
    while True:
        z = (low + high) / 2
        if z in (low, high):
            return 1 / (1 + np.exp(-z)) if z > 0 else np.exp(z) / (1 + np.exp(z))
        a = np.exp(-np.logaddexp(0, -z))
        low, high = (z, high) if -z - u - kappa * (a - alpha) > 0 else (low, z)


def make(name, width=1.0, slope=2.0):
    """The loss of this name; width: of the smoothed hinge, slope: of the generalised one."""
    g = width
    return {
        "hinge": Loss(lambda u: np.maximum(1 - u, 0), lambda a: a + 0.0, _hinge_step),
        "squared_hinge": Loss(
            lambda u: np.maximum(1 - u, 0) ** 2,
            lambda a: a - a**2 / 4,
            lambda a, u, k: max(0, a + (1 - u - a / 2) / (k + 1 / 2)),
            np.inf,
        ),
        "smooth_hinge": Loss(
            lambda u: _smooth_phi(u, g),
            lambda a: a - g * a**2 / 2,
            lambda a, u, k: np.clip(a + (1 - u - g * a) / (k + g), 0, 1),
        ),
        "generalized_hinge": Loss(
            lambda u: np.maximum(np.maximum(1 - np.asarray(u, float), 1 - slope * np.asarray(u, float)), 0),
            lambda a: np.minimum(a, 1),
            lambda a, u, k: np.clip(np.median([a - u / k, 1, a + (1 - u) / k]), 0, slope) if k else 1.0,
            slope,
        ),
        "logistic": Loss(lambda u: np.logaddexp(0, -u), lambda a: entr(a) + entr(1 - a), _logistic_step),
    }[name]


NAMES = ("hinge", "squared_hinge", "smooth_hinge", "logistic")  # optimum.py solves these
ALL = (*NAMES, "generalized_hinge")
