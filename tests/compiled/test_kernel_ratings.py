"""Kernels of ratings against definitions in NumPy."""

import numpy as np
import pytest
from reference import matrices

from streammargin.compiled import ratings as kernel
from streammargin.losses.ratings import RATINGS

LOSSES = ("absolute_error", "squared_error", matrices.HINGE)


def entries(m=5, n=7, count=20):
    i, j, values = matrices.ratings(m, n, count)
    order = np.lexsort((i, j))
    return np.stack([i, j], axis=1)[order].astype(np.float32), values[order]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("softness", [1e-300, 0.3, 1e30])
def test_duals_sums_and_gradients(loss, softness):
    pairs, values = entries()
    random = np.random.default_rng(1)
    i, j = pairs.T.astype(int)
    factors, terms = random.standard_normal((12, 3)), RATINGS.of(loss).terms()
    smooth = terms.bend > 0.0
    limits = [[term[1:3] for term in matrices.terms(loss, value)] for value in values]
    centres = random.uniform(-1.0, 1.0, (terms.terms, values.size))
    for e, own in enumerate(limits):
        centres[:, e] = [np.clip(a, *one) for a, one in zip(centres[:, e], own, strict=True)]
    kept = np.zeros((0, values.size)) if smooth else centres
    expected, soft = matrices.soft_duals(
        factors, 5, i, j, values, loss, np.zeros_like(centres) if smooth else centres, 0.0 if smooth else softness
    )  # fmt: skip
    sums, found = np.zeros(kernel.SUMS), np.zeros(values.size)
    kernel.duals_at(pairs, values, factors, 5, tuple(terms), kept, 0, 1e-300 if smooth else softness, -1.0, sums, found)
    assert np.allclose(found, expected.sum(axis=0), atol=1e-12)
    X = factors[:5] @ factors[5:].T
    assert sums[kernel.ENTRY_LOSSES] == pytest.approx(
        sum(matrices.loss_at(loss, X[a, b], value) for a, b, value in zip(i, j, values, strict=True))
    )
    assert softness > 1.0 or sums[kernel.SOFT] == pytest.approx(soft)
    z = np.array([[term[0] for term in matrices.terms(loss, value)] for value in values]).T
    assert sums[kernel.LINEAR] == pytest.approx(float((expected * z).sum()))
    gradient = np.zeros_like(factors)
    kernel.add_gradient(pairs, found, factors, 5, 2.0, gradient)
    T = np.zeros((5, 7))
    T[i, j] = 2.0 * found
    assert np.allclose(gradient[:5], T @ factors[5:]) and np.allclose(gradient[5:], T.T @ factors[:5])
    out = np.zeros((7, 2))
    kernel.add_products(pairs, found, 0, factors[:5, :2], out)
    assert np.allclose(2.0 * out, T.T @ factors[:5, :2])


def test_centres_move_to_the_duals_of_before():
    pairs, values = entries()
    factors, terms = np.random.default_rng(2).standard_normal((12, 2)), RATINGS.of(matrices.HINGE).terms()
    i, j = pairs.T.astype(int)
    centres = np.zeros((4, values.size))
    expected, _ = matrices.soft_duals(factors, 5, i, j, values, matrices.HINGE, centres, 0.7)
    sums, found = np.zeros(kernel.SUMS), np.zeros(values.size)
    kernel.duals_at(pairs, values, factors, 5, tuple(terms), centres, 0, 0.1, 0.7, sums, found)
    assert np.allclose(centres, expected)
    after, _ = matrices.soft_duals(factors, 5, i, j, values, matrices.HINGE, expected, 0.1)
    assert np.allclose(found, after.sum(axis=0))


def test_the_gram_matrix_is_that_of_all_lines():
    pairs, values = entries()
    T = np.zeros((5, 7))
    T[tuple(pairs.T.astype(int))] = values
    ends = np.concatenate([[0], np.flatnonzero(np.diff(pairs[:, 1])) + 1, [values.size]])
    gram = np.zeros((5, 5))
    kernel.add_lines(pairs, values, 0, ends, gram)
    assert np.allclose(np.tril(T @ T.T), gram)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_step_of_splitting_is_the_prox(loss):
    pairs, values = entries()
    random = np.random.default_rng(3)
    M, V = 4.0 * random.standard_normal((2, 5, 7))
    V[0] = M[0] + np.round(2.0 * (V[0] - M[0]))  # some at kinks
    terms, size = RATINGS.of(loss).terms(), 0.8
    other, sums = V.copy(), np.zeros(kernel.SUMS)
    duals = np.zeros((0, values.size)) if terms.bend else np.zeros((terms.terms, values.size))
    kernel.split(pairs, values, M, other, tuple(terms), size, duals, 0, sums)
    for e, (a, b) in enumerate(pairs.astype(int)):
        w, target = other[a, b] - M[a, b] + V[a, b], 2.0 * V[a, b] - M[a, b]
        best = size * matrices.loss_at(loss, w, values[e]) + 0.5 * (w - target) ** 2
        for x in w + np.array([-1e-3, -1e-6, 1e-6, 1e-3]):
            assert best <= size * matrices.loss_at(loss, x, values[e]) + 0.5 * (x - target) ** 2 + 1e-12
        if not terms.bend:  # the duals are derivatives there, and within their limits
            assert duals[:, e].sum() * size == pytest.approx(target - w, abs=1e-9)
            attained = sum(u * (w - z) for u, (z, *_) in zip(duals[:, e], matrices.terms(loss, values[e]), strict=True))
            assert attained == pytest.approx(matrices.loss_at(loss, w, values[e]), abs=1e-9)


def test_directions_are_those_of_the_dense_update():
    random = np.random.default_rng(4)
    root = random.standard_normal((6, 6))
    A = root @ root.T + np.eye(6)
    moves = random.standard_normal((3, 6))
    changes = moves @ A
    H = np.eye(6) * (moves[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
    for s, y in zip(moves[1:], changes[1:], strict=True):
        rho = 1.0 / (s @ y)
        half = np.eye(6) - rho * np.outer(s, y)
        H = half @ H @ half.T + rho * np.outer(s, s)
    q = random.standard_normal(6)
    expected = H @ q
    kernel.two_loops(moves, changes, 2, 1.0, q)
    assert np.allclose(q, expected)
