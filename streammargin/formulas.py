"""Losses and penalties as formulas, by NumPy alone: what `verification.py` sums up, apart from all that trains."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

NUMBERS = ("squared_error", "absolute_error", "epsilon_insensitive", "huber", "quantile", "interpolate")
GROUPED = ("group", "sparse_group", "exclusive")
APART = ("top", "low", "high", "radius")  # fields that say which rows, or which weights, count
# fmt: off
LOSSES: dict[str, Any] = {  # phi(u), with the number that the word names
    "hinge": lambda u, _: np.maximum(0.0, 1.0 - u),
    "squared_hinge": lambda u, _: np.maximum(0.0, 1.0 - u) ** 2,
    "smooth_hinge": lambda u, width: LOSSES["huber"](np.maximum(0.0, 1.0 - u), width) / width,
    "generalized_hinge": lambda u, slope: np.maximum(0.0, np.maximum(1.0 - u, 1.0 - slope * u)),
    "logistic": lambda u, _: np.logaddexp(0.0, -u), "exponential": lambda u, _: np.exp(-u),
    "squared_error": lambda u, _: u**2 / 2.0, "absolute_error": lambda u, _: np.abs(u),
    "huber": lambda u, delta: np.where(np.abs(u) < delta, u**2 / 2.0, delta * (np.abs(u) - delta / 2.0)),
    "quantile": lambda u, level: np.where(u < 0.0, -level * u, (1.0 - level) * u),
    **dict.fromkeys(["epsilon_insensitive", "interpolate"], lambda u, epsilon: np.maximum(0.0, np.abs(u) - epsilon)),
}
PENALTIES: dict[str, Callable[..., Any]] = {  # R(w); r: the l1_ratio, p: of the norm, of: a list of arrays of columns
    **dict.fromkeys(["lp", "l2"], lambda w, r, p, of: norm(w, p) ** 2 / 2.0),
    "l1": lambda w, *_: norm(w, 1.0), "l2norm": lambda w, *_: norm(w, 2.0), "linf": lambda w, *_: np.abs(w).max(),
    "elasticnet": lambda w, r, p, of: r * norm(w, 1.0) + (1.0 - r) * norm(w, 2.0) ** 2 / 2.0,
    "group": lambda w, r, p, of: r * sum(len(g)**0.5 * norm(w[g], 2.0) for g in of) + (1.0 - r) * norm(w, 2.0)**2 / 2.0,
    "sparse_group": lambda w, r, p, of: r * norm(w, 1.0) + (1.0 - r) * sum(len(g)**0.5 * norm(w[g], 2.0) for g in of),
    "exclusive": lambda w, r, p, of: sum(norm(w[g], 1.0) ** 2 / 2.0 for g in of),
}
# fmt: on


def norm(w: np.ndarray, p: float) -> float:
    """||w||_p."""
    top = float(np.abs(w).max(initial=0.0))
    return top * float(np.sum((np.abs(w) / top) ** p)) ** (1.0 / p) if 0.0 < top < math.inf else top


def lifted(loss: str, number: Any, u: np.ndarray, e: np.ndarray) -> np.ndarray:
    """phi (n, K) of u (n, K) once a multiplier e (K,) is taken off what the duals gain: phi(u + e) of classes.

    Of numbers u is brought nearer to 0 by e over the largest dual of its side, the slope that phi ends with.
    """
    if loss in NUMBERS:
        return LOSSES[loss](np.sign(u) * np.maximum(np.abs(u) - e / _slope(loss, number, u), 0.0), number)
    return LOSSES[loss](u + e, number)


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
    if loss in NUMBERS:
        free = number if loss == "epsilon_insensitive" else 0.0
        most = ((np.abs(u) - free) * _slope(loss, number, u)).max(axis=0)
    else:
        most = (1.0 if LOSSES[loss](1.0, number) == 0.0 else 800.0) - u.min(axis=0)
    return np.nextafter(np.maximum(most, 0.0), np.inf)


def _slope(loss: str, number: Any, u: np.ndarray) -> Any:
    """The slope that phi ends with on the side of u."""
    return {"quantile": np.where(u < 0.0, number, 1.0 - (number or 0.0)), "huber": number}.get(loss, 1.0)


def spelled(word: str) -> tuple[str, Any, dict[str, float]]:
    """(name, last number that a formula takes, all fields by name) of a saved word."""
    name, _, rest = word.partition(":")
    if name in GROUPED:  # the name of a file comes first, which may look like fields
        rest = rest.rpartition(",")[2] if name != "exclusive" else ""
    found = {key: float(text) for key, text in re.findall(r",(?:(\w+)=)?(-?inf|[\d.e+-]+)(?=,|$)", f",{rest}")}
    return name, ([None] + [found[key] for key in found if key not in APART])[-1], found
