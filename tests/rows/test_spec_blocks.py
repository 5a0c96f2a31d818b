"""The row operations that every kernel is made of, in plain Python."""

import numpy as np
import pytest
from reference.datasets import as_form, noisy
from reference.norms import length

from streammargin.rows.blocks import add_grouped, add_mirrored, grouped_dot
from streammargin.sources.arrays import ArraySource

BIAS = 1.5


@pytest.fixture(params=["dense", "csr"])
def form(request):
    return request.param


@pytest.fixture(params=[np.float32, np.float64])
def block(request, form):
    X, _ = noisy(20, 7)
    return ArraySource(as_form(X, form, request.param)).whole()._replace(bias=BIAS)


def rows_dtype(block):
    return (block.X if hasattr(block, "X") else block.data).dtype


def rows_of(block):
    X, _ = noisy(20, 7)
    return np.column_stack([X.astype(rows_dtype(block)).astype(float), np.full(20, BIAS)])


def test_shape(block):
    assert (block.rows(), block.features()) == (20, 7)


def test_dot_and_add(block):
    X = rows_of(block)
    w = np.random.default_rng(1).standard_normal(8)
    for i in range(20):
        assert block.dot(i, w) == pytest.approx(X[i] @ w, rel=1e-12, abs=1e-12)
        moved = w.copy()
        block.add(i, -0.7, moved)
        np.testing.assert_allclose(moved, w - 0.7 * X[i], rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dot_and_square_are_those_of_float64(block, dtype):
    X = rows_of(block)
    w = np.random.default_rng(1).standard_normal(8).astype(dtype)
    for i in range(20):
        score, square = block.dot_and_square(i, w)
        assert score == pytest.approx(X[i] @ w.astype(float), rel=1e-12, abs=1e-12)
        assert square == pytest.approx(X[i] @ X[i], rel=1e-12)


def test_dot_keeps_the_precision_of_the_weights(block):
    assert block.dot(3, np.ones(8)).dtype == np.float64
    if rows_dtype(block) == np.float32:  # the loop in float32 is for such rows only
        assert block.dot(3, np.ones(8, np.float32)).dtype == np.float32


@pytest.mark.parametrize("q", [2.0, 3.0, 6.5])
def test_sum_of_powers(block, q):
    X = rows_of(block)
    for i in range(20):
        assert block.sum_powers(i, q) == pytest.approx(length(X[i], q) ** q, rel=1e-12)


def test_running_powers_equal_a_fresh_sum(block):
    X = rows_of(block)
    q = 3.5
    theta, powers, power_sum = np.zeros(8), np.zeros(8), 0.0
    alpha = np.zeros(20)
    rng = np.random.default_rng(2)
    for i in rng.integers(0, 20, 200):
        t = np.float64(rng.normal())
        power_sum += add_mirrored(block, i, t, theta, powers, q)
        alpha[i] += t
        np.testing.assert_allclose(theta, X.T @ alpha, atol=1e-12)
        np.testing.assert_allclose(powers, np.sign(theta) * np.abs(theta) ** (q - 1), rtol=1e-12)
        assert power_sum == pytest.approx(np.sum(np.abs(theta) ** q), rel=1e-9)


def test_scores_of_an_elastic_net_and_of_groups_follow_every_row(block):
    X = rows_of(block)
    r, of, roots = 0.4, np.array([0, 1, 0, 2, 1, 1, 2, 3], np.int32), np.sqrt([2.0, 3, 2, 1])
    grouped, squares, alpha = np.zeros(8), np.zeros(8), np.zeros(20)
    rng = np.random.default_rng(3)
    for i in rng.integers(0, 20, 200):
        t = np.float64(rng.normal())
        add_grouped(block, i, t, grouped, squares, of)
        alpha[i] += t
        theta = X.T @ alpha
        np.testing.assert_allclose(grouped, theta, atol=1e-12)
        shrunk = np.sign(theta) * np.maximum(np.abs(theta) - r, 0)
        lengths = np.array([np.linalg.norm(theta[of == g]) for g in range(4)])
        np.testing.assert_allclose(squares, [*lengths**2, 0, 0, 0, 0], atol=1e-10)
        kept = theta * np.maximum(1 - r * roots / np.maximum(lengths, 1e-300), 0)[of]
        for row in (0, 7, 13):
            found = grouped_dot(block, row, grouped, squares, of, roots, r)
            assert found == pytest.approx(X[row] @ kept, rel=1e-8, abs=1e-8)
            assert block.shrunk_dot(row, theta, r) == pytest.approx(X[row] @ shrunk, abs=1e-11)
