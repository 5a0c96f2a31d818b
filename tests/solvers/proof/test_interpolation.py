"""The smallest weights that meet given numbers: against linear algebra, SciPy, and the conditions of optimality."""

import json
import warnings

import numpy as np
import pytest
from conftest import write_h5
from reference.datasets import as_form
from reference.norms import conjugate, exponent, length, mirror
from scipy.optimize import LinearConstraint, minimize

import streammargin as sm
from streammargin.errors import DataError, UsageError
from streammargin.losses import terms

SOLVERS = ("sdca", "asdca")


def numbers(rows=12, features=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features)) * (rng.random((rows, features)) < 0.7)
    return X, rng.standard_normal(rows)


def interpolate(X, y, epsilon=0.0, norm=2, **options):
    given = {"loss": sm.losses.Interpolate(epsilon), "penalty": f"lp:{norm}", "tol": 1e-7, "passes": 50_000}
    return sm.train((X, y), **{**given, **options})


def nearest(X, y, epsilon, p):
    """min 1/2 ||w||_p^2 with |X w - y| <= epsilon by SciPy, which knows nothing of duals here."""

    def value(w):
        return 0.5 * length(w, p) ** 2 if np.any(w) else 0.0

    def slope(w):
        return mirror(w, p)  # the mirror map of the dual norm is the gradient

    start = np.linalg.pinv(X) @ y
    inside = LinearConstraint(X, y - epsilon, y + epsilon)
    found = minimize(
        value, start, jac=slope, constraints=[inside], method="SLSQP", options={"ftol": 1e-15, "maxiter": 2000}
    )
    assert found.status in (0, 8, 9) and np.max(np.abs(X @ found.x - y) - epsilon) <= 1e-7
    return found.x, value(found.x)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("bias", [None, 0.7])
@pytest.mark.parametrize("solver", SOLVERS)
def test_two_norm_is_the_pseudo_inverse(solver, bias, form):
    X, y = numbers()
    A = X if bias is None else np.column_stack([X, np.full(len(X), bias)])
    exact = np.linalg.pinv(A) @ y
    result = interpolate(as_form(X, form), y, solver=solver, bias=bias)
    w = result.model.coef_[0] if bias is None else np.append(result.model.coef_[0], result.model.intercept_[0] / bias)
    np.testing.assert_allclose(w, exact, atol=1e-5)
    check_figures(result, A, y, w, 2.0)
    assert result.certificate["primal"] == pytest.approx(0.5 * exact @ exact, rel=1e-6)


def check_figures(result, A, y, w, p, epsilon=0.0, tol=1e-7):
    """What the certificate says, recomputed; and what converged means."""
    certificate = result.certificate
    assert result.converged and result.reason == "tolerance"
    residual = max(0.0, np.max(np.abs(A @ w - y) - epsilon))
    assert certificate["residual"] == pytest.approx(residual, rel=1e-6, abs=1e-14)
    assert certificate["residual"] <= tol * np.max(np.abs(y))
    assert certificate["primal"] == pytest.approx(0.5 * length(w, p) ** 2, rel=1e-12)
    assert abs(certificate["primal"] - certificate["dual"]) <= tol * max(certificate["primal"], certificate["dual"])
    assert certificate["gap"] is None or residual == 0.0
    for name in ("margin_lower", "margin_upper", "margin_gap", "mistakes", "train_error"):
        assert certificate[name] is None


