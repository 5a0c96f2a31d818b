"""Interior points against HiGHS, and where pdprox uses them."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from reference.datasets import as_form, noisy
from scipy.optimize import linprog

import streammargin as sm
from streammargin.compiled.column_steps import Columns
from streammargin.losses import terms
from streammargin.solvers.columns import interior
from streammargin.solvers.columns import working_set as column_steps

C = 2.0
STATE = SimpleNamespace(multiplications=0.0)


@pytest.mark.parametrize(
    "loss, expected",
    [
        ("hinge", (0.0, 1.0, 1.0)),
        ("absolute_error", (-1.0, 1.0, 0.0)),
        ("quantile:0.3", (-0.7, 0.3, 0.0)),
        ("epsilon_insensitive:0.1", None),
        ("generalized_hinge", None),
        ("smooth_hinge", None),
        ("squared_hinge", None),
        ("logistic", None),
    ],
)
def test_which_losses_are_linear_but_for_their_kinks(loss, expected):
    found = interior.linear(terms(loss))
    assert found == (expected if expected is None else pytest.approx(expected))


def of_scipy(A):
    return Columns(A.indptr[:-1].astype(np.int64), A.indptr[1:].astype(np.int64), A.indices, A.data)


def program(A, roots, low, span, height):
    """The optimum of the linear program by HiGHS: w = p - q, and the rows' positive parts."""
    n = len(A)
    costs = np.concatenate([roots - A.T @ low, roots + A.T @ low, span])
    found = linprog(costs, np.hstack([-A, A, -np.eye(n)]), -height, method="highs")
    assert found.status == 0
    return found.fun + low @ height


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("bounds", [(0.0, 1.0, 1.0), (-0.3, 0.7, 0.0)], ids=["hinge", "quantile"])
@pytest.mark.parametrize("free", [False, True], ids=["penalised", "with a constant"])
def test_they_find_what_highs_finds(monkeypatch, bounds, free, seed):
    monkeypatch.setattr(interior, "OUTER", 0.0)
    random = np.random.default_rng(seed)
    n, m = 60, 40
    A = random.standard_normal((n, m)) * (random.random((n, m)) < 0.4)
    A[:, -1] = 1.0
    A *= random.choice([-1.0, 1.0], n)[:, None]
    roots = np.append(random.uniform(0.5, 2.0, m - 1), 0.0 if free else 1.0)
    caps = C * random.choice([0.0, 1.0, 1.0, 3.0], n)
    A[caps == 0.0] = 0.0
    targets = random.standard_normal(n) if bounds[2] == 0.0 else np.empty(0)
    columns = sp.csc_matrix(A)
    matrix = of_scipy(columns)
    found = interior.approach(bounds, caps, targets, matrix, roots, np.zeros(m), np.zeros(n), 1e-6, m, STATE)
    assert found is not None
    w, alpha = found
    low, span = bounds[0] * caps, (bounds[1] - bounds[0]) * caps
    height = np.where(caps > 0.0, bounds[2] + (targets if targets.size else 0.0), 0.0)
    off = height - A @ w
    optimum = program(A, roots, low, span, height)
    assert roots @ np.abs(w) + low @ off + span @ np.maximum(off, 0.0) == pytest.approx(optimum, rel=1e-5, abs=1e-5)
    assert np.all(alpha >= low) and np.all(alpha <= bounds[1] * caps)
    assert np.all(np.abs(A.T @ alpha) <= roots + 1e-3)
    assert alpha @ height == pytest.approx(optimum, rel=1e-3)


def test_there_are_none_where_too_many_columns_matter(monkeypatch):
    A = sp.csc_matrix(np.eye(4))
    matrix = of_scipy(A)
    few = (np.full(4, 9.0), np.empty(0), matrix, np.ones(4), np.zeros(4), np.full(4, 4.5), 1e-3)
    assert interior.approach((0.0, 1.0, 1.0), *few, 3, STATE) is None
    monkeypatch.setattr(interior, "OUTER", 0.0)
    assert interior.approach((0.0, 1.0, 1.0), *few, 4, STATE) is not None
    monkeypatch.setattr(interior, "OUTER", 99.0)  # the sum over the rows takes longer than to factor so many
    assert interior.approach((0.0, 1.0, 1.0), *few, 4, STATE) is None


@pytest.mark.parametrize("loss", [{"loss": "absolute_error"}, {"loss": "quantile:0.3"}], ids=str)
def test_weights_of_rows_and_targets(monkeypatch, loss):
    """Rows of weight 2 are two rows, and those of weight 0 are absent."""
    X, y = noisy(90, 40, seed=2)
    targets, weights = X[:, 0] + y + 1.0, np.random.default_rng(5).integers(0, 4, 90).astype(float)
    rows = sp.csr_matrix(X * (np.random.default_rng(0).random(X.shape) < 0.5))
    taken, tried = [], interior.approach
    monkeypatch.setattr(interior, "approach", lambda *given: taken.append(tried(*given)) or taken[-1])
    monkeypatch.setattr(interior, "OUTER", 0.0)
    monkeypatch.setattr(column_steps, "EASY", -1)
    options = {"solver": "pdprox", "penalty": "l1", "C": 3.0, "tol": 1e-6, "bias": 1.0, **loss}
    again = np.repeat(np.arange(90), weights.astype(int))
    one, two = (
        sm.train((rows, targets), sample_weight=weights, **options),
        sm.train((rows[again], targets[again]), **options),
    )
    assert one.converged and two.converged and len(taken) == 2 and all(found is not None for found in taken)
    assert one.certificate["primal"] == pytest.approx(two.certificate["primal"], rel=2e-6)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("free", [False, True], ids=["none", "with a constant"])
def test_they_take_the_place_of_many_passes(monkeypatch, form, free):
    X, y = noisy(400, 300, seed=1)
    data = as_form(X * (np.random.default_rng(0).random(X.shape) < 0.3), form), y
    options = {"solver": "pdprox", "penalty": "l1", "C": 50.0, "tol": 1e-4, "bias": 1.0 if free else 0.0, "passes": 500}
    monkeypatch.setattr(interior, "OUTER", 0.0)
    some = sm.train(data, **options)
    monkeypatch.setattr(column_steps, "FEW", 0)
    many = sm.train(data, **options)
    assert some.converged and some.passes < many.passes
    assert some.certificate["primal"] == pytest.approx(many.certificate["primal"], rel=1e-3)
