"""Products with dense rows by NumPy: scores, combinations of rows, and Gram matrices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streammargin.rows.blocks import Block, DenseBlock

MANY_LINES = 64  # lines from which products of matrices cost less than loops over rows
AHEAD = 128  # rows whose scores are found at once


def in_float64(block: Block) -> DenseBlock:
    """Dense rows in float64: a cast takes as long as a product with them."""
    assert isinstance(block, DenseBlock)
    return block._replace(X=block.X.astype(np.float64, copy=False))


def scores(block: DenseBlock, W: np.ndarray) -> np.ndarray:
    """The scores (lines, m) of all rows at W (lines, d+1), whose dtype they have."""
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
    if safe.all():
        return np.sqrt(squares)
    return np.where(safe, np.sqrt(squares), np.abs(block.X).sum(axis=1) + abs(block.bias))


class RowsAhead(NamedTuple):
    """m rows whose scores are found before any of them makes a step; a later one adds what earlier steps changed.

    scores (m, K), at weights that stay as they are; gram (m, m) of the rows, with the constant; squares (m,): its
    diagonal in float64; made (m, K): the steps so far. Kernels call the methods as those of a block.
    """

    scores: np.ndarray
    gram: np.ndarray
    squares: np.ndarray
    made: np.ndarray

    def rows(self) -> int:
        return self.scores.shape[0]

    def prefetch_row(self, i: int) -> None:
        """Nothing: the rows were just read."""

    def sum_powers(self, i: int, q: float) -> float:
        return self.squares[i]

    def line_scores(self, i: int, W: np.ndarray, first: int, out: np.ndarray) -> None:
        """out[g] = x_i . W_g for the lines first, first + 1, ..., after the steps of the rows before."""
        scores = self.scores[i, first:]
        for g in range(out.size):
            out[g] = scores[g]
        for r in range(i):
            t, moves = self.gram[i, r], self.made[r, first:]
            for g in range(out.size):
                out[g] += t * moves[g]

    def add_to_lines(self, i: int, factors: np.ndarray, W: np.ndarray, first: int) -> None:
        """Keep the step of row i."""
        moves = self.made[i, first:]
        for g in range(factors.size):
            moves[g] = factors[g]


def ahead(block: DenseBlock, W: np.ndarray) -> RowsAhead:
    """These rows, of the dtype of the weights W (K, d+1), before their steps."""
    found = scores(block, W).T
    gram = block.X @ block.X.T + block.X.dtype.type(block.bias**2)
    squares = np.einsum("ij,ij->i", block.X, block.X, dtype=np.float64) + block.bias**2
    return RowsAhead(np.ascontiguousarray(found), gram, squares, np.zeros(found.shape, W.dtype))
