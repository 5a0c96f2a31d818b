"""Rows drawn with replacement, the paper's own methods: the naive twin's iterates, and the optimum."""

import numpy as np
import pytest
from conftest import slow
from reference import words
from reference.coordinate import ThreeSequences, drawn_rows, loss_step
from reference.datasets import WEIGHTINGS, as_form, noisy, separable
from reference.norms import curvature, length, mirror
from reference.optimum import solve
from reference.sources import CountingSource
from reference.stopped import stop_after
from reference.training import binary, check_certificate
from reference.words import loss_word

import streammargin as sm

METHODS = ["ascent:order=uniform", "ascent:order=importance", "ascent:momentum=yes,order=uniform"]
PLANS = {"memory": (0, 60), "blocks": (0, 1, 8, 9, 40, 60)}
PASSES = 3


def iterates(problem, word, order):
    """The weights after the steps on these rows."""
    if "momentum=yes" in word:
        twin = ThreeSequences(problem.A, problem.q, loss_step(problem), len(problem.A))
        for i in order:
            twin.visit(i)
        return mirror(problem.A.T @ twin.v, problem.q)
    alpha = np.zeros(len(problem.A))
    problem.visit(order, alpha)
    return mirror(problem.theta(alpha), problem.q)


def order_of(X, weights, bounds, seed, word, q):
    """The rows of all passes, counted among those of positive weight."""
    L = np.array([curvature(x, q) for x in X])
    place = np.cumsum(weights > 0) - 1
    importance = "importance" in word
    passes = [drawn_rows(L, weights > 0, bounds, seed, number, importance) for number in range(1, PASSES + 1)]
    return [place[i] for rows in passes for i in rows]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("form, norm", [("dense", 2), ("csr", 1.5), slow("dense", 1.5), slow("csr", 2)])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("word", METHODS)
def test_the_steps_are_those_of_the_twin(word, loss, norm, form, plan):
    """With a constant much larger than the rows, which ascent damps in its own order; and with absent rows."""
    X, y = noisy()
    X, bounds = 0.1 * X, PLANS[plan]
    weights = np.where(np.arange(60) % 4 == 1, 0.0, np.linspace(0.5, 2.0, 60))
    rows = as_form(X, form)
    data = (rows, y) if plan == "memory" else CountingSource(rows, y, bounds, weights)
    given = {"sample_weight": weights} if plan == "memory" else {}
    result = sm.train(
        data, solver=word, loss=loss, penalty=f"lp:{norm}", C=2.0, bias=1, tol=0.0, passes=PASSES, seed=5, **given
    )
    problem = binary(X, y, loss=loss, C=2.0, norm=norm, bias=1.0, sample_weight=weights)
    order = order_of(np.column_stack([X, np.ones(60)]), weights, bounds, 5, word, problem.q)
    assert len(order) == PASSES * 45 and len(set(order[:45])) < 40
    w = np.append(result.model.coef_[0], result.model.intercept_)
    np.testing.assert_allclose(w, iterates(problem, word, order), rtol=1e-9, atol=1e-12)
    assert result.certificate["primal"] == pytest.approx(problem.primal(w), rel=1e-10)


