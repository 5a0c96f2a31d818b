"""The largest singular values of a matrix, from its Gram matrix; the bound on the largest one is proven."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf
from scipy.sparse.linalg import ArpackError, eigsh

from streammargin.solvers.proof.rounding import EPS

DENSE_EIGEN_ROWS = 300  # rows of a matrix of which all eigenvalues are found at once
FIRST_RITZ_SHARE, RITZ_SHARE_GROWTH, MOST_RITZ_TRIES = 1e-9, 8.0, 40  # above the largest Ritz value


class Spectrum(NamedTuple):
    """values (k,), descending, and vectors (m, k) of the Gram matrix; no singular value is above `upper`."""

    values: np.ndarray
    vectors: np.ndarray
    upper: float


def spectrum(gram: np.ndarray, count: int) -> Spectrum:
    """The spectrum of T, given the lower triangle of T T^T (m, m), which is overwritten.

    Ritz values are below the largest eigenvalue. So Cholesky's method factors s I - T T^T for an s above. If it ends, s
    plus its rounding error bounds the largest eigenvalue (Rump 2006).
    """
    m = len(gram)
    rows = np.arange(m)
    for low in range(0, m, 64):  # both triangles, without a copy
        high = min(m, low + 64)
        gram[low:high, high:] = gram[high:, low:high].T
        here = gram[low:high, low:high]
        here[:] = np.tril(here) + np.tril(here, -1).T
    count = min(count, m)
    trace = float(gram[rows, rows].sum())
    if not math.isfinite(trace):
        return Spectrum(np.full(count, math.inf), np.zeros((m, count)), math.inf)
    if trace == 0.0:
        return Spectrum(np.zeros(count), np.eye(m, count), 0.0)
    values, vectors = _ritz(gram, count, trace)
    diagonal = gram[rows, rows].copy()
    rounding = (m + 2.0) ** 2 * EPS * 2.0
    share = max(FIRST_RITZ_SHARE, 8.0 * rounding)
    top = float(values[0])
    for _ in range(MOST_RITZ_TRIES):
        s = top * (1.0 + share)
        if s >= trace:
            break
        if _is_below(gram, diagonal, s):
            return Spectrum(np.sqrt(values), vectors, math.sqrt(s * (1.0 + rounding)))
        share *= RITZ_SHARE_GROWTH
    return Spectrum(np.sqrt(values), vectors, math.sqrt(trace * (1.0 + rounding)))


def _ritz(gram: np.ndarray, count: int, trace: float) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues, descending, about, and their vectors."""
    m, values, vectors = len(gram), np.empty(0), np.empty(0)
    if m > DENSE_EIGEN_ROWS and count < m // 4:
        try:
            values, vectors = eigsh(gram, count, which="LA", v0=np.sqrt(gram.diagonal() / trace + 1.0 / m), tol=1e-9)
        except ArpackError as error:
            values, vectors = getattr(error, "eigenvalues", values), getattr(error, "eigenvectors", vectors)
    if not values.size:
        values, vectors = eigh(gram, subset_by_index=[m - count, m - 1])
    order = np.argsort(-values)
    return np.maximum(values[order], 0.0), np.ascontiguousarray(vectors[:, order])


def _is_below(gram: np.ndarray, diagonal: np.ndarray, s: float) -> bool:
    """Whether s I - G is positive definite; G has both triangles, of which one is used up and restored."""
    np.negative(gram, out=gram)
    np.fill_diagonal(gram, s - diagonal)
    _, code = dpotrf(gram.T, lower=0, clean=0, overwrite_a=1)
    m = len(gram)
    for low in range(0, m, 64):
        high = min(m, low + 64)
        gram[high:, low:high] = gram[low:high, high:].T
        here = gram[low:high, low:high]
        here[:] = np.triu(here) + np.triu(here, 1).T
    np.negative(gram, out=gram)
    np.fill_diagonal(gram, diagonal)
    return bool(code == 0)
