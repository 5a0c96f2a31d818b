"""Interior points against HiGHS, and where pdprox sets out for them."""

import numpy as np
import pytest
import scipy.sparse as sp
from reference.datasets import as_form, noisy
from scipy.optimize import linprog

import streammargin as sm
from streammargin.solvers import column_steps, interior
from streammargin.specs.losses import make_loss

C = 2.0


@pytest.mark.parametrize(
    "loss, given, expected",
    [
        ("hinge", {}, (0.0, 1.0, 1.0)),
        ("absolute_error", {}, (-1.0, 2.0, 0.0)),
        ("quantile", {"quantile": 0.3}, (-0.7, 1.0, 0.0)),
        ("epsilon_insensitive", {"epsilon": 0.1}, None),
        ("generalized_hinge", {}, None),
        ("smooth_hinge", {}, None),
        ("squared_hinge", {}, None),
        ("logistic", {}, None),
    ],
)
def test_which_losses_are_linear_but_for_their_kinks(loss, given, expected):
    found = interior.linear(make_loss(loss, **given))
    assert found == (expected if expected is None else pytest.approx(expected))


def program(A, roots, low, span, height):
    """The optimum of the linear program by HiGHS: w = p - q, and the rows' positive parts."""
    n = len(A)
    costs = np.concatenate([roots - A.T @ low, roots + A.T @ low, span])
    found = linprog(costs, np.hstack([-A, A, -np.eye(n)]), -height, method="highs")
    assert found.status == 0
    return found.fun + low @ height


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("bounds", [(0.0, 1.0, 1.0), (-0.3, 1.0, 0.0)], ids=["hinge", "quantile"])
@pytest.mark.parametrize("free", [False, True], ids=["penalised", "with a constant"])
def test_they_find_what_highs_finds(bounds, free, seed):
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
    matrix = columns.indptr[:-1].astype(np.int64), columns.indptr[1:].astype(np.int64), columns.indices, columns.data
    found = interior.approach(bounds, caps, targets, matrix, roots, np.zeros(m), np.zeros(n), 1e-6, m)
    assert found is not None
    w, alpha = found
    low, span = bounds[0] * caps, bounds[1] * caps
    height = np.where(caps > 0.0, bounds[2] + (targets if targets.size else 0.0), 0.0)
    off = height - A @ w
    optimum = program(A, roots, low, span, height)
    assert roots @ np.abs(w) + low @ off + span @ np.maximum(off, 0.0) == pytest.approx(optimum, rel=1e-5, abs=1e-5)
    assert np.all(alpha >= low) and np.all(alpha <= low + span)
    assert np.all(np.abs(A.T @ alpha) <= roots + 1e-3)
    assert alpha @ height == pytest.approx(optimum, rel=1e-3)


def test_there_are_none_where_too_many_columns_matter():
    A = sp.csc_matrix(np.eye(4))
    matrix = A.indptr[:-1].astype(np.int64), A.indptr[1:].astype(np.int64), A.indices, A.data
    few = (np.full(4, 9.0), np.empty(0), matrix, np.ones(4), np.zeros(4), np.full(4, 4.5), 1e-3)
    assert interior.approach((0.0, 1.0, 1.0), *few, 3) is None
    assert interior.approach((0.0, 1.0, 1.0), *few, 4) is not None


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("free", [False, True], ids=["none", "with a constant"])
def test_they_take_the_place_of_many_passes(monkeypatch, form, free):
    X, y = noisy(400, 300, seed=1)
    data = as_form(X * (np.random.default_rng(0).random(X.shape) < 0.3), form), y
    options = {"solver": "pdprox", "penalty": "l1", "C": 50.0, "tol": 1e-4, "bias": 1.0 if free else 0.0, "passes": 500}
    monkeypatch.setattr(column_steps, "OUTER", 0.0)
    some = sm.train(data, **options)
    monkeypatch.setattr(column_steps, "FEW", 0)
    many = sm.train(data, **options)
    assert some.converged and some.passes < many.passes
    assert some.certificate["primal"] == pytest.approx(many.certificate["primal"], rel=1e-3)
