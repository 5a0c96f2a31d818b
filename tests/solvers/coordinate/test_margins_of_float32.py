"""Rows of float32 that a plane separates: at a large C the rounding of margins is no loss that keeps the gap open."""

import numpy as np
import pytest
import scipy.sparse as sp

import streammargin as sm
from streammargin.solvers.coordinate import coupled
from streammargin.solvers.proof import sweep

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 300)).astype(np.float32)
TWO, FOUR = RNG.integers(0, 2, 60), RNG.integers(0, 4, 60)
WEIGHTS = RNG.uniform(0.5, 2.0, 60)


def objective(model, rows, labels, C, weights, joint):
    """The objective of saved weights in float64, and the least margin."""
    W, b = model.coef_.astype(np.float64), model.intercept_
    scores = rows.astype(np.float64) @ W.T + b
    codes = np.searchsorted(np.unique(labels), labels)
    if joint:
        own = scores[np.arange(len(codes)), codes]
        scores[np.arange(len(codes)), codes] = -np.inf
        margins = (own - scores.max(axis=1))[:, None]
    else:
        signs = np.where(codes[:, None] == (np.arange(len(W)) if len(W) > 1 else [1]), 1.0, -1.0)
        margins = signs * scores
    losses = (C * weights[:, None] * np.maximum(0.0, 1.0 - margins)).sum()
    return 0.5 * (np.square(W).sum() + np.square(b).sum()) + losses, margins.min()


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("labels, options", [
    (TWO, {}), (TWO, {"solver": "sdca"}), (TWO, {"solver": "asdca"}), (TWO, {"solver": "ascent:order=uniform"}),
    (TWO, {"sample_weight": WEIGHTS}), (FOUR, {}), (FOUR, {"multiclass": "joint", "solver": "ascent"}),
    (FOUR, {"multiclass": "joint", "solver": "ascent", "sample_weight": WEIGHTS}),
])  # fmt: skip
@pytest.mark.parametrize("C", [1e4, 1e6])
def test_the_gap_closes_and_the_figures_are_those_of_the_weights_that_are_saved(form, labels, options, C):
    result = sm.train((form(X), labels), loss="hinge", C=C, bias=1.0, passes=200, **options)
    assert result.converged and result.passes < 100 and result.certificate.mistakes == 0
    weights = options.get("sample_weight", np.ones(60))
    primal, least = objective(result.model, X, labels, C, weights, "multiclass" in options)
    assert result.certificate.primal == pytest.approx(primal, rel=1e-9) and least > 1.0 - 1e-9
    wide = X.astype(np.float64)
    twin = sm.train((wide, labels), loss="hinge", C=1e3, bias=1.0, tol=1e-4, **options)  # at any C the same margin
    assert result.certificate.dual <= twin.certificate.primal * (1.0 + 1e-9)
    assert result.certificate.primal == pytest.approx(twin.certificate.primal, rel=1.2e-3)


@pytest.mark.parametrize(
    "options", [{}, {"solver": "asdca"}, {"loss": "hinge", "multiclass": "joint", "solver": "ascent"}]
)
def test_no_bit_changes_without_need(options, monkeypatch):
    labels = FOUR if "multiclass" in options else TWO
    found = sm.train((X, labels), C=1.0, **options)
    for module in (sweep, coupled):
        monkeypatch.setattr(module, "missed_by_rounding", lambda least, columns: False)
    plain = sm.train((X, labels), C=1.0, **options)
    assert plain.converged
    np.testing.assert_array_equal(found.model.coef_, plain.model.coef_)
    stuck = sm.train((X, labels), C=1e9, passes=100, **options)
    assert not stuck.converged and stuck.reason == "passes"
