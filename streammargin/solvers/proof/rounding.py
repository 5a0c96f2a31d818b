"""Bounds on rounding errors, which certificates add on the safe side.

The error of a sum of m products is at most m u / (1 - m u) times the sum of their absolute values, with u = eps / 2.
The bounds here use eps instead of u, which covers the few operations that follow. The kernels use compensated summation
(Kahan 1965) for their longest sums, so m is 2 for them.

Source: Higham, Accuracy and Stability of Numerical Algorithms, 2002, eq. (3.5).
"""

from __future__ import annotations

import sys

import numpy as np

from streammargin.compiled.vectors import square
from streammargin.penalties.mirror_maps import lp_norm

EPS = float(np.finfo(np.float64).eps)
OF_OBJECTIVE = 1e-13  # of an objective, relative: a change that is none
TERM = 8.0 * EPS  # for a compensated sum whose terms took a few operations each, relative to their absolute sum


def mean_rounding(terms: float, largest: float) -> float:
    """Bound (> 0) on the rounding error of the norm of a mean of this many rows, with norms at most `largest`.

    The bound holds for each coordinate, and so in every norm.
    """
    return max((terms + 2.0) * EPS * largest, sys.float_info.min)


def blur(weights: np.ndarray) -> np.ndarray:
    """eps ||w||_2 (K,) for weights (K, d+1); times row norm and entries it bounds the rounding error of a score."""
    return np.array([EPS * lp_norm(w, 2.0, square(w)) for w in weights])


def score_rounding(entries: float, size: float) -> float:
    """Bound on the rounding error of x.w / ||w||_2 for a row with this many entries and this norm."""
    return (entries + 4.0) * EPS * size


def norm_rounding(entries: float) -> float:
    """Bound on the relative rounding error of the squared norm of a vector with this many entries."""
    return (entries + 4.0) * EPS
