"""The active set: certified margins against the interior-point optimum, reads, the fallback, bad data."""

from functools import cache

import numpy as np
import pytest
from conftest import slow
from reference.datasets import as_form, separable
from reference.optimum import solve
from reference.sources import CountingSource
from reference.training import binary

import streammargin as sm
from streammargin.solvers.margin import active_set, small_problem


def train(data, tol=1e-9, **options):
    return sm.train(data, solver="active-set", tol=tol, **options)


@cache
def largest(bias=None):
    """The rows, and the largest margin between a feasible point and a bound, both of the interior-point method."""
    X, y = separable(200, 12, seed=2)
    X = X + 0.2 if bias else X
    problem = binary(X, y, C=np.inf, bias=bias)
    exact = solve(problem, "hinge")
    return X, y, problem, problem.margin(exact.w), problem.margin_bound(exact.alpha)


def check(result, problem, low, high, w, rel=1e-8):
    figures = result.certificate
    assert result.converged and result.reason == "tolerance"
    assert figures["margin_lower"] == pytest.approx(problem.margin(w), rel=1e-10)
    assert figures["margin_lower"] <= high * (1 + 1e-12)
    assert figures["margin_upper"] >= low * (1 - 1e-12)
    assert figures["margin_lower"] >= low * (1 - rel)
    assert figures["margin_upper"] <= high * (1 + rel)


@pytest.fixture
def few(monkeypatch):
    """Passes that add a few rows only, so that small sets take several."""
    monkeypatch.setattr(small_problem, "SIDE", 4)


@pytest.mark.parametrize("bias", [None, 1.5])
@pytest.mark.parametrize("dtype", [slow(np.float32), np.float64])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_the_maximum_margin(few, form, dtype, bias):
    X, y, problem, low, high = largest(bias)
    if dtype == np.float32:
        X = X.astype(np.float32)
        problem = binary(X, y, C=np.inf, bias=bias)
        exact = solve(problem, "hinge")
        low, high = problem.margin(exact.w), problem.margin_bound(exact.alpha)
    result = train((as_form(X, form, dtype), y), bias=bias)
    w = result.model.coef_[0]
    check(result, problem, low, high, w if bias is None else np.append(w, result.model.intercept_[0] / bias))
    assert result.passes > 3


def test_every_pass_is_its_certificate_and_blocks_change_no_answer(few):
    X, y, problem, low, high = largest()
    for form in ("dense", "csr"):
        whole = train((as_form(X, form), y))
        source = CountingSource(as_form(X, form), y, (0, 7, 90, 91, 200))
        cut = train(source)
        assert set(source.reads.values()) == {cut.passes} and cut.passes <= 12
        for result in (whole, cut):
            check(result, problem, low, high, result.model.coef_[0])
            events = [e["event"] for e in result.history if e["event"] in ("pass_end", "certificate")]
            assert events == ["pass_end", "certificate"] * result.passes
        # the first rows are drawn without regard to the blocks: the same path, up to ties
        assert cut.passes == whole.passes
        np.testing.assert_allclose(cut.model.coef_, whole.model.coef_, rtol=1e-6)


def test_upper_bounds_fall_and_hold_at_every_pass(few):
    X, y, _, low, _ = largest()
    uppers = [e["margin_upper"] for e in train((X, y)).history if e["event"] == "certificate"]
    assert all(upper >= low * (1 - 1e-12) for upper in uppers)
    assert uppers == sorted(uppers, reverse=True) and uppers[0] > 1.01 * low


def test_few_reads_of_many_rows():
    rng = np.random.default_rng(0)
    direction = np.ones(30) / np.sqrt(30)
    X = rng.standard_normal((6000, 30))
    y = np.where(rng.random(6000) < 0.5, -1, 1)
    X += 5.0 * y[:, None] * direction  # clouds that are apart: few support vectors
    keep = y * (X @ direction) > 1.0
    X, y = X[keep], y[keep]
    result = train((X, y), tol=1e-6)
    assert result.converged and result.passes <= 10
    margin = np.min(y * (X @ result.model.coef_[0])) / np.linalg.norm(result.model.coef_[0])
    assert result.certificate["margin_lower"] == pytest.approx(margin, rel=1e-12)
    reference = sm.train((X, y), solver="sdca", C=np.inf, tol=1e-4, passes=20_000).certificate
    assert reference["margin_lower"] <= result.certificate["margin_upper"] * (1 + 1e-12)
    assert result.certificate["margin_lower"] <= reference["margin_upper"] * (1 + 1e-12)


