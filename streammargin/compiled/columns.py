"""Column statistics of a block, for scaling."""

from __future__ import annotations

import numpy as np

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import SampleBlock
from streammargin.rows.blocks import Block, DenseBlock


@kernel
def add_squares(block, codes, weights, squares):
    """squares += s x^2 over the stored values of the present rows, by column, float64."""
    weighted = weights.size > 0
    for i in range(block.rows()):
        s = weights[i] if weighted else 1.0
        if codes[i] < 0 or not s > 0.0:
            continue
        for k in range(block.entries(i)):
            x = float(block.value(i, k))
            squares[block.column(i, k)] += s * x * x


@kernel
def dense_moments(X, codes, weights, largest, mean, spread, mass):
    """Update by column largest = max |x|, mean, and spread = sum s (x - mean)^2; mass[d]: total weight (Welford 1962).

    Sums of x and x^2 would cancel if a column is far from 0.
    """
    weighted, d = weights.size > 0, X.shape[1]
    for i in range(X.shape[0]):
        s = weights[i] if weighted else 1.0
        if codes[i] < 0 or not s > 0.0:
            continue
        mass[d] += s
        share = s / mass[d]
        for j in range(d):
            x = float(X[i, j])
            largest[j] = max(largest[j], abs(x))
            away = x - mean[j]
            mean[j] += share * away
            spread[j] += s * away * (x - mean[j])


@kernel
def sparse_moments(data, indices, indptr, codes, weights, largest, mean, spread, mass):
    """The same over stored values, whose weights are mass[:d]; mass[d]: total weight of all rows."""
    weighted, d = weights.size > 0, mean.size
    for i in range(indptr.size - 1):
        s = weights[i] if weighted else 1.0
        if codes[i] < 0 or not s > 0.0:
            continue
        mass[d] += s
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            x = float(data[k])
            largest[j] = max(largest[j], abs(x))
            mass[j] += s
            away = x - mean[j]
            mean[j] += s / mass[j] * away
            spread[j] += s * away * (x - mean[j])


def add_moments(
    block: Block, codes: np.ndarray, weights: np.ndarray, largest: np.ndarray, mean: np.ndarray, spread: np.ndarray,
    mass: np.ndarray,
) -> None:  # fmt: skip
    """Update the moments with a block."""
    if isinstance(block, DenseBlock):
        dense_moments(block.X, codes, weights, largest, mean, spread, mass)
    else:
        sparse_moments(block.data, block.indices, block.indptr, codes, weights, largest, mean, spread, mass)


@kernel
def scale_dense(X, center, factor, out):
    """out (m, d) float64 = (X - center) * factor; X may be `out`, or be stored in the last part of its memory.

    Values are processed in order, so each is read before it is overwritten.
    """
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            out[i, j] = (X[i, j] - center[j]) * factor[j]


@kernel
def scale_sparse(data, indices, factor, out):
    """out (nnz,) float64 = stored values times the factor of their column; `data` like X in `scale_dense`."""
    for k in range(data.size):
        out[k] = data[k] * factor[indices[k]]


def warm(sample: SampleBlock) -> None:
    block, (codes, none) = sample.block, (sample.labels.codes, sample.labels.weights)
    moments = (*np.zeros((3, 2)), np.zeros(3))
    squares, center = np.zeros((2, 2))
    add_squares(block, codes, none, squares)
    add_moments(block, codes, none, *moments)
    if isinstance(block, DenseBlock):
        scale_dense(block.X, center, np.ones(2), np.empty((2, 2)))
    else:
        scale_sparse(block.data, block.indices, np.ones(2), np.empty(2))
