"""Gradients, products of the Hessian and line searches of several lines, beside NumPy."""

import numpy as np
import pytest
from conftest import slow
from reference.datasets import as_form
from scipy.optimize import minimize_scalar

from streammargin.compiled import products
from streammargin.compiled.jit import kernel
from streammargin.compiled.judged import judge_of
from streammargin.losses import terms
from streammargin.losses.logistic import Logistic
from streammargin.rows.labels import Labels
from streammargin.sources.arrays import ArraySource

FORMS = [slow("dense", np.float32), ("dense", np.float64), slow("csr", np.float32), ("csr", np.float64)]
random = np.random.default_rng(5)
ROWS, COLUMNS, BIAS = 83, 300, 0.5
X = random.standard_normal((ROWS, COLUMNS)) * (random.random((ROWS, COLUMNS)) < 0.4)
WEIGHTS = random.choice([0.0, 0.5, 2.0], ROWS)
CODES = random.integers(-1, 2, ROWS).astype(np.int16)
LABELS = Labels(CODES, np.array([1]), np.full((1, 2), 0.7), WEIGHTS, np.empty(0))
CAPS, SIGNS = np.where(CODES >= 0, 0.7 * WEIGHTS, 0.0), np.where(CODES == 1, 1.0, -1.0)


def block_of(form, dtype):
    """The rows as a block, and in NumPy with the constant column."""
    rows = np.hstack([X.astype(dtype).astype(float), np.full((ROWS, 1), BIAS)])
    return ArraySource(as_form(X, form, dtype)).whole()._replace(bias=BIAS), rows


def laid(form, lines):
    """An array (lines, d+1) as rows of this form read it, or the other way round."""
    return np.array(lines.T if form == "csr" else lines, order="C")


@kernel
def both(block, start, stop, V, Z, R, G):
    block.scores_of(start, stop, V, Z)
    block.add_pulls(start, stop, R, G)


@pytest.mark.parametrize("form, dtype", FORMS)
@pytest.mark.parametrize("lines", [1, 3, 4, 10])
def test_scores_and_pulls_of_several_lines(lines, form, dtype):
    block, rows = block_of(form, dtype)
    rng = np.random.default_rng(lines)
    V, G = rng.standard_normal((2, lines, COLUMNS + 1))
    for start, stop in ((0, ROWS), (3, 4), (5, 26), (8, 16)):
        Z, R, found = np.full((stop - start, lines), np.nan), rng.standard_normal((stop - start, lines)), laid(form, G)
        both(block, start, stop, laid(form, V), Z, R, found)
        np.testing.assert_allclose(Z, rows[start:stop] @ V.T, atol=1e-12)
        assert laid(form, found) == pytest.approx(G + R.T @ rows[start:stop], abs=1e-12)


@pytest.mark.parametrize("form, dtype", FORMS)
def test_gradient_and_products_of_a_loss_of_one_margin(form, dtype):
    """The logistic loss; rows with code -1 or weight 0 are absent."""
    block, rows = block_of(form, dtype)
    w, v = np.random.default_rng(1).standard_normal((2, 1, COLUMNS + 1)) / 10
    scores, bends, image = np.empty((ROWS, 1)), np.full((ROWS, 1), np.nan), laid(form, np.ones((1, COLUMNS + 1)))
    products.add_scores(block, laid(form, w), scores)
    assert scores[:, 0] == pytest.approx(rows @ w[0], abs=1e-12)
    losses = products.add_gradient(block, LABELS, judge_of(terms("logistic")), 0, scores, bends, image)
    u = SIGNS * scores[:, 0]
    p = 1.0 / (1.0 + np.exp(u))
    assert losses == pytest.approx(CAPS @ np.logaddexp(0.0, -u), rel=1e-12)
    assert bends[:, 0] == pytest.approx(CAPS * p * (1.0 - p), abs=1e-12)
    assert image.ravel() == pytest.approx(1.0 + (CAPS * SIGNS * p) @ rows, abs=1e-12)
    bent, along = laid(form, np.ones((1, COLUMNS + 1))), np.empty((ROWS, 1))
    products.add_curved(block, bends, laid(form, v), along, bent)
    assert along[:, 0] == pytest.approx(rows @ v[0], abs=1e-12)
    assert bent.ravel() == pytest.approx(1.0 + rows.T @ (bends[:, 0] * (rows @ v[0])), abs=1e-12)
    diagonal = np.ones((1, COLUMNS + 1))
    products.add_diagonal(block, bends, 1, diagonal)
    assert diagonal[0] == pytest.approx(1.0 + bends[:, 0] @ rows**2, abs=1e-12)
    some = np.zeros((1, COLUMNS + 1))
    products.add_diagonal(block, bends, 8, some)
    assert some[0] == pytest.approx(8.0 * bends[::8, 0] @ rows[::8] ** 2, abs=1e-12)


def softmax_of(scores, own, caps):
    """Losses (n,), their slopes (n, lines) and second derivatives (n, lines, lines) by the scores."""
    level = np.logaddexp.reduce(scores, axis=1)
    p = np.exp(scores - level[:, None])
    bends = caps[:, None, None] * (p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None])
    return caps * (level - scores[np.arange(len(own)), own]), caps[:, None] * (p - np.eye(p.shape[1])[own]), bends


