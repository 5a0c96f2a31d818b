"""The duals of a row with one of several classes: those of the others are at least 0, and its own is their sum."""

from __future__ import annotations

import numpy as np


def own_line(signs: np.ndarray) -> int:
    """The line of the row's own class, whose sign is 1."""
    own = 0
    for g in range(signs.size):
        if signs[g] > 0.0:
            own = g
    return own


def feasible(signs: np.ndarray, cap: float, a: np.ndarray) -> None:
    """Change a to feasible duals: the others at least 0 and at most cap together, the own one their sum."""
    own, others = own_line(signs), 0.0
    for g in range(a.size):
        a[g] = min(max(a[g], 0.0), cap) if g != own else 0.0
        others += a[g]
    if others > cap:
        shrink, others = cap / others, 0.0
        for g in range(a.size):
            a[g] *= shrink
            others += a[g]
    a[own] = min(others, cap)


def middle(signs: np.ndarray, cap: float, a: np.ndarray) -> None:
    """Fill a with the duals of equal probabilities."""
    own, share, others = own_line(signs), cap / a.size, 0.0
    for g in range(a.size):
        a[g] = share if g != own else 0.0
        others += a[g]
    a[own] = others
