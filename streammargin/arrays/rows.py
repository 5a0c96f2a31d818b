"""Products with dense rows of float64: scores, combinations of rows, and Gram matrices."""

from __future__ import annotations

import numpy as np

from streammargin.rows.blocks import Block, DenseBlock


def in_float64(block: Block) -> DenseBlock:
    """Dense rows in float64: a cast takes as long as a product with them."""
    assert isinstance(block, DenseBlock)
    return block._replace(X=block.X.astype(np.float64, copy=False))


def scores(block: DenseBlock, W: np.ndarray) -> np.ndarray:
    """The scores (lines, m) of all rows at W (lines, d+1)."""
    found = W[:, :-1] @ block.X.T
    return found + block.bias * W[:, -1:] if block.bias else found


def add_pulls(block: DenseBlock, a: np.ndarray, pull: np.ndarray) -> None:
    """pull (lines, d+1) += a (lines, m) times the rows."""
    pull[:, :-1] += a @ block.X
    if block.bias:
        pull[:, -1] += block.bias * a.sum(axis=1)


def gram(block: DenseBlock, weights: np.ndarray) -> np.ndarray:
    """sum_i weights_i x_i x_i^T (d+1, d+1), weights (m,) >= 0."""
    roots = np.sqrt(weights)
    part = np.empty((block.rows(), block.features() + 1))
    np.multiply(roots[:, None], block.X, out=part[:, :-1])
    part[:, -1] = block.bias * roots
    found: np.ndarray = part.T @ part  # of which BLAS computes one half
    return found


def add_squares(block: DenseBlock, weights: np.ndarray, diagonal: np.ndarray) -> None:
    """diagonal (lines, d+1) += the diagonals of such matrices, weights (lines, m)."""
    diagonal[:, :-1] += weights @ np.square(block.X)
    diagonal[:, -1] += block.bias**2 * weights.sum(axis=1)


def lengths(block: DenseBlock) -> np.ndarray:
    """The norms (m,) of the rows, with the constant; sums of their entries if squares over- or underflow."""
    squares = np.einsum("ij,ij->i", block.X, block.X) + block.bias**2
    safe: np.ndarray = np.isfinite(squares) & (squares > 1e-290)
    return np.sqrt(squares) if safe.all() else np.abs(block.X).sum(axis=1) + abs(block.bias)