@pytest.mark.parametrize("what", ["limit", "entries", "work"])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_where_the_support_is_too_large_coordinate_ascent_goes_on(few, monkeypatch, form, what):
    small = {
        "limit": {"LIMIT": 8},
        "entries": {"ENTRIES": 100},
        "work": {"LIMIT": 160, "GRAM_WORK_PASSES": 0, "FEW_COLUMNS": 0},
    }[what]
    for name, value in small.items():
        monkeypatch.setattr(small_problem, name, value)
    handed = []
    original = active_set.ascend

    def noted(problem, before, watch):
        after = original(problem, before, watch)
        handed.append(after.alpha[0].copy())
        w = binary(X, y, C=np.inf).A.T @ handed[0]
        np.testing.assert_allclose(after.theta[0, :-1], w, atol=1e-10 * max(1.0, np.abs(w).max()))
        return after

    monkeypatch.setattr(active_set, "ascend", noted)
    X, y, problem, low, high = largest()
    source = CountingSource(as_form(X, form), y, (0, 120, 200))
    result = train(source, tol=1e-4, passes=20_000)
    assert len(handed) == 1 and (handed[0] >= 0).all()
    if what == "limit":
        assert handed[0].any()  # it starts where the active set stood
    check(result, problem, low, high, result.model.coef_[0], rel=1.01e-4)


def test_repeated_rows_change_nothing(few):
    X, y, problem, low, high = largest()
    result = train((np.repeat(X, 3, axis=0), np.repeat(y, 3)))
    check(result, problem, low, high, result.model.coef_[0])


def test_a_tolerance_of_zero_is_one():
    X, y, _, _, _ = largest()
    result = train((X, y), tol=0.0, passes=12)
    assert result.certificate["margin_gap"] < 1e-8


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rows, features", [(20_000, 20), (20_000, 50)])
def test_a_support_of_full_rank_takes_a_handful_of_reads(rows, features, seed):
    """As many support vectors as features: rows that come in lie next to the span of those that are there."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(features)
    w /= np.linalg.norm(w)
    X = rng.standard_normal((rows, features))
    y = np.where(X @ w > 0, 1, -1)
    X += 0.3 * y[:, None] * w
    result = train((X, y), tol=1e-6)
    assert result.converged and result.passes <= 10
    v = result.model.coef_[0]
    assert np.min(y * (X @ v)) / np.linalg.norm(v) == pytest.approx(result.certificate["margin_lower"], rel=1e-10)
    # the certificate's other half, from the rows at the margin alone
    margins = y * (X @ v)
    near = np.flatnonzero(margins < margins.min() * (1 + 1e-7))
    exact = solve(binary(X[near], y[near], C=np.inf), "hinge")
    assert result.certificate["margin_upper"] >= binary(X[near], y[near], C=np.inf).margin(exact.w) * (1 - 1e-7)


def test_a_small_budget_still_has_room_for_small_problems():
    X, y, problem, low, high = largest()
    plain, small = (train((X, y), tol=1e-8, memory=memory) for memory in ("1G", "1M"))
    check(small, problem, low, high, small.model.coef_[0])
    assert small.passes <= 3 * plain.passes


@pytest.mark.parametrize("tol", [0.1, 1e-3, 1e-6])
def test_few_columns_are_solved_whatever_the_tolerance(tol):
    """Rows on a lattice, many at the margin: no support has more rows than columns, so that none is too large."""
    rng = np.random.default_rng(0)
    X = rng.integers(-1, 2, size=(4000, 60)).astype(float)
    scores = X @ np.ones(60)
    X, y = X[np.abs(scores) >= 1], (scores[np.abs(scores) >= 1] > 0).astype(int)
    result = train((X, y), tol=tol)
    assert result.converged and result.passes <= 10
    assert result.certificate["margin_lower"] >= 1 / np.sqrt(60) * (1 - tol)  # that of the weights all 1