@pytest.mark.parametrize("norm, atol", [(2, 1e-6), (1.5, 1e-5), (1.2, 1e-4), ("sparse", 1e-4)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, np.linspace(0.05, 0.5, 8)], ids=["0", "0.3", "each"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_norms_and_intervals(solver, epsilon, norm, atol):
    """Optimal means: feasible, w = mirror(X^T alpha), alpha_i > 0 only on the lower edge, < 0 only on the upper."""
    X, y = numbers(8, 14, seed=3)
    X[7] /= 100  # its number lies inside the interval wherever the others pull
    y[7] = 0.1
    p = exponent(norm, 14)
    result = interpolate(X, y, solver=solver, norm=norm, epsilon=epsilon)
    w = result.model.coef_[0]
    check_figures(result, X, y, w, p, epsilon)
    theta = mirror(w, p)  # back to the dual space
    alpha, *_ = np.linalg.lstsq(X.T, theta, rcond=None)
    size = np.abs(theta).max()
    np.testing.assert_allclose(X.T @ alpha, theta, atol=atol * size)
    np.testing.assert_allclose(mirror(theta, conjugate(p)), w, atol=1e-12)
    r = X @ w - y
    if np.any(epsilon):
        inner = np.abs(r) < epsilon - 1e-3
        assert np.all(np.abs(alpha[inner]) <= 100 * atol * np.abs(alpha).max())
        assert np.all(alpha * r <= 100 * atol * np.abs(alpha).max())
        assert inner[7] and not inner.all()
    if norm in (2, 1.5):
        other, value = nearest(X, y, epsilon, p)
        assert result.certificate["dual"] <= value * (1 + 1e-7)
        assert result.certificate["primal"] == pytest.approx(value, rel=1e-5)
        np.testing.assert_allclose(w, other, atol=2e-3)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("norm", [2, 1.5])
def test_distance_to_the_solution_is_at_most_what_the_dual_lacks(norm, solver):
    """Proposition 1: psi(w*) - psi(w) - psi'(w).(w* - w) <= D* - D(alpha), whenever it is stopped."""
    X, y = numbers()
    q = conjugate(float(norm))
    exact = interpolate(X, y, norm=norm, tol=1e-11)
    w_star, best = exact.model.coef_[0], exact.certificate["primal"]
    before = 0.0
    for passes in (1, 2, 4, 8, 16):
        result = interpolate(X, y, norm=norm, solver=solver, passes=passes, tol=0.0)
        w = result.model.coef_[0]
        theta = mirror(w, float(norm))
        distance = best - 0.5 * length(w, float(norm)) ** 2 - theta @ (w_star - w)
        assert -1e-9 <= distance <= (best - result.certificate["dual"]) + 1e-9
        assert result.certificate["dual"] >= before
        np.testing.assert_allclose(mirror(theta, q), w, atol=1e-12)
        before = result.certificate["dual"]
    assert before > 0.5 * best


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_rows_that_contradict_each_other(solver, epsilon):
    X, y = numbers(6, 9)
    X = np.vstack([X, X[2]])
    y = np.append(y, y[2] + 1.0)
    result = interpolate(X, y, solver=solver, epsilon=epsilon, passes=200, tol=1e-3)
    certificate = result.certificate
    assert (result.reason, result.converged) == ("passes", False)
    assert certificate["residual"] >= 0.5 - epsilon - 1e-9  # no point is nearer to both
    assert certificate["gap"] is None and np.isfinite(certificate["dual"]) and np.isfinite(result.model.coef_).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_interval_may_hold_what_points_cannot(solver):
    """Two equal rows with numbers 1 apart meet half way; if epsilon holds 0, the weights are 0."""
    X, y = numbers(6, 9)
    X = np.vstack([X, X[2]])
    y = np.append(y, y[2] + 1.0)
    assert interpolate(X, y, solver=solver, epsilon=0.5, tol=1e-5).converged
    assert interpolate(X, y, solver=solver, epsilon=0.75).converged
    zero = interpolate(X, y, solver=solver, epsilon=10.0)
    assert not zero.model.coef_.any()
    assert zero.certificate["gap"] == 0.0 and zero.certificate["residual"] == 0.0


@pytest.mark.parametrize("solver", SOLVERS)
def test_single_rows(solver):
    one = interpolate(np.array([[3.0, 4.0]]), np.array([10.0]), solver=solver)
    np.testing.assert_allclose(one.model.coef_, [[1.2, 1.6]], rtol=1e-6)
    nought = interpolate(np.zeros((1, 2)), np.array([0.0]), solver=solver)
    assert nought.converged and not nought.model.coef_.any()
    never = interpolate(np.zeros((1, 2)), np.array([1.0]), solver=solver, passes=5)
    assert not never.converged and never.certificate["residual"] == 1.0


@pytest.mark.parametrize("solver", SOLVERS)
def test_scaled_columns_interpolate_as_well(solver):
    X, y = numbers()
    X = X * np.logspace(-3, 3, 20)
    result = interpolate(X, y, solver=solver, scale="maxabs", tol=1e-6)
    np.testing.assert_allclose(X @ result.model.coef_[0], y, atol=1e-5)
    top = np.abs(X).max(axis=0)
    np.testing.assert_allclose(result.model.coef_[0] * top, np.linalg.pinv(X / top) @ y, atol=1e-4)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"C": 1.0}, "leave out C"),
        ({"C": [1.0, np.inf]}, "C"),
        ({"loss": "interpolate:-0.1"}, "epsilon"),
        ({"loss": sm.losses.Interpolate(np.nan)}, "epsilon"),
        ({"loss": "interpolate:inf"}, "epsilon"),
        ({"loss": "interpolate:much"}, "epsilon"),
        ({"class_weight": "balanced"}, "class_weight"),
        ({"positive": 1}, "positive"),
        ({"classes": [1, 2]}, "classes"),
        ({"multiclass": "joint"}, "multiclass"),
        ({"valid": numbers()}, "valid"),
    ],
    ids=str,
)
def test_options_of_classes_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        interpolate(*numbers(), **options)


