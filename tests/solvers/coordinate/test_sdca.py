"""What training certifies, against an interior-point method and the definitions."""

from functools import cache

import numpy as np
import pytest
from reference import words
from reference.datasets import CLASS_WEIGHT, SAMPLE_WEIGHT, as_form, noisy, separable
from reference.norms import length
from reference.optimum import solve
from reference.training import binary, check_certificate
from reference.words import loss_word

import streammargin as sm


def train(*data, **options):
    return sm.train(*data, **{"solver": "sdca", **options})


TOL = 1e-4
WIDTH = 0.5
WEIGHTINGS = {"unweighted": {}, "sample_weight": SAMPLE_WEIGHT, "class_weight": CLASS_WEIGHT}


@cache
def optimum(loss, norm, weighting="unweighted", bias=None, C=1.0):
    """The problem and its exact solution on the noisy rows."""
    problem = binary(*noisy(), loss=loss, width=WIDTH, C=C, norm=norm, bias=bias, **WEIGHTINGS[weighting])
    return problem, solve(problem, loss, WIDTH)


def weights_of(result, bias=None):
    """w (d,), or (d + 1,) with that of the constant column."""
    w = result.model.coef_[0]
    return w if bias is None else np.append(w, result.model.intercept_[0] / bias)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("norm", [2, 1.5, "sparse", 1.2])
@pytest.mark.parametrize("loss", words.LOSSES)
def test_objective_equals_the_interior_point_optimum(loss, norm, form, weighting):
    problem, exact = optimum(loss, norm, weighting)
    X, y = noisy()
    result = train(
        (as_form(X, form), y),
        loss=loss_word(loss, WIDTH),
        penalty=f"lp:{norm}",
        tol=TOL,
        bias=0,
        **WEIGHTINGS[weighting],
    )
    check_certificate(result, problem, exact, weights_of(result), TOL)
    assert not result.model.intercept_.any()


@pytest.mark.parametrize("C", [1e-3, 30.0])
@pytest.mark.parametrize("loss", words.LOSSES)
def test_small_and_large_C(loss, C):
    problem, exact = optimum(loss, 2, C=C)
    result = train(noisy(), loss=loss_word(loss, WIDTH), C=C, tol=TOL, passes=20_000, bias=0)
    check_certificate(result, problem, exact, weights_of(result), TOL)


@pytest.mark.slow
@pytest.mark.parametrize("norm", [2, 1.5])
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("loss", words.LOSSES)
def test_float32_rows(loss, form, norm):
    X, y = noisy()
    X = X.astype(np.float32)
    problem = binary(X, y, loss=loss, width=WIDTH, norm=norm)
    result = train(
        (as_form(X, form, np.float32), y), loss=loss_word(loss, WIDTH), penalty=f"lp:{norm}", tol=TOL, bias=0
    )
    check_certificate(result, problem, solve(problem, loss, WIDTH), weights_of(result), TOL)


@pytest.mark.parametrize("bias", [1.0, 2.5])
@pytest.mark.parametrize("norm", [2, 1.5])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_bias_is_a_regularised_constant_column(form, norm, bias):
    X, y = noisy()
    X = X + 0.5 * (X != 0)  # so that the intercept matters
    problem = binary(X, y, norm=norm, bias=bias)
    exact = solve(problem, "hinge")
    result = train((as_form(X, form), y), penalty=f"lp:{norm}", bias=bias, tol=TOL)
    check_certificate(result, problem, exact, weights_of(result, bias), TOL)
    assert abs(exact.w[-1]) > 0.01
    scores = result.model.decision_function(as_form(X, form))
    np.testing.assert_allclose(scores * y, problem.A @ weights_of(result, bias), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("norm", [2, 1.5, "sparse", 1.2])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "smooth_hinge"])
def test_hard_margin(loss, norm, form):
    X, y = separable()
    problem = binary(X, y, loss=loss, norm=norm, C=np.inf)
    exact = solve(problem, loss)
    result = train((as_form(X, form), y), loss=loss, penalty=f"lp:{norm}", C=np.inf, tol=1e-3, passes=20_000)
    check_margin(result, problem, exact)


def check_margin(result, problem, exact, tol=1e-3, bias=None):
    w = weights_of(result, bias)
    certificate = result.certificate
    lower, upper = certificate["margin_lower"], certificate["margin_upper"]
    assert result.converged and result.reason == "tolerance"
    assert lower == pytest.approx(problem.margin(w), rel=1e-10)
    largest = 1 / length(exact.w, problem.p)
    assert lower <= problem.margin_bound(exact.alpha) * (1 + 1e-12)
    assert upper >= problem.margin(exact.w) * (1 - 1e-12)
    assert lower >= (1 - tol) * largest * (1 - 1e-8)
    assert upper - lower <= tol * upper * (1 + 1e-12)
    assert certificate["margin_gap"] == pytest.approx((upper - lower) / upper)
    assert certificate["primal"] == pytest.approx(problem.primal(w), rel=1e-9)
    assert certificate["gap"] is None
    assert certificate["mistakes"] == 0


