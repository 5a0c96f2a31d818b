"""A small margin is no proof that there is none, nor is a bound that is rounding alone."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from reference.datasets import as_form, noisy
from reference.optimum import solve
from reference.training import binary

import streammargin as sm
from streammargin.result import advice
from streammargin.solvers.margin import active_set, small_problem


def random_labels(seed=0):
    """80 x 60 Gaussian rows: fewer than twice as many rows as columns, which most labels leave separable."""
    random = np.random.default_rng(seed)
    return random.standard_normal((80, 60)), random.choice([-1, 1], 80)


@pytest.mark.parametrize("solver, tol", [("adaptive", 0.05), ("batch-perceptron", 0.1)])
def test_separable_rows_are_never_called_not_separable(solver, tol):
    X, y = random_labels()
    problem = binary(X, y, C=np.inf)
    margin = problem.margin(solve(problem, "hinge").w)
    asked = tol * np.linalg.norm(X, axis=1).mean()
    assert 0 < margin < asked
    result = sm.train((X, y), solver=solver, tol=tol)
    assert result.reason == "small_margin" and not result.converged
    upper = result.certificate.margin_upper
    assert margin * (1 - 1e-8) <= upper < asked and result.certificate.margin_lower <= 0
    assert result.run_end["smallest_margin"] == pytest.approx(asked)
    assert f"above {upper:.3g}, which is below {asked:.3g}, `tol` times the mean row norm" in advice(result)


@pytest.mark.parametrize("form", ["dense", "csr", "float32"])
def test_rows_that_are_there_with_both_labels_are_a_proof(form):
    X, y = random_labels(1)
    X, y = np.vstack([X, X]), np.append(y, -y)
    result = sm.train((X.astype(np.float32) if form == "float32" else as_form(X, form), y), C=np.inf, tol=1e-3)
    assert result.reason == "not_separable" and not result.converged
    assert result.certificate.margin_upper == 0.0 and "separates the rows, which is proven" in advice(result)


@pytest.mark.parametrize("solver", ["batch-perceptron", "dual-momentum"])
def test_a_bound_at_rounding_level_is_no_proof(solver):
    """These solvers have sums of rows alone, which are rounded."""
    X, y = random_labels(1)
    result = sm.train((np.vstack([X, X]), np.append(y, -y)), solver=solver, C=np.inf, tol=1e-3)
    assert result.reason == "small_margin" and not result.converged
    assert 0.0 < result.certificate.margin_upper <= 1e-8 * np.linalg.norm(X, axis=1).max()
    assert "rounding hides a smaller one; add a constant column" in advice(result)


@pytest.mark.parametrize("margin", [1e-3, 1e-6, 1e-9])
def test_a_margin_however_small_is_above_rounding(margin):
    """Two rows that all but cancel: the exact margin is known."""
    X, y = np.array([[1.0, margin], [1.0, -margin]]), np.array([1, -1])
    for solver in ("active-set", "sdca", "dual-momentum", "batch-perceptron"):
        assert sm.train((X, y), solver=solver, C=np.inf, tol=0.1, passes=50).reason != "not_separable", solver


def test_active_set_gives_up_a_small_margin_as_soon_as_small_problems_end(monkeypatch):
    """Up to there it gives up none that is above rounding; no read is made for ascent that has nothing to find."""
    monkeypatch.setattr(small_problem, "SIDE", 4)
    monkeypatch.setattr(small_problem, "LIMIT", 8)
    entered = []
    monkeypatch.setattr(active_set, "ascend", lambda *given: entered.append(given))
    X, y = noisy(300, 12, seed=0)
    X, y = X[X.any(axis=1)], y[X.any(axis=1)]
    result = sm.train((X, y), solver="active-set", tol=0.2)
    uppers = [event["margin_upper"] for event in result.history if event["event"] == "certificate"]
    asked = 0.2 * np.linalg.norm(X, axis=1).mean()
    assert result.reason == "small_margin" and not entered
    assert uppers[-1] < asked and len(uppers) == result.passes == 3


HARD = ("active-set", "batch-perceptron", "dual-momentum", "gd", "perceptron", "diagonal")


def hairs():
    """Rows, of two or three classes, that planes through 0 separate by less than rounding."""
    for hair in (1e-10, 1e-14, 1e-15, 1e-17, 1e-160):
        yield np.array([[1.0, 0.0], [1.0, hair]]), [1, -1]
        yield np.array([[1.0, 0.0], [1.0, -hair], [3.0, 2.0 * hair], [3.0, -hair]]), [1, 0, 1, 0]
        yield np.array([[1.0, hair, 0.0], [1.0, 0.0, hair], [1.0, 0.0, 0.0]]), [0, 1, 2]
    yield np.array([[1e-200], [1.0], [-1.0]]), [1, 1, -1]
    yield np.array([[1.0, 0.5, 0.1], [1.0, 0.5, np.nextafter(0.1, 1.0)], [2.0, 1.0, 0.2]]), [1, -1, 1]


@pytest.mark.parametrize("solver", HARD)
def test_rows_that_a_plane_separates_by_less_than_rounding_are_not_called_not_separable(solver):
    for (X, y), form in itertools.product(hairs(), (np.asarray, np.float32, sp.csr_array)):
        single = X.astype(np.float32)
        if form is np.float32 and (len(np.unique(single, axis=0)) < len(X) or not single.any(axis=1).all()):
            continue  # there is no hair
        X = form(X)
        result = sm.train((X, y), solver=solver, C=np.inf, bias=0, passes=40)
        assert result.reason != "not_separable" and result.certificate.margin_upper != 0.0, (X, result.reason)


def test_scaled_values_are_rounded_ones():
    """A column that is constant but for rounding is lost. Without it the rows are equal, with it a plane separates."""
    X, y = np.array([[1.0, 2.0], [1.0, np.nextafter(2.0, 3.0)]] * 3), [1, -1] * 3
    for solver, bias in itertools.product(("active-set", "sdca", "perceptron"), (0, 1)):
        result = sm.train((X, y), solver=solver, C=np.inf, scale="std", bias=bias, passes=20)
        assert result.reason != "not_separable" and result.certificate.margin_upper != 0.0


@pytest.mark.parametrize("scale", ["none", "std", "maxabs"])
@pytest.mark.parametrize("classes", [2, 3])
def test_overlapping_classes_are_proven_not_separable(classes, scale):
    random = np.random.default_rng(classes)
    sizes = np.ones(8) if scale == "none" else np.logspace(-6, 6, 8)
    X, y = random.standard_normal((300, 8)) * sizes, random.integers(0, classes, 300)
    for form, bias in itertools.product(("dense", "csr"), (0, 1)):
        options = {"scale": scale if form == "dense" or scale != "std" else "maxabs", "bias": bias, "C": np.inf}
        result = sm.train((as_form(X, form), y), **options)
        assert result.reason == "not_separable" and result.certificate.margin_upper == 0.0


def test_whole_numbers_of_dependent_columns_are_proven_not_separable():
    """The rows of a table of words: the columns of a word add up to 1, so no hull has an interior."""
    random = np.random.default_rng(3)
    words = np.hstack([np.eye(3)[random.integers(0, 3, 200)] for _ in range(4)])
    X, y = np.hstack([words, random.integers(0, 9, (200, 2))]), random.integers(0, 2, 200)
    for form in ("dense", "csr"):
        assert sm.train((as_form(X, form), y), C=np.inf).reason == "not_separable"
