"""The papers' methods on Gram matrices are those on weights, and keep what theory says of their margins."""

import itertools
import math

import numpy as np
import pytest
from reference.datasets import separable

from examples.gram_columns import BatchPerceptron, Momentum, Pair, Proven
from examples.gram_methods import diagonal, dual_momentum, iterates, margins_of, norm_of, normalised_gd, upper_of

RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def rows():
    """Rows times their labels, of length at most 1."""
    X, y = separable(60, 5, seed=1)
    A = y[:, None] * X
    return A / np.linalg.norm(A, axis=1).max()


def run(A, passes, **methods):
    return list(iterates(A @ A.T, methods, passes))


def softmax(values):
    found = np.exp(values - values.max())
    return found / found.sum()


def test_the_norm_is_that_of_the_singular_values(rows):
    S = rows @ rows.T
    assert np.linalg.norm(S, 2) <= norm_of(S) <= np.linalg.norm(S, 2) * (1 + 1e-5)


@pytest.mark.parametrize("alpha", [None, 3.0])
def test_diagonal_descent_is_that_on_weights(rows, alpha):
    gamma, falls = 1.0 / np.linalg.norm(rows @ rows.T, 2), [(4.0, "t"), (8.0, "log t"), (0.5, "2^t"), (2.0, "sqrt t")]
    found = run(rows, 1200, it=diagonal(60, gamma, falls, alpha))
    caps = (lambda t: t / 4, lambda t: math.log(t) / 8, lambda t: 2.0 ** min(t, 900) / 0.5, lambda t: t**0.5 / 2)
    for k, cap in enumerate(caps):
        beta = before = np.zeros(60)
        for t in range(1, 101):
            z = beta if alpha is None else beta + t / (t + alpha) * (beta - before)
            before, beta = beta, np.clip(z - gamma * rows @ (rows.T @ z) + gamma, 0.0, cap(t))
            np.testing.assert_allclose(found[t - 1]["it"][0][:, k], beta, atol=1e-10)
    u, product = found[-1]["it"]
    np.testing.assert_allclose(product, rows @ (rows.T @ u), atol=1e-8)
    assert (margins_of(u, product) <= upper_of(u, product) + 1e-12).all()


def test_dual_momentum_and_descent_are_those_on_weights(rows):
    found = run(rows, 60, momentum=dual_momentum(60), gd=normalised_gd(60))
    w, g, v = np.zeros((3, 5))
    for t in range(60):
        pull = rows.T @ softmax(-rows @ w)
        g = t / (t + 1) * (g + pull)
        w = w + g + pull
        v = v + rows.T @ softmax(-rows @ v) / math.sqrt(t + 1)
        for name, weights in (("momentum", w), ("gd", v)):
            u, product = found[t][name]
            np.testing.assert_allclose(rows.T @ u[:, 0], weights, atol=1e-10)
            assert margins_of(u, product)[0] == pytest.approx((rows @ weights).min() / np.linalg.norm(weights))


@pytest.fixture(scope="module")
def classes():
    """(features (n, 4), y) of three classes, each apart from the others, of length at most 1; the last 6 are a test."""
    y = np.arange(36) % 3
    X = RANDOM.standard_normal((36, 4)) * 0.3 + 2.0 * np.eye(3, 4)[y]
    return X / np.linalg.norm(X, axis=1).max(), y


def steps(kind, X, y, passes, train=30):
    """(the method, the pairs of its steps) after these steps; `planned` for the proven step."""
    K, random = X @ X.T, np.random.default_rng(3)
    method, pairs = kind(y, train, np.diagonal(K).copy()), []
    if kind is Proven:
        method.planned(passes)
    for _ in range(passes):
        pairs.append(method.choose(random))
        method.step(pairs[-1], K[pairs[-1].row])
    return method, pairs


def written(X, pair):
    z = np.zeros((3, X.shape[1]))
    z[pair.own], z[pair.wrong] = X[pair.row], -X[pair.row]
    return z.ravel() / math.sqrt(2.0)


def of_weights(kind, zs):
    """(the iterate that is shown, its own bound) by vectors that are written."""
    w, g, total, bound = np.zeros_like(zs[0]), np.zeros_like(zs[0]), np.zeros_like(zs[0]), math.inf
    for t, z in enumerate(zs):
        if kind is Momentum:
            g = t / (t + 1) * (g + z)
            w = w + g + z
            bound = np.linalg.norm(g) * 2 / t if t else math.inf
        elif kind is Proven:
            w = w + math.sqrt(math.log(60) / len(zs)) * z
            bound = np.linalg.norm(w) / math.sqrt(math.log(60) / len(zs)) / (t + 1)
        else:
            w = w + z / math.sqrt(t + 1)
            w = w / max(1.0, np.linalg.norm(w))
            total = total + w
    return (total if kind is BatchPerceptron else w), bound


@pytest.mark.parametrize("kind", [Momentum, Proven, BatchPerceptron])
def test_pairs_that_are_not_written_step_as_those_that_are(kind, classes):
    X, y = classes
    method, pairs = steps(kind, X, y, 80)
    assert all(pair.own == y[pair.row] != pair.wrong and pair.row < 30 for pair in pairs)
    w, bound = of_weights(kind, [written(X, pair) for pair in pairs])
    every = [Pair(i, y[i], j) for i, j in itertools.product(range(30), range(3)) if j != y[i]]
    margins = [written(X, pair) @ w / np.linalg.norm(w) for pair in every]
    assert method.margin() == pytest.approx(min(margins), abs=1e-10)
    scores = X[30:] @ w.reshape(3, -1).T
    assert method.error() == np.mean(np.argmax(scores, axis=1) != y[30:])
    if kind is not BatchPerceptron:
        assert method.upper() == pytest.approx(bound) and method.upper() >= method.margin()


def test_the_least_margin_and_chances_are_those_of_pairs(classes):
    X, y = classes
    method, _ = steps(Momentum, X, y, 5)
    lead = {(j, i): -method.product(method.w, Pair(i, y[i], j)) for i in range(30) for j in range(3) if j != y[i]}
    wrong, row = max(lead, key=lead.get)
    assert method.least() == (row, y[row], wrong)
    random, counts = np.random.default_rng(0), dict.fromkeys(lead, 0)
    for _ in range(20_000):
        pair = method.sampled(random)
        counts[pair.wrong, pair.row] += 1
    chances = softmax(np.array(list(lead.values())))
    error = np.sqrt(chances * (1 - chances) / 20_000)
    assert (np.abs(np.array(list(counts.values())) / 20_000 - chances) < 5 * error + 1e-4).all()
