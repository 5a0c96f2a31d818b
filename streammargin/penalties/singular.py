"""Bounds on sums and maxima of singular values that hold for any rounding of LAPACK's."""

from __future__ import annotations

import math

import numpy as np

EPS = float(np.finfo(np.float64).eps)  # twice the unit roundoff, as in solvers/proof/rounding.py
SUMMED_COLUMNS = 512  # of a product, at once
TRIES, SHIFT_GROWTH = 6, 16.0  # of the shift with which a matrix is proven to be positive definite


def unit(T: np.ndarray) -> tuple[np.ndarray, int]:
    """T times a power of 2, so that its largest entry is between 1/2 and 1; and minus the exponent of that power."""
    exponent = math.frexp(float(np.abs(T).max()))[1]
    return np.ldexp(T, -exponent), exponent


def _gram(T: np.ndarray) -> tuple[np.ndarray, float]:
    """(T T^T, bound on the spectral norm of its rounding error)."""
    size = T.shape[1]
    G = np.zeros((T.shape[0],) * 2)
    for start in range(0, size, SUMMED_COLUMNS):
        part = T[:, start : start + SUMMED_COLUMNS]
        G += part @ part.T
    terms = min(size, SUMMED_COLUMNS) + math.ceil(size / SUMMED_COLUMNS)
    return G, (terms + 2.0) * EPS * float(np.trace(G))


def _largest_eigenvalue(G: np.ndarray) -> float:
    """An upper bound on the largest eigenvalue of G (k, k), symmetric and positive semidefinite.

    If the Cholesky factorisation of A runs to its end, no eigenvalue of A is below -(k + 1) u / (1 - (k + 1) u) times
    its trace (Rump 2006, BIT 46). So what LAPACK finds is proven, or the trace of G is the answer.
    """
    k, trace = G.shape[0], float(np.trace(G)) * (1.0 + G.shape[0] * EPS)
    try:
        found = float(np.linalg.eigvalsh(G)[-1])
    except np.linalg.LinAlgError:
        return trace
    shift = 4.0 * k * EPS * found
    for _ in range(TRIES):
        above = found + shift
        try:
            np.linalg.cholesky(np.diag(np.full(k, above)) - G)
        except np.linalg.LinAlgError:
            shift *= SHIFT_GROWTH
            continue
        left = k * above - float(np.trace(G)) + k * EPS * above
        return min(trace, above * (1.0 + 2.0 * EPS) + (k + 8.0) * EPS * max(left, 0.0))
    return trace


def spectral_bound(T: np.ndarray) -> float:
    """An upper bound on the largest singular value of T (k, m), above it by rounding only."""
    top = float(np.abs(T).max(initial=0.0))
    if top == 0.0 or not math.isfinite(top):
        return top
    scaled, exponent = unit(T if T.shape[0] <= T.shape[1] else T.T)
    G, rounding = _gram(scaled)
    found = math.sqrt(_largest_eigenvalue(G) + rounding) * (1.0 + 4.0 * EPS)
    return float(np.ldexp(found, exponent))


def nuclear_bound(W: np.ndarray) -> float:
    """An upper bound on the sum of the singular values of W (k, m), above it by rounding only.

    For W = A B + E it is at most (||A||_F^2 + ||B||_F^2) / 2 + sqrt(k) ||E||_F.
    """
    top = float(np.abs(W).max(initial=0.0))
    if top == 0.0 or not math.isfinite(top):
        return top
    scaled, exponent = unit(W if W.shape[0] <= W.shape[1] else W.T)
    k = scaled.shape[0]
    try:
        U, sizes, V = np.linalg.svd(scaled, full_matrices=False)
    except np.linalg.LinAlgError:
        return float(np.ldexp(math.sqrt(k) * float(np.linalg.norm(scaled)) * (1.0 + scaled.size * EPS), exponent))
    roots = np.sqrt(sizes)
    A, B = U * roots, roots[:, None] * V
    own = 0.5 * (float(np.sum(A**2)) + float(np.sum(B**2)))
    rest = float(np.linalg.norm(scaled - A @ B)) + (k + 4.0) * EPS * own
    return float(np.ldexp((own + math.sqrt(k) * rest) * (1.0 + scaled.shape[1] * EPS), exponent))


def thresholded(V: np.ndarray, by: float) -> np.ndarray:
    """V with each singular value made smaller by so much, or 0 if it is no larger."""
    if not np.isfinite(V).all():
        return np.full(V.shape, math.nan)
    U, sizes, right = np.linalg.svd(V, full_matrices=False)
    left = int(np.count_nonzero(sizes > by))
    return (U[:, :left] * (sizes[:left] - by)) @ right[:left]