@pytest.mark.parametrize("form, dtype", FORMS)
@pytest.mark.parametrize("lines", [3, 10])
def test_gradient_and_products_of_a_loss_of_all_lines(lines, form, dtype):
    """The softmax, in the second of two groups; rows with code -1 or weight 0 are absent."""
    block, rows = block_of(form, dtype)
    rng = np.random.default_rng(lines)
    codes = rng.integers(-1, lines, ROWS).astype(np.int16)
    capped = np.outer(np.repeat([9.0, 0.7], lines), rng.uniform(0.5, 1.0, lines))
    labels = Labels(codes, np.tile(np.arange(lines), 2), capped, WEIGHTS, np.empty(0))
    caps = np.where(codes >= 0, capped[-1][codes] * WEIGHTS, 0.0)
    w, v = rng.standard_normal((2, lines, COLUMNS + 1)) / 10
    value, slopes, curved = softmax_of(rows @ w.T, np.maximum(codes, 0), caps)
    scores, bends = np.empty((ROWS, lines)), np.full((ROWS, 2 * lines), np.nan)
    image = laid(form, np.ones((lines, COLUMNS + 1)))
    products.add_scores(block, laid(form, w), scores)
    losses = products.add_gradient(block, labels, judge_of(Logistic().joint()), lines, scores, bends, image)
    assert losses == pytest.approx(value.sum(), rel=1e-12)
    assert laid(form, image) == pytest.approx(1.0 - slopes.T @ rows, abs=1e-11)
    bent, along = laid(form, np.ones((lines, COLUMNS + 1))), np.empty((ROWS, lines))
    products.add_curved(block, bends, laid(form, v), along, bent)
    assert along == pytest.approx(rows @ v.T, abs=1e-12)
    assert laid(form, bent) == pytest.approx(1.0 + np.einsum("igh,ih,ij->gj", curved, rows @ v.T, rows), abs=1e-11)
    diagonal = np.ones((lines, COLUMNS + 1))
    products.add_diagonal(block, bends, 1, diagonal)
    assert diagonal == pytest.approx(1.0 + np.einsum("igg,ij->gj", curved, rows**2), abs=1e-11)
    pull, bend = np.ones(lines), np.ones((lines, lines))
    size = products.add_constants(labels, judge_of(Logistic().joint()), lines, scores, pull, bend)
    assert pull == pytest.approx(1.0 - slopes.sum(axis=0), abs=1e-12) and size == pytest.approx(np.abs(slopes).sum())
    assert bend == pytest.approx(1.0 + curved.sum(axis=0), abs=1e-12)
    of_lines, of_columns = np.zeros((lines, lines)), np.zeros((COLUMNS + 1, COLUMNS + 1))
    products.add_factors(block, bends, 4, of_lines, of_columns)
    traces = np.trace(curved[::4], axis1=1, axis2=2)
    assert of_lines == pytest.approx(np.triu(curved[::4].sum(axis=0) / traces.sum()), abs=1e-12)
    whole = 4.0 * (rows[::4].T * traces) @ rows[::4]
    assert np.triu(of_columns) == pytest.approx(np.triu(whole), abs=1e-10)


def test_the_line_search_of_a_loss_of_all_lines_ends_near_the_minimum():
    rng = np.random.default_rng(2)
    scores, along = rng.standard_normal((2, ROWS, 4))
    codes = rng.integers(0, 4, ROWS).astype(np.int16)
    labels = Labels(codes, np.arange(4), np.full((4, 4), 0.7), WEIGHTS, np.empty(0))

    def value(t):
        return -40.0 * t + 0.05 * t * t + softmax_of(scores + t * along, codes, 0.7 * WEIGHTS)[0].sum()

    slope = (value(1e-6) - value(-1e-6)) / 2e-6
    t = products.lowest_along(labels, judge_of(Logistic().joint()), 0, scores, along, -40.0, 0.1, slope)
    there = (value(t + 1e-6) - value(t - 1e-6)) / 2e-6
    assert slope < 0.0 < t and abs(there) <= 0.03 * abs(slope) + 1e-3


@pytest.mark.parametrize("loss, least", [("logistic", 1e-3), ("squared_hinge", 1e-3)])
def test_the_line_search_ends_near_the_minimum(loss, least):
    rng = np.random.default_rng(2)
    scores, along = rng.standard_normal((2, ROWS, 1))
    phi = {"logistic": lambda u: np.logaddexp(0.0, -u), "squared_hinge": lambda u: np.maximum(1.0 - u, 0.0) ** 2}[loss]

    def value(t):
        return -40.0 * t + 0.05 * t * t + CAPS @ phi(SIGNS * (scores[:, 0] + t * along[:, 0]))

    slope = (value(1e-6) - value(-1e-6)) / 2e-6
    t = products.lowest_along(LABELS, judge_of(terms(loss)), 0, scores, along, -40.0, 0.1, slope)
    there = (value(t + 1e-6) - value(t - 1e-6)) / 2e-6
    assert slope < 0.0 < t and abs(there) <= 0.03 * abs(slope) + least
    assert value(t) - minimize_scalar(value, bounds=(0.0, 1e3), method="bounded").fun <= 0.03 * abs(slope) * t
