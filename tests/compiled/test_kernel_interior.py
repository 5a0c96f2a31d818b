"""The equations of the interior-point method against NumPy, and the ranges of columns."""

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import slow

from streammargin.compiled import interior as kernel
from streammargin.compiled.columns import extremes


@pytest.fixture
def columns():
    """(starts, ends, rows, values) of sparse columns, with entries of others between them; the matrix A."""
    random = np.random.default_rng(2)
    A = random.standard_normal((30, 12)) * (random.random((30, 12)) < 0.4)
    S = sp.csc_matrix(A)
    keep = [0, 3, 4, 7, 11]
    return (S.indptr[:-1][keep].astype(np.int64), S.indptr[1:][keep].astype(np.int64), S.indices, S.data), A[:, keep]


def test_products(columns):
    matrix, A = columns
    random = np.random.default_rng(3)
    w, a = random.standard_normal(5), random.standard_normal(30)
    w[2] = 0.0
    np.testing.assert_allclose(kernel.margins(*matrix, w, 30), A @ w, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel.pulls(*matrix, a), A.T @ a, rtol=1e-12, atol=1e-14)


def test_the_system_is_solved(columns):
    matrix, A = columns
    random = np.random.default_rng(4)
    stiff, added, b = random.uniform(0.0, 1e3, 30), random.uniform(0.0, 1e-3, 5), random.standard_normal(5)
    U, roots = kernel.factored(*matrix, stiff, added)
    H = A.T @ (stiff[:, None] ** 2 * A) + np.diag(added)
    np.testing.assert_allclose(kernel.solved(U, roots, b), np.linalg.solve(H, b), rtol=1e-7)


@pytest.mark.parametrize(
    "largest, expected",
    [([0.0, 0.0], (-1, -1)), ([0.0, 3.0, 0.0], (1, 1)), ([2.0, 0.0, 5.0, 1.0, 5.0, 1.0], (2, 3)), ([], (-1, -1))],
)
@pytest.mark.parametrize("dtype", [slow(np.float32), np.float64])
def test_where_the_extremes_stand(largest, expected, dtype):
    assert extremes(np.array(largest, dtype)) == expected
