"""The kernels of a pass with frozen weights against sums over all rows at once."""

from itertools import pairwise

import numpy as np
import pytest
from conftest import slow
from reference.datasets import as_form
from reference.whole_pass import log_risk, pseudo_rows, shares, signed

from streammargin.compiled import whole_pass as kernel
from streammargin.losses import terms
from streammargin.rows.labels import Labels, numbered_from
from streammargin.sources.arrays import ArraySource

ROWS, FEATURES, BIAS = 90, 5, 0.5
SPLITS = {"whole": (0, 90), "uneven": (0, 1, 8, 9, 70, 90)}


def data(classes=2, weighted=True, size=1.0, ordered=False):
    """X (n, d), codes (some -1), weights (some 0), w (K, d+1) whose scores are of this size, the present rows."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((ROWS, FEATURES)).astype(np.float32).astype(float)
    X[rng.random(X.shape) < 0.3] = 0
    codes = rng.integers(0, classes, ROWS).astype(np.int16)
    codes[[0, 1, 40]] = -1
    w = size * rng.standard_normal((1 if classes == 2 else classes, FEATURES + 1))
    if ordered:  # the smallest margins come last, so that the sums are rescaled on the way
        where = np.argsort(-signed(with_bias(X), codes) @ w[0])
        X, codes = X[where], codes[where]
    weights = rng.choice([0.0, 0.5, 2.0], ROWS) if weighted else np.empty(0)
    there = (codes >= 0) & (weights > 0 if weighted else True)
    return X, codes, weights, w, there


def with_bias(X):
    return np.column_stack([X, np.full(len(X), BIAS)])


def blocks(X, form, dtype, split):
    for start, stop in pairwise(split):
        yield start, ArraySource(as_form(X[start:stop], form, dtype)).whole()._replace(bias=BIAS)


def new_figures(problems):
    """Figures (problems, FIGURES) before a pass."""
    figures = np.zeros((problems, kernel.FIGURES))
    figures[:, kernel.SMALLEST], figures[:, kernel.LEVEL] = np.inf, -np.inf
    return figures


def softmax_pass(X, codes, weights, w, *, loss="exponential", classes=2, joint=False, chunk=64, form="dense",
                 dtype=np.float64, split=SPLITS["whole"], active=None, scale=None, reach=40.0):  # fmt: skip
    """pull (K, d+1), figures (K, FIGURES), wrong."""
    K = len(w)
    positive = np.array([1]) if classes == 2 else np.arange(classes)
    pull, figures, wrong = np.zeros_like(w), new_figures(K), np.zeros(1, np.int64)
    labels = Labels(codes, positive, np.full((K, classes), np.inf), weights, np.empty(0))
    for first, block in blocks(X, form, dtype, split):
        kernel.softmax_block(
            block, numbered_from(first), labels, terms(loss), chunk, joint,
            np.arange(K) if active is None else active, w, np.ones(K) if scale is None else scale,
            reach + np.log(ROWS), pull, figures, wrong,
        )  # fmt: skip
    return pull, figures, wrong[0]


def check_sums(loss, A, w, pull, figures):
    """pull and the sums are those of rows A with weights w."""
    scores = -A @ w
    share = shares(loss, scores)
    total, value, level = figures[[kernel.TOTAL, kernel.VALUE, kernel.LEVEL]]
    divisor = terms(loss).divisor(total, value, level)
    assert pull / divisor == pytest.approx(A.T @ share, rel=1e-11, abs=1e-13)
    assert total / divisor == pytest.approx(share.sum(), rel=1e-11)
    assert np.log(value) + level == pytest.approx(log_risk(loss, scores), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("size", [0.0, 1e-3, 1.0, 30.0, 3000.0])
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_one_problem(loss, size, ordered):
    X, codes, weights, w, there = data(size=size, ordered=ordered)
    pull, figures, wrong = softmax_pass(X, codes, weights, w, loss=loss, chunk=7)
    A = signed(with_bias(X), codes)[there]
    check_sums(loss, A, w[0], pull[0], figures[0])
    margins = A @ w[0]
    assert figures[0, kernel.SMALLEST] == pytest.approx(margins.min(), rel=1e-14)
    predicted = with_bias(X)[there] @ w[0] > 0  # a score of 0 is the first class
    assert figures[0, kernel.MISTAKES] == np.sum(predicted != (codes[there] == 1))
    assert wrong == 0  # one problem counts mistakes only


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_separated_rows_far_from_0(loss):
    """The risk is no float64 any more; the shares are."""
    X, codes, _, w, _ = data(weighted=False)
    codes[:] = 1
    w = w[0, :-1]
    X += (5 - (X @ w).min()) * w / (w @ w)  # all scores are at least 5
    for size in (1.0, 300.0):
        pull, figures, _ = softmax_pass(X, codes, np.empty(0), np.append(size * w, 0.0)[None], loss=loss)
        check_sums(loss, with_bias(X), np.append(size * w, 0.0), pull[0], figures[0])


@pytest.mark.parametrize("chunk", [1, 3, 64, 90, 500])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [slow(np.float32), np.float64])
def test_blocks_chunks_and_forms_agree(form, dtype, split, chunk):
    X, codes, weights, w, there = data(size=30.0, ordered=True)
    pull, figures, _ = softmax_pass(X, codes, weights, w, form=form, dtype=dtype, split=SPLITS[split], chunk=chunk)
    A = signed(with_bias(X), codes)[there]
    check_sums("exponential", A, w[0], pull[0], figures[0])
    assert figures[0, kernel.MISTAKES] == np.sum(A @ w[0] <= 0)


@pytest.mark.parametrize("weighted", [True, False])
def test_one_against_the_rest(weighted):
    X, codes, weights, w, there = data(classes=4, weighted=weighted)
    scale = np.array([1.0, 0.5, 2.0, 3.0])
    pull, figures, wrong = softmax_pass(X, codes, weights, w, classes=4, active=np.array([0, 2]), scale=scale, chunk=10)
    scores = with_bias(X)[there] @ w.T
    assert wrong == np.sum(np.argmax(scores * scale, axis=1) != codes[there])
    for k in range(4):
        A = signed(with_bias(X), codes, k)[there]
        assert figures[k, kernel.SMALLEST] == pytest.approx((A @ w[k]).min(), rel=1e-14)
        assert figures[k, kernel.MISTAKES] == np.sum(A @ w[k] <= 0)
        if k in (0, 2):
            check_sums("exponential", A, w[k], pull[k], figures[k])
        else:
            assert not np.any(pull[k])


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize("size", [1.0, 300.0])
def test_joint(loss, size):
    X, codes, weights, w, there = data(classes=3, size=size)
    pull, figures, wrong = softmax_pass(
        X, codes, weights, w, loss=loss, classes=3, joint=True, chunk=10, split=SPLITS["uneven"]
    )
    A = pseudo_rows(with_bias(X)[there], codes[there], 3)
    check_sums(loss, A, w.ravel(), pull.ravel(), figures[0])
    margins = A @ w.ravel()
    assert figures[:, kernel.SMALLEST].min() == pytest.approx(margins.min(), rel=1e-13)
    assert figures[:, kernel.MISTAKES].sum() == np.sum(margins <= 0)
    assert wrong == np.sum(np.argmax(with_bias(X)[there] @ w.T, axis=1) != codes[there])


def test_skipped_rows_leave_a_point_of_the_simplex():
    """Whatever is skipped, pull / TOTAL is a mean of rows with the weights that were summed."""
    X, codes, weights, w, there = data()
    pull, figures, _ = softmax_pass(X, codes, weights, w, reach=-np.log(ROWS) + 1.0)
    A = signed(with_bias(X), codes)[there]
    scores = -A @ w[0]
    kept = scores >= scores.max() - 1.0
    share = np.exp(scores - scores.max()) * kept
    assert 1 < kept.sum() < len(A) / 2
    assert pull[0] / figures[0, kernel.TOTAL] == pytest.approx(A.T @ share / share.sum(), rel=1e-12)


@pytest.mark.parametrize("averages", [True, False])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_the_nearest_row(form, classes, split, averages):
    X, codes, weights, w, there = data(classes=classes)
    K = len(w)
    average = np.random.default_rng(9).standard_normal((K if averages else 0, FEATURES + 1))
    scale = np.linspace(0.5, 1.5, K)
    nearest, figures, averaged = np.zeros_like(w), new_figures(K), new_figures(K)
    wrong = np.zeros(1, np.int64)
    positive = np.array([1]) if classes == 2 else np.arange(classes)
    labels = Labels(codes, positive, np.full((K, classes), np.inf), weights, np.empty(0))
    for first, block in blocks(X, form, np.float64, SPLITS[split]):
        kernel.perceptron_block(
            block, numbered_from(first), labels, 11, False, np.arange(K), w, average, scale, nearest, figures, averaged,
            wrong,
        )  # fmt: skip
    for k in range(K):
        A = signed(with_bias(X), codes, positive[k])[there]
        assert nearest[k] == pytest.approx(A[np.argmin(A @ w[k])], rel=1e-15)
        for v, columns in [(w, figures)] + [(average, averaged)] * averages:
            assert columns[k, kernel.SMALLEST] == pytest.approx((A @ v[k]).min(), rel=1e-14)
            assert columns[k, kernel.MISTAKES] == np.sum(A @ v[k] <= 0)
    if K > 1:
        scores = with_bias(X)[there] @ (average if averages else w).T
        assert wrong[0] == np.sum(np.argmax(scores * scale, axis=1) != codes[there])
