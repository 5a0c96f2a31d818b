"""Checks of a matrix of kernel values: it is symmetric, and has no eigenvalue below 0."""

from __future__ import annotations

import logging

import numpy as np

from streammargin.errors import DataError
from streammargin.kernels.base import Kernel
from streammargin.points.gram import Few
from streammargin.rows.blocks import Block, DenseBlock, taken
from streammargin.wording import Message

LOG = logging.getLogger("streammargin")

TILE = 1024
TESTED = 800  # rows whose matrix is tested
NEGATIVE = 1e-7  # the least eigenvalue allowed, relative to the largest
SYMMETRIC = 1e-5  # the largest difference allowed, relative to the largest value


def negative(matrix: np.ndarray) -> bool:
    """Whether a symmetric matrix has an eigenvalue below 0, beyond rounding."""
    values = np.linalg.eigvalsh(0.5 * (matrix + matrix.T))
    return bool(values[0] < -NEGATIVE * max(float(values[-1]), 1e-300))


def matrix_of(kernel: Kernel, positions: np.ndarray, first: int, block: Block) -> np.ndarray:
    """The values (m, m) in float64 of the rows at these positions of a block, whose first row has this number."""
    if kernel.of_numbers:
        assert isinstance(block, DenseBlock)
        return np.asarray(block.X[np.ix_(positions, first + positions)], np.float64)
    rows, out = taken(block, positions), np.empty((positions.size, positions.size))
    Few(kernel, positions, rows).values(rows, 0, positions.size, out)
    return out


def say_indefinite(kernel: Kernel) -> None:
    """Warn that nothing can be certified."""
    text = (
        f"the kernel {kernel} is not positive semidefinite on these rows, so nothing can be certified; the training "
        "ends when steps no longer help"
    )
    LOG.warning(Message(text), extra={"code": "kernel"})


def check_symmetric(square: np.ndarray, first: int) -> None:
    """DataError if the square of a precomputed matrix that begins at the row `first` is not symmetric."""
    _check_alike(square, square.T, first, first, float(np.abs(square).max(initial=0.0)))


def check_all_symmetric(X: np.ndarray) -> None:
    """The same of a whole matrix, a square at a time."""
    size = max((float(np.abs(X[low : low + TILE]).max(initial=0.0)) for low in range(0, len(X), TILE)), default=0.0)
    for low in range(0, len(X), TILE):
        for left in range(0, low + TILE, TILE):
            one, other = X[low : low + TILE, left : left + TILE], X[left : left + TILE, low : low + TILE].T
            _check_alike(one, other, low, left, size)


def _check_alike(one: np.ndarray, other: np.ndarray, row: int, column: int, size: float) -> None:
    apart = np.abs(one - other)
    if float(apart.max(initial=0.0)) > SYMMETRIC * size:
        i, j = np.unravel_index(int(np.argmax(apart)), apart.shape)
        raise DataError(
            f"the precomputed matrix is not symmetric: row {row + int(i)}, column {column + int(j)} is "
            f"{one[i, j]:.6g}, and the other way round it is {other[i, j]:.6g}; give K(X, X)"
        )
