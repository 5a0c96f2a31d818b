"""The linear system of an interior point step on cached columns: factored once, solved twice."""

from __future__ import annotations

import numpy as np

from streammargin.compiled.column_steps import add_products, diagonal_matrix
from streammargin.compiled.jit import kernel
from streammargin.compiled.quadratic import scaled_descent, scaled_factor
from streammargin.compiled.samples import Sample


@kernel
def margins(starts, ends, rows, values, w, n):
    """A w (n,) for the columns of A at `starts` and `ends` (m,)."""
    found = np.zeros(n)
    for j in range(w.size):
        if w[j] != 0.0:
            for e in range(starts[j], ends[j]):
                found[rows[e]] += values[e] * w[j]
    return found


@kernel
def pulls(starts, ends, rows, values, a):
    """A^T a (m,)."""
    found = np.zeros(starts.size)
    for j in range(found.size):
        for e in range(starts[j], ends[j]):
            found[j] += values[e] * a[rows[e]]
    return found


@kernel
def factored(starts, ends, rows, values, stiff, added):
    """(U, roots) for `solved`: factorises A^T diag(stiff)^2 A + diag(added); stiff (n,), added (m,)."""
    m, stored = added.size, 0
    for j in range(m):
        stored += ends[j] - starts[j]
    begins, on, bent = np.zeros(m + 1, np.int64), np.empty(stored, np.int32), np.empty(stored)
    kept = 0
    for j in range(m):
        for e in range(starts[j], ends[j]):
            on[kept], bent[kept] = rows[e], stiff[rows[e]] * values[e]
            kept += 1
        begins[j + 1] = kept
    H = diagonal_matrix(added)
    add_products(begins, on, bent, stiff.size, H)
    roots = scaled_factor(H)
    return H, roots


@kernel
def solved(U, roots, b):
    """The solution (m,) of the factored system."""
    down = np.empty(b.size)
    for j in range(b.size):
        down[j] = -b[j]
    return scaled_descent(U, roots, down)


def warm(sample: Sample) -> None:
    n, columns = sample.block.rows(), sample.columns
    margins(*columns, np.ones(2), n)
    pulls(*columns, np.ones(n))
    U, roots = factored(*columns, np.ones(n), np.ones(2))
    solved(U, roots, np.ones(2))
