"""How far rounding may move what is summed: figures are certified with that on the safe side.

A sum of m products is off by m u / (1 - m u) of the sum of their sizes at most, u = eps / 2 (Higham, Accuracy and
Stability of Numerical Algorithms, 2002, eq. (3.5)). Every allowance here has eps in place of u: the other half is for
the few operations that follow. The kernels carry along what rounding takes from their longest sums (Kahan 1965), whose
m is then 2.
"""

from __future__ import annotations

import sys

import numpy as np

from streammargin.compiled.vectors import square
from streammargin.penalties.mirror_maps import lp_norm

EPS = float(np.finfo(np.float64).eps)
TERM = 8.0 * EPS  # of a carried sum of terms that each took a few operations, relative to their sizes


def mean_rounding(terms: float, largest: float) -> float:
    """How far rounding moves the length of a mean of so many rows, none longer than `largest`; above 0.

    The sum is off as above coordinate by coordinate, and so in every norm.
    """
    return max((terms + 2.0) * EPS * largest, sys.float_info.min)


def blur(weights: np.ndarray) -> np.ndarray:
    """eps ||w||_2 of weights (K, d+1): times the norm of a row and its entries, how far rounding moves its score."""
    return np.array([EPS * lp_norm(w, 2.0, square(w)) for w in weights])


def score_rounding(entries: float, size: float) -> float:
    """How far rounding moves x.w / ||w||_2: a row of so many entries, of this norm."""
    return (entries + 4.0) * EPS * size


def norm_rounding(entries: float) -> float:
    """How far rounding moves the square of a norm of so many entries, relative to itself."""
    return (entries + 4.0) * EPS
