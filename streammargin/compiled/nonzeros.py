"""Convert dense rows to sparse ones."""

from __future__ import annotations

import numpy as np

from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import Sample
from streammargin.rows.blocks import DenseBlock


@kernel
def count_nonzeros(X, counts):
    """Fill counts (m,) with the number of nonzeros of each row of X (m, d)."""
    for i in range(X.shape[0]):
        x = X[i]
        count = 0
        for j in range(x.size):
            count += x[j] != 0
        counts[i] = count


@kernel
def take_nonzeros(X, indptr, data, indices):
    """Fill data and indices (nnz,) with the nonzeros of X (m, d) and their columns; indptr (m + 1,)."""
    columns = np.empty(X.shape[1] + 1, np.uint32)
    for i in range(X.shape[0]):
        x = X[i]
        found = 0
        for j in range(x.size):  # always written, and counted if nonzero: faster than a branch
            columns[found] = j
            found += x[j] != 0
        for r in range(found):
            indices[indptr[i] + r] = columns[r]
            data[indptr[i] + r] = x[columns[r]]


def warm(sample: Sample) -> None:
    if isinstance(sample.block, DenseBlock):
        X = sample.block.X
        count_nonzeros(X, np.empty(2, np.int64))
        take_nonzeros(X, np.array([0, 2, 4]), np.empty(4, X.dtype), np.empty(4, np.uint32))