def test_hard_margin_of_a_known_set():
    """Four points, (1/2, 3/2), (3/2, 1/2) and their opposites: w* = (1/2, 1/2), the margin is sqrt 2."""
    X = np.array([[0.5, 1.5], [1.5, 0.5], [-0.5, -1.5], [-1.5, -0.5]])
    result = train((X, np.array(["in", "in", "out", "out"])), C=np.inf, tol=1e-8)
    np.testing.assert_allclose(result.model.coef_, [[-0.5, -0.5]], rtol=1e-7)
    assert result.certificate["margin_lower"] == pytest.approx(np.sqrt(2), rel=1e-7)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share, reason", [(0.5, "tolerance"), (2.0, "small_margin")])
def test_a_margin_known_well_after_it_is_known_as_small_is_given_up(share, reason, seed):
    """Two rows on either side lie near each other: the margin is known well long after it is known as small."""
    X, y = separable()
    w = solve(binary(X, y, C=np.inf), "hinge").w
    across = 0.05 * w / np.linalg.norm(w)
    along = X[0] - (X[0] @ w) / (w @ w) * w
    X, y = np.vstack([X, along + across, along - across]), np.append(y, [1, -1])
    problem = binary(X, y, C=np.inf)
    tol = share * problem.margin(solve(problem, "hinge").w) / np.mean(np.linalg.norm(X, axis=1))
    assert train((X, y), C=np.inf, tol=tol, passes=20_000, seed=seed).reason == reason


@pytest.mark.parametrize("weight, reason", [(1.0, "not_separable"), (0.0, "tolerance")])
def test_an_empty_row_has_no_margin(weight, reason):
    X, y = separable()
    X[7] = 0
    s = np.ones(60)
    s[7] = weight
    assert train((X, y), sample_weight=s, C=np.inf, tol=1e-2, passes=20_000).reason == reason


@pytest.mark.parametrize("norm", [2, 1.5])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_one_problem_for_each_of_several_classes(form, norm):
    X, _ = noisy(90, seed=5)
    y = np.array(["ant", "bee", "cat"])[np.random.default_rng(5).integers(0, 3, 90)]
    result = train((as_form(X, form), y), loss="hinge", penalty=f"lp:{norm}", tol=TOL, bias=0)
    assert result.model.classes_.tolist() == ["ant", "bee", "cat"]
    for k, name in enumerate(result.model.classes_):
        problem = binary(X, y == name, norm=norm)
        exact = solve(problem, "hinge")
        primal = problem.primal(result.model.coef_[k])
        assert result.certificate["per_class"][k]["primal"] == pytest.approx(primal, rel=1e-10)
        assert 0 <= primal - exact.dual <= TOL * exact.primal
    guess = result.model.classes_[np.argmax(X @ result.model.coef_.T, axis=1)]
    assert result.certificate["mistakes"] == np.count_nonzero(guess != y)


def test_balanced_classes():
    X, y = noisy()
    y = np.where(np.arange(60) % 5 == 0, 1, y)
    count = {label: np.count_nonzero(y == label) for label in (-1, 1)}
    problem = binary(X, y, class_weight={label: 60 / (2 * n) for label, n in count.items()})
    result = train((X, y), class_weight="balanced", tol=TOL, bias=0)
    check_certificate(result, problem, solve(problem, "hinge"), weights_of(result), TOL)


def test_the_best_C_is_chosen_on_held_out_rows():
    X, y = noisy(60, seed=8, flips=0.2)
    values = [1e-4, 1e-2, 0.1, 1.0, 10.0]
    w = {C: solve(binary(X, y, C=C), "hinge").w for C in values}
    held_X, _ = noisy(400, seed=9)
    held_y = np.where(held_X @ w[0.1] + 0.05 * held_X[:, 0] > 0, 1, -1)  # near what C = 0.1 learns
    errors = {C: np.mean(np.where(held_X @ w[C] > 0, 1, -1) != held_y) for C in values}
    best, second = sorted(values, key=errors.get)[:2]
    assert errors[best] < errors[second]
    result = train((X, y), C=values, valid=(held_X, held_y), tol=1e-5, passes=20_000, bias=0)
    assert result.model.header["C"] == best
    assert result.certificate["valid_error"] == pytest.approx(errors[best], abs=0.01)
    problem = binary(X, y, C=best)
    check_certificate(result, problem, solve(problem, "hinge"), weights_of(result), tol=1e-5)


def test_when_passes_run_out_the_figures_are_still_exact():
    problem, exact = optimum("hinge", 2, C=30.0)
    result = train(noisy(), C=30.0, tol=1e-9, passes=2, bias=0)
    assert (result.reason, result.passes, result.converged) == ("passes", 2, False)
    certificate = result.certificate
    assert certificate["primal"] == pytest.approx(problem.primal(weights_of(result)), rel=1e-10)
    assert certificate["dual"] <= exact.primal < certificate["primal"]
