"""The small exact problem and the selection of rows, against SciPy, NumPy and known answers."""

import numpy as np
import pytest
from conftest import slow
from reference.datasets import as_form, noisy
from scipy.optimize import nnls

from streammargin.compiled import active_set as kernel
from streammargin.rows.blocks import CSRBlock, DenseBlock


def block_of(X, form, bias=0.0):
    if form == "dense":
        return DenseBlock(np.ascontiguousarray(X), bias)
    S = as_form(X, "csr", X.dtype)
    return CSRBlock(S.data, S.indices.astype(np.uint32), S.indptr.astype(np.int64), X.shape[1], bias)


def nearest(A, start=None, accuracy=1e-12):
    u = np.zeros(len(A)) if start is None else start.copy()
    code = kernel.nearest_point(A @ A.T, u, accuracy, A.shape[1] + 2)
    return u, code


def expected(A):
    """||A^T u||^2 + (1 - sum u)^2 at its minimum over u >= 0."""
    return nnls(np.vstack([A.T, np.ones(len(A))]), np.append(np.zeros(A.shape[1]), 1.0))


def objective(A, u):
    return np.sum((A.T @ u) ** 2) + (1 - u.sum()) ** 2


def rows(n, d, seed, shift):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, d))
    A[:, 0] += shift
    return A / np.linalg.norm(A, axis=1).max()


@pytest.mark.parametrize("n, d, shift", [(1, 3, 1), (5, 20, 0), (60, 8, 4), (300, 40, 3), (80, 5, 0), (40, 60, 0)])
@pytest.mark.parametrize("seed", range(4))
def test_nearest_point_is_what_nnls_finds(n, d, shift, seed):
    A = rows(n, d, seed, shift)
    u, code = nearest(A)
    truth, residual = expected(A)
    assert code == kernel.SOLVED and (u >= 0).all()
    assert objective(A, u) == pytest.approx(residual**2, rel=1e-9, abs=1e-13)
    if residual > 1e-6:
        np.testing.assert_allclose(A.T @ u, A.T @ truth, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_any_start_leads_to_the_same_point(seed):
    A = rows(120, 15, seed, 3)
    cold, _ = nearest(A)
    rng = np.random.default_rng(seed)
    for start in (cold, rng.random(120), rng.random(120) * (rng.random(120) < 0.1), 1e6 * cold[::-1]):
        warm, code = nearest(A, start)
        assert code == kernel.SOLVED
        np.testing.assert_allclose(A.T @ warm, A.T @ cold, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_repeated_dependent_and_empty_rows(seed):
    A = rows(30, 10, seed, 3)
    weights = np.random.default_rng(seed).dirichlet(np.ones(30), 20)
    more = np.vstack([A, A, weights @ A, A[:1] * (1 + 1e-9)])  # inside the hull: the point stays
    u, _ = nearest(more, accuracy=1e-10)
    np.testing.assert_allclose(more.T @ u, A.T @ nearest(A)[0], atol=1e-8)
    with_zero, code = nearest(np.vstack([A, np.zeros(10)]))
    assert code == kernel.SOLVED and with_zero[-1] == pytest.approx(1.0) and np.abs(with_zero[:-1]).max() < 1e-12


def test_known_answers():
    A = np.array([[1.0, 3.0], [3.0, 1.0], [3.0, 3.0]]) / 5
    u, _ = nearest(A)
    np.testing.assert_allclose(u / u.sum(), [0.5, 0.5, 0.0], atol=1e-14)
    for opposite in (np.array([[0.5, 0.2], [-0.5, -0.2]]), np.zeros((3, 2))):
        u, _ = nearest(opposite)
        assert objective(opposite, u) < 1e-20 and u.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("bias", [0.0, 1.5])
@pytest.mark.parametrize("dtype", [slow(np.float32), np.float64])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_gram_matrix_and_sums_of_rows(form, dtype, bias):
    X = noisy(20, 7)[0].astype(dtype)
    signs = np.where(np.arange(20) % 3, 1.0, -1.0)
    A = signs[:, None] * np.column_stack([X.astype(float), np.full(20, bias)]) / 4.0
    gram, total = np.empty((20, 20)), np.zeros(8)
    kernel.gram_matrix(block_of(X, form, bias), signs, 4.0, gram)
    np.testing.assert_allclose(gram, A @ A.T, atol=1e-13)
    kernel.combine(block_of(X, form, bias), signs * np.arange(20), 4.0, total)
    np.testing.assert_allclose(total, A.T @ np.arange(20), atol=1e-12)