@pytest.mark.parametrize("word", METHODS)
def test_each_class_takes_the_steps_of_its_own(word):
    X, _ = noisy()
    y = np.arange(60) % 3
    result = sm.train((X, y), solver=word, C=0.7, bias=0, tol=0.0, passes=PASSES)
    order = order_of(X, np.ones(60), (0, 60), 0, word, 2.0)
    for k in range(3):
        expected = iterates(binary(X, y == k, C=0.7), word, order)
        np.testing.assert_allclose(result.model.coef_[k], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("norm", [2, 1.5])
@pytest.mark.parametrize("loss", words.LOSSES)
@pytest.mark.parametrize("word", METHODS)
def test_the_optimum_of_every_loss(word, loss, norm, weighting):
    X, y = noisy()
    problem = binary(X, y, loss=loss, width=0.5, norm=norm, **WEIGHTINGS[weighting])
    result = sm.train(
        (X, y), solver=word, loss=loss_word(loss, 0.5), penalty=f"lp:{norm}", tol=1e-4, passes=20_000, bias=0,
        **WEIGHTINGS[weighting],
    )  # fmt: skip
    check_certificate(result, problem, solve(problem, loss, 0.5), result.model.coef_[0], 1e-4)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("word", METHODS)
def test_the_largest_margin(word, form):
    X, y = separable()
    problem = binary(X, y, C=np.inf)
    exact = solve(problem, "hinge")
    source = CountingSource(as_form(X, form), y, PLANS["blocks"])
    for data in ((as_form(X, form), y), source):
        result = sm.train(data, solver=word, C=np.inf, tol=1e-3, passes=20_000)
        margin = problem.margin(result.model.coef_[0])
        assert result.converged and margin == pytest.approx(result.certificate["margin_lower"], rel=1e-9)
        assert (1 - 1e-3) / length(exact.w, 2) <= margin <= 1 / length(exact.w, 2) * (1 + 1e-9)


@pytest.mark.parametrize("word", METHODS)
def test_the_least_interpolator(word):
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((12, 20)), rng.standard_normal(12)
    result = sm.train((X, y), solver=word, loss="interpolate", tol=1e-7, passes=20_000)
    assert result.converged
    np.testing.assert_allclose(result.model.coef_[0], np.linalg.pinv(X) @ y, atol=1e-5)


@pytest.mark.parametrize("word", METHODS[:2])
def test_another_penalty(word):
    X, y = noisy()
    options = {"penalty": "elasticnet:0.3", "C": 1.0, "bias": 1, "tol": 1e-5, "passes": 20_000}
    ours, other = (sm.train((X, y), solver=name, **options) for name in (word, "pdprox"))
    assert ours.converged and ours.certificate["primal"] == pytest.approx(other.certificate["primal"], rel=2e-5)


@pytest.mark.parametrize("word", METHODS)
def test_a_training_that_was_stopped_goes_on(word, tmp_path):
    X, y = noisy()

    def train(**more):
        return sm.train(CountingSource(X, y, PLANS["blocks"]), solver=word, tol=0.0, passes=6, **more)

    stopped = train(checkpoint=str(tmp_path), should_stop=stop_after(14))
    assert stopped.resumable and 0 < stopped.passes < 6
    whole, resumed = train(), train(checkpoint=str(tmp_path))
    assert resumed.model.coef_.tobytes() == whole.model.coef_.tobytes()
    assert train(seed=1).model.coef_.tobytes() != whole.model.coef_.tobytes()


def test_long_rows_are_drawn_more_often():
    """The share of each row is L_i / sum L_i, whatever rows are absent or empty."""
    L, present = np.array([1.0, 3.0, 0.0, 6.0, 9.0]), np.array([True, True, True, True, False])
    rows = [i for number in range(4000) for i in drawn_rows(L, present, (0, 5), 0, number, True)]
    share = np.bincount(rows, minlength=5) / 16_000
    np.testing.assert_allclose(share, [0.1, 0.3, 0.25, 0.6, 0.0], atol=0.02)


def test_rows_of_zeros_alone():
    y = np.array([1, -1, 1])
    result = sm.train((np.zeros((3, 2)), y), solver="ascent:order=importance", bias=0)
    assert result.converged and result.certificate["primal"] == 3.0 and not result.model.coef_.any()


def test_momentum_draws_every_row_with_the_same_probability():
    with pytest.raises(sm.UsageError, match="order=uniform"):
        sm.train(noisy(), solver="ascent:momentum=yes,order=importance")


def test_rows_too_large_for_the_penalty_are_named():
    X, y = separable(20, 4)
    X[7] *= 1e200
    for word in METHODS:
        with pytest.raises(sm.DataError, match="row 7"):
            sm.train((X, y), solver=word, penalty="lp:1.5", C=np.inf)


@pytest.mark.parametrize("plan", ["memory", "blocks"])
@pytest.mark.parametrize("norm", [2, 1.5])
def test_equal_steps_are_mirror_descent_on_least_squares(norm, plan):
    """Lemma 2 of the lp-norm perceptron paper: theta += (y_i - x_i.w) x_i / max L is the gradient of each f_i."""
    rng = np.random.default_rng(0)
    X, targets, bounds = rng.standard_normal((12, 30)), rng.standard_normal(12), (0, 5, 12)
    q = norm / (norm - 1.0)
    L = np.array([curvature(x, q) for x in X])
    theta = np.zeros(30)
    of = bounds if plan == "blocks" else (0, 12)
    for number in range(1, PASSES + 1):
        for i in drawn_rows(L, np.ones(12, bool), of, 5, number, False):
            theta += (targets[i] - X[i] @ mirror(theta, q)) / L.max() * X[i]
    data = (X, targets) if plan == "memory" else CountingSource(X, targets, bounds)
    options = {"loss": "interpolate", "penalty": f"lp:{norm}", "bias": 0, "seed": 5, "tol": 1e-3}
    word = "ascent:order=uniform,steps=equal"
    result = sm.train(data, solver=word, passes=PASSES, **options)
    w, shift = result.model.coef_[0], result.model.intercept_[0]
    assert shift == 0.0
    np.testing.assert_allclose(w, mirror(theta, q), rtol=1e-9, atol=1e-12)
    done, best = (sm.train(data, solver=one, passes=20_000, **options) for one in (word, "sdca"))
    assert done.converged and np.abs(X @ done.model.coef_[0] - targets).max() <= 1e-3 * np.abs(targets).max()
    np.testing.assert_allclose(done.model.coef_, best.model.coef_, atol=2e-2)


@pytest.mark.parametrize("norm", [2, 1.5])
def test_the_last_iterate_is_far_ahead_of_the_mean(norm):
    """So the averaged iterate, which section 2.2 of the paper begins with, is no word."""
    rng = np.random.default_rng(0)
    X, targets = rng.standard_normal((12, 30)), rng.standard_normal(12)
    q = norm / (norm - 1.0)
    theta, total, count = np.zeros(30), np.zeros(30), 100 * 12
    largest = max(curvature(x, q) for x in X)
    for i in rng.integers(0, 12, count):
        theta += (targets[i] - X[i] @ mirror(theta, q)) / largest * X[i]
        total += mirror(theta, q)
    last, mean = (np.abs(X @ w - targets).max() for w in (mirror(theta, q), total / count))
    assert last < 0.01 * mean


def test_equal_steps_of_a_smooth_loss_reach_the_optimum():
    """Corollary C.1 has them; rows of zeros stay as they are."""
    X, y = noisy()
    X[3] = 0.0
    result = sm.train(
        (X, y), solver="ascent:order=uniform,steps=equal", loss="squared_hinge", C=0.5, tol=1e-6, passes=5000
    )
    best = sm.train((X, y), solver="newton", loss="squared_hinge", C=0.5, tol=1e-8).certificate.primal
    assert result.converged and result.certificate.primal == pytest.approx(best, rel=1e-6)
    with pytest.raises(sm.errors.UsageError, match="give order=uniform with steps=equal"):
        sm.train((X, y), solver="ascent:steps=equal", C=1.0)
