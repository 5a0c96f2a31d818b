"""lp norms, their mirror maps and curvatures, from the formulas."""

import numpy as np


def exponent(norm, features):
    """p of a number or of "sparse"."""
    if norm != "sparse":
        return float(norm)
    return 2.0 if features <= 2 else min(2.0, 1 + 1 / np.log(features))


def conjugate(p):
    """q = p / (p - 1)."""
    return p / (p - 1)


def length(v, r):
    """||v||_r."""
    return np.sum(np.abs(v) ** r) ** (1 / r)


def mirror(theta, q):
    """w_j = ||theta||_q^(2-q) |theta_j|^(q-1) sign(theta_j); 0 at 0."""
    if not np.any(theta):
        return np.zeros(len(theta))
    return length(theta, q) ** (2 - q) * np.abs(theta) ** (q - 1) * np.sign(theta)


def curvature(a, q):
    """L_i = (q-1) ||a_i||_q^2."""
    return (q - 1) * length(a, q) ** 2
