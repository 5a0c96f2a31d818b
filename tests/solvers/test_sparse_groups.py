"""Sparse groups to six digits of an interior-point method, from memory and from files, and what is 0 in them."""

import numpy as np
import pytest
from conftest import write_h5
from reference.datasets import as_form, noisy
from reference.sources import CountingSource

import streammargin as sm
from streammargin.verification.verify import verify

conic = pytest.importorskip("reference.conic", reason="the interior-point method is clarabel's", exc_type=ImportError)

GROUPS = np.array([3, 3, 0, 7, 0, 7, 7, 3, 9])  # one of a single column; 1, 2, ... have none
X, Y = noisy(60, 9, seed=5)
NUMBERS = X @ np.array([3.0, 0.0, 0.0, 1.0, 0.0, 0.0, -2.0, 0.0, 0.0]) + Y
PHI = {
    "hinge": lambda u: np.maximum(0.0, 1.0 - u), "logistic": lambda u: np.logaddexp(0.0, -u),
    "squared_error": lambda u: u * u / 2.0,
}  # fmt: skip


def value(w, r):
    """R(w) by its definition."""
    return r * np.abs(w).sum() + (1 - r) * sum(
        np.sqrt(np.sum(g == GROUPS)) * np.linalg.norm(w[g == GROUPS]) for g in np.unique(GROUPS)
    )


@pytest.mark.parametrize("bias", ["free", 0.0])
@pytest.mark.parametrize("loss", PHI)
@pytest.mark.parametrize("solver, form, place", [
    ("prox-newton", "dense", "memory"), ("prox-newton", "csr", "file"), ("pdprox", "dense", "file"),
    ("pdprox", "csr", "memory"), ("pdprox", "dense", "blocks"), ("prox-newton", "dense", "blocks"),
])  # fmt: skip
def test_six_digits_of_the_interior_point_solution(solver, form, place, loss, bias, tmp_path):
    labels, r, C = NUMBERS if loss == "squared_error" else Y, 0.3, 0.25
    best, w, b = conic.solve(
        X, labels, np.full(60, C), "sparse_group", loss, r=r, groups=GROUPS, constant=float(bias == "free")
    )
    rows = as_form(X, form, np.float64)
    data = {
        "file": lambda: write_h5(tmp_path / "rows.h5", rows, labels), "memory": lambda: (rows, labels),
        "blocks": lambda: CountingSource(X, labels, (0, 25, 60)),
    }[place]()  # fmt: skip
    result = sm.train(
        data, solver=solver, loss=loss, penalty=sm.penalties.SparseGroup(GROUPS, r), C=C, bias=bias, tol=1e-7,
        passes=50000,
    )  # fmt: skip
    figures, model = result.certificate, result.model
    assert result.converged and best * (1 - 1e-6) <= figures.primal <= best * (1 + 1e-6)
    assert figures.primal * (1 - 1e-7) <= figures.dual <= best * (1 + 1e-7)
    scores = X @ model.coef_[0] + model.intercept_[0]
    u = scores - labels if loss == "squared_error" else labels * scores
    assert value(model.coef_[0], r) + C * PHI[loss](u).sum() == pytest.approx(figures.primal, rel=1e-12)
    np.testing.assert_allclose([*model.coef_[0], model.intercept_[0]], [*w, b], atol=2e-3)
    path = str(tmp_path / "model.npz")
    model.save(path)
    assert np.array_equal(sm.load_model(path).coef_, model.coef_)
    if place == "file":
        assert all(check.agrees is not False for check in verify(path, data))


def test_few_groups_and_few_columns_of_each():
    ways = {"loss": "squared_error", "C": 0.05, "tol": 1e-9, "penalty": sm.penalties.SparseGroup(GROUPS, 0.6)}
    result = sm.train((X, NUMBERS), **ways)
    w = result.model.coef_[0]
    lengths = np.array([np.linalg.norm(w[g == GROUPS]) for g in np.unique(GROUPS)])
    assert result.model.header["solver"] == "newton" and 0 < np.sum(lengths == 0.0) < 4
    assert np.any(w[lengths[np.searchsorted(np.unique(GROUPS), GROUPS)] > 0.0] == 0.0)  # within a group that is not 0
    assert set(result.run_end["zeros"]) == set(np.flatnonzero(w == 0.0))


@pytest.mark.parametrize("r, other", [(0.0, sm.penalties.Group(GROUPS)), (1.0, "l1")])
def test_its_ends_are_groups_and_l1(r, other):
    trained = [sm.train((X, Y), penalty=one, C=0.2).model for one in (sm.penalties.SparseGroup(GROUPS, r), other)]
    assert np.array_equal(trained[0].coef_, trained[1].coef_)


def test_a_path_begins_where_the_first_weight_leaves_0():
    result = sm.train(
        (X, Y), penalty=sm.penalties.SparseGroup(GROUPS), loss="logistic", C="path:4", valid=(X, Y), tol=1e-6,
        solver="pdprox", passes=20000,
    )  # fmt: skip
    nonzeros = [line["nonzeros"] for line in result.run_end["trials"]]
    assert result.converged and nonzeros[0] <= 1 and nonzeros[-1] > 4


@pytest.mark.parametrize("solver, options", [("sdca", {"bias": 1}), ("pegasos", {"bias": 1}), ("auto", {"C": np.inf})])
def test_those_that_do_not_serve_it_name_its_word(solver, options):
    with pytest.raises(sm.UsageError, match='penalty="sparse_group"'):
        sm.train((X, Y), solver=solver, penalty=sm.penalties.SparseGroup(GROUPS), **options)
