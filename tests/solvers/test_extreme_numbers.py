"""Numbers near the ends of float64: the right margin, or an error for people; never a false proof and never a NaN."""

import warnings

import numpy as np
import pytest
from reference.linear import names
from reference.training import NO_SEPARATOR

import streammargin as sm
from streammargin.errors import DataError

HARD = sorted(set(names()) - {"ascent", "newton", "pdprox", "pegasos", "prox-newton", "adaptive"})


def apart(n=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = np.sign(X[:, 0]).astype(int)
    X[:, 0] += y
    return X, y


@pytest.fixture(autouse=True)
def strict():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("solver", ["gd", "normalized-gd", "dual-momentum", "batch-perceptron"])
@pytest.mark.parametrize("power", [-199, -165, -158, -100, 100, 158, 162, 199])
def test_gradient_steps_know_no_scale(solver, power):
    X, y = apart()
    plain = sm.train((X, y), solver=solver, passes=40, tol=1e-9).certificate
    scaled = sm.train((X * 10.0**power, y), solver=solver, passes=40, tol=1e-9).certificate
    for name in ("margin_lower", "margin_upper"):  # norms are known to a factor if their squares are no numbers
        assert scaled[name] / 10.0**power == pytest.approx(plain[name], rel=0.2)


@pytest.mark.parametrize("solver", HARD)
@pytest.mark.parametrize("size", [1.7e308, 1e307, 1e-300, 1e-308, 5e-324])
def test_rows_at_the_ends_of_float64(solver, size):
    X, y = apart()
    X = np.where(X > 0, size, -size) if size == 1.7e308 else X * size
    try:
        result = sm.train((X, y), solver=solver, C=np.inf)
    except DataError as error:
        assert "multiply the data" in str(error) or 'scale="maxabs"' in str(error)
        return
    w, seen = result.model.coef_[0], result.certificate
    assert np.isfinite(w).all()
    unit = np.abs(X).max()
    margin = np.min(y * ((X / unit) @ (w / np.abs(w).max()))) / np.linalg.norm(w / np.abs(w).max()) * unit
    assert seen["margin_lower"] == pytest.approx(margin, rel=1e-9) and margin <= seen["margin_upper"] * (1 + 1e-12)


@pytest.mark.parametrize("solver", HARD)
def test_a_separator_that_is_known_rules_out_that_there_is_none(solver):
    X, y = apart()
    X[0] *= 1e-12  # its margin is far below tol times the mean norm
    result = sm.train((X, y), solver=solver, C=np.inf)
    assert result.certificate["mistakes"] == 0 and result.certificate["margin_lower"] > 0
    assert result.reason in ("separated" if solver == "perceptron" else "tolerance", "passes")


@pytest.mark.parametrize("solver", ["sdca", "asdca"])
@pytest.mark.parametrize("size, target", [(1e-155, 1.0), (1e-160, 1.0), (1.0, 1e155), (1e-100, 1e60), (1.0, 1.7e308)])
def test_numbers_that_cannot_be_interpolated_in_float64(solver, size, target):
    rng = np.random.default_rng(0)
    A, targets = rng.standard_normal((10, 30)), rng.uniform(-1, 1, 10)
    with pytest.raises(DataError, match="multiply the data"):
        sm.train((A * size, targets * target), solver=solver, loss="interpolate", passes=100)


@pytest.mark.parametrize(
    "solver", ["diagonal", "inertial-diagonal", "homotopic", "active-set", "dual-momentum", "sdca"]
)
def test_converged_speaks_of_the_weights_that_are_returned(solver):
    """Each class is certified in a pass of its own, and keeps the weights that it had then."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        y = np.arange(60) % 3
        X = rng.standard_normal((60, 8)) * 0.6 + np.eye(8)[y] * np.array([12, 5, 3])[:, None][y]
        for tol in (0.1, 0.02):
            result = sm.train((X, y), solver=solver, C=np.inf, tol=tol)
            for k, figures in enumerate(result.certificate["per_class"]):
                assert not result.converged or figures["margin_gap"] <= tol
                w = result.model.coef_[k]
                margin = np.min(np.where(y == k, 1, -1) * (X @ w)) / np.linalg.norm(w)
                assert figures["margin_lower"] == pytest.approx(margin, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("scale, size", [("std", 1e300), ("maxabs", 1e-323)])
def test_columns_that_cannot_be_scaled(scale, size):
    X, y = apart()
    with pytest.raises(DataError, match="column 0"):
        sm.train((X * size, y), scale=scale)


@pytest.mark.parametrize("solver", HARD)
@pytest.mark.parametrize(
    "X, y",
    [
        ([[3.0, 4.0]] * 4, [1, 0, 1, 0]),
        ([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]], [1, 1, 0, 0]),
        ([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [2.0, 1.0]], [1, 0, 1, 0]),
        ([[0.0, 0.0]] * 4, [1, 0, 1, 0]),
    ],
)
def test_rows_that_pull_nowhere(solver, X, y):
    """Weights may stay 0 for good: the bound alone says that nothing separates the rows."""
    result = sm.train((np.array(X), y), solver=solver, C=np.inf)
    assert result.reason in NO_SEPARATOR and not result.converged


@pytest.mark.parametrize(
    "solver", ["active-set", "auto", "dual-momentum", "diagonal", "inertial-diagonal", "homotopic"]
)
def test_a_margin_far_below_the_length_of_the_rows(solver):
    """Before there are weights, a bound below tol times the mean norm is no reason to give up."""
    result = sm.train((np.array([[1.0, 2000.0], [-1.0, 2000.0]]), [1, -1]), solver=solver, C=np.inf)
    assert result.reason in ("tolerance", "passes") and result.certificate["margin_lower"] > 0
