"""A small margin is no proof that there is none: `not_separable` is said of a bound at rounding level alone."""

import numpy as np
import pytest
from reference.datasets import noisy
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


@pytest.mark.parametrize("solver", ["active-set", "batch-perceptron", "dual-momentum"])
def test_rows_that_are_there_with_both_labels_are_a_proof(solver):
    X, y = random_labels(1)
    result = sm.train((np.vstack([X, X]), np.append(y, -y)), solver=solver, C=np.inf, tol=1e-3)
    assert result.reason == "not_separable" and not result.converged
    assert result.certificate.margin_upper <= 1e-8 * np.linalg.norm(X, axis=1).max()
    assert "0 up to rounding" in advice(result)


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