def test_epsilon_belongs_to_interpolation():
    X, y = numbers()
    with pytest.raises(UsageError, match="epsilon"):
        sm.train((X, y > 0), epsilon=0.1)


def test_labels_must_be_finite_numbers():
    X, y = numbers()
    for bad, message in ((np.nan, "row 3"), (np.inf, "row 3"), ("three", "numbers")):
        labels = y.astype(object)
        labels[3] = bad
        with pytest.raises(DataError, match=message):
            interpolate(X, labels if isinstance(bad, str) else labels.astype(float))
    with pytest.raises(DataError, match="positive weight"):
        interpolate(X, y, sample_weight=np.zeros(12))


def test_several_thousand_different_numbers_are_no_classes():
    X = np.random.default_rng(0).standard_normal((40_000, 2))
    result = interpolate(X, X @ [1.0, -2.0], tol=1e-4)
    np.testing.assert_allclose(result.model.coef_, [[1.0, -2.0]], atol=1e-3)


def test_the_step_is_the_maximum_along_the_row():
    loss = terms("interpolate:0.3")
    rng = np.random.default_rng(0)
    for alpha, u in rng.normal(0, 2, (200, 2)):
        L = rng.uniform(0.1, 3)
        grid = np.append(np.linspace(-12, 12, 20_001), 0.0)
        value = -(grid - alpha) * u - 0.5 * L * (grid - alpha) ** 2 - 0.3 * np.abs(grid)
        new = loss.step(alpha, u, L, np.inf)
        best = -(new - alpha) * u - 0.5 * L * (new - alpha) ** 2 - 0.3 * abs(new)
        assert best >= value.max() - 1e-12
    assert loss.gap(0.5, 0.4, 2.0) == pytest.approx(2.0 * 0.1 + 0.3 * 0.5 + 0.5 * 0.4)


def test_from_the_shell(tmp_path, here):
    X, y = numbers()
    data = write_h5(tmp_path / "a.h5", X, y)
    done = here("train", data, "--loss", "interpolate:0.1", "--tol", "1e-6", "-o", "m.npz", "-v", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "residual" in done.stderr and "mistakes" not in done.stderr
    scores = np.array(here("predict", "m.npz", data, cwd=tmp_path).stdout.split(), float)
    np.testing.assert_allclose(scores, sm.load_model(tmp_path / "m.npz").predict(X))
    assert np.max(np.abs(scores - y)) <= 0.1 + 1e-5
    seen = json.loads(here("evaluate", "m.npz", data, "--json", cwd=tmp_path).stdout)
    assert seen["rows"] == 12
    assert seen["mean_squared_error"] == pytest.approx(np.mean((scores - y) ** 2), rel=1e-9)
    assert seen["largest_error"] == pytest.approx(np.max(np.abs(scores - y)), rel=1e-9)
    assert "largest error" in here("evaluate", "m.npz", data, cwd=tmp_path).stdout
    contradicting = write_h5(tmp_path / "b.h5", np.ones((2, 3)), np.array([0.0, 1.0]))
    done = here("train", contradicting, "--loss", "interpolate", "--passes", "9", "-o", "n.npz", cwd=tmp_path)
    assert done.returncode == 0 and "interpolating weights" in done.stderr
    wrong = here("train", data, "--loss", "interpolate", "-c", "1", "-o", "o.npz", cwd=tmp_path)
    assert wrong.returncode == 2 and "C" in wrong.stderr


def test_no_warning_on_the_way():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        interpolate(*numbers(), norm="sparse", solver="asdca", passes=50)
