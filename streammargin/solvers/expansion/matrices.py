"""Checks of a matrix of kernel values: it is symmetric, and has no eigenvalue below 0."""

from __future__ import annotations

import math

import numpy as np

from streammargin.errors import DataError
from streammargin.kernels.base import Kernel
from streammargin.points.gram import RightRows
from streammargin.rows.blocks import Block, DenseBlock, taken
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import EPS
from streammargin.wording import warn

K_TILE = 1024
TESTED = 2000  # most rows whose matrix is tested, if the budget allows it
OF_BUDGET = 128.0  # bytes of the budget for each value of that matrix
NEGATIVE = 1e-7  # the least eigenvalue allowed, relative to the largest of the centred matrix
POWERS = 8  # of a matrix, to find the largest
SYMMETRIC = 1e-5  # the largest difference allowed, relative to the largest value


def tested(first: np.ndarray, rows: np.ndarray, problem: Problem) -> np.ndarray:
    """All rows (m,), if a test of their matrix is cheap; else some from everywhere, at best all of `first`."""
    most = max(1, min(TESTED, int(math.sqrt(problem.budget / OF_BUDGET))))
    first = _spread(first, most)
    return np.union1d(first, _spread(np.setdiff1d(rows, first), most - first.size))


def _spread(rows: np.ndarray, most: int) -> np.ndarray:
    """These rows, or so many from everywhere among them."""
    return rows if rows.size <= most else rows[np.arange(most) * rows.size // most]


def indefinite(kernel: Kernel, positions: np.ndarray, numbers: np.ndarray, block: Block) -> bool:
    """Whether the matrix of these rows, as `matrix_of` takes them, has an eigenvalue below 0, beyond rounding."""
    matrix = matrix_of(kernel, positions, numbers, block)
    stored = block.X.dtype if isinstance(block, DenseBlock) and kernel.of_numbers else matrix.dtype
    return negative(matrix, float(np.finfo(stored).eps) if stored.kind == "f" else EPS)


def negative(matrix: np.ndarray, eps: float = EPS) -> bool:
    """`indefinite` of a matrix (m, m), which is written over; eps: the relative rounding of its values."""
    m = len(matrix)
    rounding = float(np.abs(matrix).max(initial=0.0)) * (4.0 * m * EPS + 2.0 * math.sqrt(m) * eps)
    matrix += matrix.T
    centred = matrix - matrix.mean(axis=0)  # else a large number added to K would raise its largest eigenvalue alone
    centred -= centred.mean(axis=1)[:, None]
    x = np.random.default_rng(0).standard_normal(m)
    for _ in range(POWERS):
        x = centred @ (x / max(float(np.linalg.norm(x)), 1e-300))
    matrix[np.diag_indices_from(matrix)] += NEGATIVE * float(np.linalg.norm(x)) + 2.0 * rounding + 1e-300
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return True
    return False


def matrix_of(kernel: Kernel, positions: np.ndarray, numbers: np.ndarray, block: Block) -> np.ndarray:
    """The values (m, m) in float64 of the rows at these positions of a block, which have these numbers."""
    if kernel.of_numbers:
        assert isinstance(block, DenseBlock)
        return np.asarray(block.X[np.ix_(positions, numbers)], np.float64)
    rows, out = taken(block, positions), np.empty((positions.size, positions.size))
    RightRows(kernel, numbers, rows).values(rows, 0, positions.size, out)
    apart = float(np.abs(out - out.T).max(initial=0.0))
    if apart > SYMMETRIC * float(np.abs(out).max(initial=0.0)):
        raise DataError(f"the kernel {kernel} is not symmetric: K(x, z) and K(z, x) of two rows differ by {apart:.3g}")
    return out


def say_indefinite(kernel: Kernel) -> None:
    """Warn that nothing can be certified."""
    text = (
        f"the kernel {kernel} is not positive semidefinite on these rows, so nothing can be certified; the training "
        "ends when steps no longer help"
    )
    warn(text, "kernel")


def say_sampled(kernel: Kernel, some: int, rows: int) -> None:
    """Warn of what the bounds of a certificate rest on."""
    text = (
        f"the kernel {kernel} is positive semidefinite on {some} of {rows} rows; the bounds assume that it is on "
        "all of them"
    )
    warn(text, "kernel")


def check_all_symmetric(X: np.ndarray) -> None:
    """DataError if a precomputed matrix is not symmetric; it is read a square at a time."""
    size = max((float(np.abs(X[low : low + K_TILE]).max(initial=0.0)) for low in range(0, len(X), K_TILE)), default=0.0)
    for low in range(0, len(X), K_TILE):
        for left in range(0, low + K_TILE, K_TILE):
            one, other = X[low : low + K_TILE, left : left + K_TILE], X[left : left + K_TILE, low : low + K_TILE].T
            apart = np.abs(one - other)
            if float(apart.max(initial=0.0)) > SYMMETRIC * size:
                i, j = np.unravel_index(int(np.argmax(apart)), apart.shape)
                raise DataError(
                    f"the precomputed matrix is not symmetric: row {low + int(i)}, column {left + int(j)} is "
                    f"{one[i, j]:.6g}, and the other way round it is {other[i, j]:.6g}; give K(X, X)"
                )


def add_skew(X: np.ndarray, first: int, skew: np.ndarray) -> None:
    """Add rows (m, n) of a precomputed matrix K, from row `first` on, to skew (3,): x'Ky, y'Kx, its largest value.

    x and y are random, so that the first two differ if K is not symmetric, almost surely.
    """
    both = np.random.default_rng(0).standard_normal((X.shape[1], 2))
    size = max(1, K_TILE * K_TILE // X.shape[1])
    for low in range(0, len(X), size):
        rows = np.asarray(X[low : low + size], np.float64)
        skew[:2] += np.sum(both[first + low : first + low + len(rows), ::-1] * (rows @ both), axis=0)
        skew[2] = max(skew[2], float(np.abs(rows).max()))
