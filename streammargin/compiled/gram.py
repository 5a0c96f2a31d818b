"""Products of sparse rows with a few rows, squares of rows, A^T A v, and what the values of all rows add up to."""

from __future__ import annotations

import numpy as np

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import SampleBlock

# columns of the sums over all present rows: their weights, their values and the squares of these, times the weights,
# and the largest ||x||^2
TOTAL_WEIGHT, TOTAL_OF_VALUES, TOTAL_OF_SQUARES, LARGEST_SQUARED_NORM, MOMENTS = range(5)


@kernel
def squares_of(block, start, stop, out):
    """out[i] = ||x_(start + i)||^2, without the constant column."""
    for i in range(start, stop):
        out[i - start] = block.sum_powers(i, 2.0)


@kernel
def gram_product(block, numbers, labels, v, product):
    """product (d+1,) += sum_i (x_i.v) x_i over the present rows of the block; v (d+1,)."""
    for i in range(block.rows()):
        if labels.weight(numbers.row(i)) > 0.0:
            block.prefetch_row(i + 2)
            block.add(i, block.exact_dot(i, v), product)


@kernel
def add_moments(block, codes, weights, moments):
    """Add the present rows of a block without a constant column to `moments`, each with its weight, in order."""
    weighted = weights.size > 0
    for i in range(block.rows()):
        s = weights[i] if weighted else 1.0
        if codes[i] < 0 or not s > 0.0:
            continue
        total = moments[TOTAL_OF_VALUES]  # on and on, so that it is the same however rows are cut into blocks
        for k in range(block.entries(i)):
            total += s * np.float64(block.value(i, k))
        square = block.sum_powers(i, 2.0)
        moments[TOTAL_WEIGHT] += s
        moments[TOTAL_OF_VALUES] = total
        moments[TOTAL_OF_SQUARES] += s * square
        moments[LARGEST_SQUARED_NORM] = max(moments[LARGEST_SQUARED_NORM], square)


def variance_of(moments: np.ndarray, features: int) -> float:
    """The variance of all values of the present rows, of this many columns; 0 without rows."""
    mass, total, squares, _ = moments.tolist()
    count = mass * features
    return float(max(0.0, squares / count - (total / count) ** 2)) if count > 0.0 else 0.0


@kernel
def sparse_products(block, start, stop, place, few, out):
    """out[i, r] = x_(start + i).z_r for sparse rows.

    few (c, s): the values of the rows z in the columns that they use; place (d,) int32: which of these a column is, or
    -1 for none.
    """
    data, indices, indptr = block.data, block.indices, block.indptr
    for i in range(start, stop):
        line = out[i - start]
        line[:] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            at = place[indices[k]]
            if at >= 0:
                x = line.dtype.type(data[k])
                for r in range(line.size):  # few[at] as an array of its own takes 25 ns, for the count of its owners
                    line[r] += x * few[at, r]


@kernel
def spread_rows(block, place, out):
    """out[r, place[j]] = z_rj for the rows z of a sparse block; a place of -1 is the last column."""
    for r in range(block.rows()):
        for k in range(block.indptr[r], block.indptr[r + 1]):
            out[r, place[block.indices[k]]] = block.data[k]


def warm(sample: SampleBlock) -> None:
    squares_of(sample.block, 0, 2, np.zeros(2))
    gram_product(*sample.rows, np.ones(3), np.zeros(3))
    add_moments(sample.block, sample.labels.codes, sample.labels.weights, np.zeros(MOMENTS))
    if sample.sparse:
        for dtype in (np.float32, np.float64):
            few, place = np.zeros((2, 2), dtype), np.arange(2, dtype=np.int32)
            spread_rows(sample.block, place, few)
            sparse_products(sample.block, 0, 2, place, few, np.zeros((2, 2), dtype))
