"""Accelerated coordinate ascent for a dual that is strongly concave: momentum of one strength, and no restarts."""

import numpy as np


def strongly_accelerated(A, C, modulus, draws):
    """Yields the duals (n,) after each step of APCG (Lin, Lu and Xiao 2014, Algorithm 3), p = 2, C scale.

    modulus: how strongly each loss's dual bends at least, over C: width / C of the smoothed hinge, whose dual this is:
    sum_i alpha_i - modulus alpha_i^2 / 2 on [0, C].
    """
    n = len(A)
    L = np.sum(A**2, axis=1) + modulus
    share = np.sqrt(modulus / L.max()) / n
    x = z = np.zeros(n)
    for i in draws:
        y = (x + share * z) / (1 + share)
        slope = A[i] @ (A.T @ y) + modulus * y[i] - 1
        before, z = z, (1 - share) * z + share * y
        z[i] = np.clip(z[i] - slope / (n * share * L[i]), 0, C)
        x = y + n * share * (z - before) + n * share**2 * (before - y)
        yield x
