"""Losses and penalties as formulas, by NumPy alone: what `verify` sums up, apart from all that trains."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

REGRESSIONS = ("squared_error", "absolute_error", "l2_error", "epsilon_insensitive", "huber", "quantile", "interpolate")
# fmt: off
LOSS_FORMULAS: dict[str, Any] = {  # phi(u), with the number that the word names
    "hinge": lambda u, _: np.maximum(0.0, 1.0 - u),
    "squared_hinge": lambda u, _: np.maximum(0.0, 1.0 - u) ** 2,
    "smooth_hinge": lambda u, width: LOSS_FORMULAS["huber"](np.maximum(0.0, 1.0 - u), width) / width,
    "generalized_hinge": lambda u, slope: np.maximum(0.0, np.maximum(1.0 - u, 1.0 - slope * u)),
    "logistic": lambda u, _: np.logaddexp(0.0, -u), "exponential": lambda u, _: np.exp(-u),
    "squared_error": lambda u, _: u**2 / 2.0, **dict.fromkeys(["absolute_error", "l2_error"], lambda u, _: np.abs(u)),
    "huber": lambda u, delta: np.where(np.abs(u) < delta, u**2 / 2.0, delta * (np.abs(u) - delta / 2.0)),
    "quantile": lambda u, level: np.where(u < 0.0, -level * u, (1.0 - level) * u),
    **dict.fromkeys(["epsilon_insensitive", "interpolate"], lambda u, epsilon: np.maximum(0.0, np.abs(u) - epsilon)),
}
JOINT: dict[str, Any] = {  # of all scores z (m, K) of a row, own (m, K): whether the column is that of its class
    "logistic": lambda z, own: np.logaddexp.reduce(z, axis=1) - z[own],
    "hinge": lambda z, own: np.max(z + ~own, axis=1) - z[own],
    "l2_error": lambda u: np.linalg.norm(u, axis=1),  # of the residuals u (m, K)
}
PENALTY_FORMULAS: dict[str, Callable[..., Any]] = {  # R(w); r: the l1_ratio, p: of the norm, of: arrays of columns
    **dict.fromkeys(["lp", "l2"], lambda w, r, p, of: norm(w, p) ** 2 / 2.0),
    "l1": lambda w, *_: norm(w, 1.0), "l2norm": lambda w, *_: norm(w, 2.0), "linf": lambda w, *_: np.abs(w).max(),
    "elasticnet": lambda w, r, p, of: r * norm(w, 1.0) + (1.0 - r) * norm(w, 2.0) ** 2 / 2.0,
    "group": lambda w, r, p, of: r * sum(len(g)**0.5 * norm(w[g], 2.0) for g in of) + (1.0 - r) * norm(w, 2.0)**2 / 2.0,
    "sparse_group": lambda w, r, p, of: r * norm(w, 1.0) + (1.0 - r) * sum(len(g)**0.5 * norm(w[g], 2.0) for g in of),
    "exclusive": lambda w, r, p, of: sum(norm(w[g], 1.0) ** 2 / 2.0 for g in of),
}
OF_LINES = {  # R(W) of the weights of all outputs, a line each
    "l21": lambda W, r: r * sum(norm(w, 2.0) for w in W.T) + (1.0 - r) * norm(W.ravel(), 2.0)**2 / 2.0,
    "l1inf": lambda W, r: r * np.abs(W).max(axis=0).sum() + (1.0 - r) * norm(W.ravel(), 2.0)**2 / 2.0,
    "trace": lambda W, r: r * np.linalg.norm(W, "nuc") + (1.0 - r) * norm(W.ravel(), 2.0)**2 / 2.0,
    "exclusive": lambda W, _: sum(norm(w, 1.0) ** 2 for w in W.T) / 2.0,
}
# fmt: on


def numbers(values: np.ndarray) -> np.ndarray:
    """Values as float64. ValueError if one is not a finite number."""
    if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise ValueError("a value is not a finite number")
    return values.astype(np.float64)


def norm(w: np.ndarray, p: float) -> float:
    """||w||_p."""
    top = float(np.abs(w).max(initial=0.0))
    return top * float(np.sum((np.abs(w) / top) ** p)) ** (1.0 / p) if 0.0 < top < math.inf else top


def lifted(loss: str, number: Any, u: np.ndarray, e: np.ndarray) -> np.ndarray:
    """phi (n, K) of u (n, K) once a multiplier e (K,) is taken off what the duals gain: phi(u + e) of classes.

    For regression u is brought nearer to 0 by e over the largest dual of its side, the slope that phi ends with.
    """
    if loss in REGRESSIONS:
        return LOSS_FORMULAS[loss](np.sign(u) * np.maximum(np.abs(u) - e / _slope(loss, number, u), 0.0), number)
    return LOSS_FORMULAS[loss](u + e, number)


def bounded(loss: str, number: Any, u: np.ndarray, caps: np.ndarray, most: float) -> np.ndarray:
    """sum_i cap_i phi(u_i) (K,), with duals bound to `most` in all: the least most e + what `lifted` leaves of it."""

    def total(e: np.ndarray) -> np.ndarray:
        return most * e + np.sum(caps * lifted(loss, number, u, e), axis=0)

    low = start = np.zeros(u.shape[1])
    high = end = _lifts(loss, number, u)
    for _ in range(120):  # by convexity a third of the stretch is without the least
        third = (high - low) / 3.0
        left = total(low + third) <= total(high - third)
        low, high = np.where(left, low, low + third), np.where(left, high - third, high)
    return np.minimum.reduce([total(e) for e in (start, low, end)])


def _lifts(loss: str, number: Any, u: np.ndarray) -> np.ndarray:
    """The multipliers e (K,) from which on no phi of u (n, K) is left: 0 or, of a loss without an end, negligible."""
    if loss in REGRESSIONS:
        free = number if loss == "epsilon_insensitive" else 0.0
        most = ((np.abs(u) - free) * _slope(loss, number, u)).max(axis=0)
    else:
        most = (1.0 if LOSS_FORMULAS[loss](1.0, number) == 0.0 else 800.0) - u.min(axis=0)
    return np.nextafter(np.maximum(most, 0.0), np.inf)


def _slope(loss: str, number: Any, u: np.ndarray) -> Any:
    """The slope that phi ends with on the side of u."""
    return {"quantile": np.where(u < 0.0, number, 1.0 - (number or 0.0)), "huber": number}.get(loss, 1.0)
