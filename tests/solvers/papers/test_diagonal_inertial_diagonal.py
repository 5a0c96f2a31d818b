"""Diagonal descent through `train`: margins, blocks, forms of data, bad data."""

import numpy as np
import pytest
from conftest import slow
from reference.datasets import as_form, noisy, separable
from reference.diagonal import toy, unsigned
from reference.optimum import solve
from reference.training import NO_SEPARATOR, binary

import streammargin as sm

SOLVERS = ["diagonal", "inertial-diagonal"]


def intervals(result):
    events = [e for e in result.history if e["event"] == "certificate"]
    assert [e["pass"] for e in events] == list(range(1, result.passes + 1)), "every pass certifies itself"
    return [(e["margin_lower"], e["margin_upper"]) for e in events]


@pytest.mark.parametrize("bias", [None, 1.0])
def test_the_exact_maximum_margin(bias):
    X, y = separable()
    exact = binary(X, y, C=np.inf, bias=bias)
    w = solve(exact, "hinge").w
    margin = exact.margin(w)
    result = sm.train((X, y), solver="inertial-diagonal", tol=1e-6, bias=bias)
    assert result.converged and result.passes < 1000
    assert all(lower <= margin * (1 + 1e-7) and upper >= margin * (1 - 1e-7) for lower, upper in intervals(result))
    found = np.append(result.model.coef_[0], result.model.intercept_ / bias if bias else [])
    assert exact.margin(found) == pytest.approx(result.certificate["margin_lower"], rel=1e-12)
    assert exact.margin(found) == pytest.approx(margin, rel=1.1e-6)
    np.testing.assert_allclose(found / np.min(exact.A @ found), w, rtol=0, atol=5e-3 * np.linalg.norm(w))


@pytest.mark.parametrize("fields", ["", ":1,decay=log", ":1,decay=sqrt", ":4,decay=linear", ":1,decay=square", ":1"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_toy_set_of_the_papers(solver, fields):
    X, y = unsigned(toy(80))
    result = sm.train((X, y), solver=solver + fields, passes=1000)
    assert result.converged
    w = result.model.coef_[0]
    np.testing.assert_allclose(w / np.min(y * (X @ w)), [0.5, 0.5], atol=0.01)
    assert result.certificate["margin_lower"] <= np.sqrt(2) * (1 + 1e-12)
    assert result.certificate["margin_upper"] >= np.sqrt(2) * (1 - 1e-12)
    assert result.certificate["primal"] == pytest.approx(0.25, rel=3e-3)


@pytest.mark.parametrize("dtype", [slow(np.float32), np.float64])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_forms_of_the_data(form, dtype):
    X, y = separable()
    X = X.astype(np.float32)
    expected = sm.train((X.astype(float), y), solver="inertial-diagonal", tol=1e-4, bias=0.5)
    result = sm.train((as_form(X, form, dtype), y), solver="inertial-diagonal", tol=1e-4, bias=0.5)
    assert result.passes == expected.passes and result.converged
    np.testing.assert_allclose(result.model.coef_, expected.model.coef_, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1e150])
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_scale_of_the_data_does_not_matter(solver, scale):
    X, y = separable()
    plain = sm.train((X, y), solver=solver, tol=1e-2)
    result = sm.train((X * scale, y), solver=solver, tol=1e-2)
    assert result.converged
    np.testing.assert_allclose(result.model.coef_ * scale, plain.model.coef_, rtol=0.05, atol=0.01)
    assert result.certificate["margin_lower"] == pytest.approx(plain.certificate["margin_lower"] * scale, rel=1e-2)


def test_classes_share_the_passes():
    rng = np.random.default_rng(3)
    y = np.arange(80) % 4
    X = 5 * rng.standard_normal((4, 6))[y] + rng.standard_normal((80, 6))
    result = sm.train((X, y), solver="inertial-diagonal", passes=30, tol=1e-9)
    for k in range(4):
        alone = sm.train((X, y), solver="inertial-diagonal", passes=30, tol=1e-9, positive=k)
        upper = result.certificate["per_class"][k]["margin_upper"]
        assert upper == pytest.approx(alone.certificate["margin_upper"], rel=1e-9)
    scores = X @ result.model.coef_.T
    assert result.certificate["mistakes"] == np.sum(scores.argmax(axis=1) != y)
    for k, figures in enumerate(result.certificate["per_class"]):
        a = np.where(y == k, 1, -1) * scores[:, k]
        margin = a.min() / np.linalg.norm(result.model.coef_[k])
        assert figures["margin_lower"] == pytest.approx(margin, rel=1e-9)
        assert figures["mistakes"] == np.sum(a <= 0)


def hopeless():
    X, y = separable()
    Xn, yn = noisy(flips=0.2)
    yield "noisy", np.delete(Xn, 20, 0), np.delete(yn, 20), 0.01
    yield "a row of norm 0", Xn, yn, 1e-3
    yield "twins with opposite labels", np.vstack([X, X[:3]]), np.append(y, -y[:3]), 0.05
    yield "all rows equal", np.ones((6, 3)), np.array([1, 1, 1, -1, -1, -1]), 1e-3
    yield "all rows 0", np.zeros((4, 3)), np.array([1, -1, 1, -1]), 1e-3


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("X", "y", "tol"), [pytest.param(*rest, id=name) for name, *rest in hopeless()])
def test_what_no_hyperplane_separates(solver, X, y, tol):
    result = sm.train((X, y), solver=solver, tol=tol, passes=2000)
    assert result.reason in NO_SEPARATOR and not result.converged
    assert result.certificate["margin_lower"] <= 0 <= result.certificate["margin_upper"]
    assert result.certificate["margin_upper"] <= tol * np.linalg.norm(X, axis=1).mean()
    assert np.isfinite(result.model.coef_).all()


def test_the_bound_falls_at_least_like_one_over_t_on_hopeless_data():
    X, y = noisy(flips=0.2)
    X, y = np.delete(X, 20, 0), np.delete(y, 20)
    uppers = [upper for _, upper in intervals(sm.train((X, y), solver="diagonal", tol=0.0, passes=640))]
    assert uppers[639] <= uppers[79] / 8 * 1.5


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_row_a_class(solver):
    X, y = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([0, 1])
    # the widest margin of a_1 = (-1, -2), a_2 = (3, -1) is that of the point between them nearest to 0
    margin = 7 / np.sqrt(17)
    alone = sm.train((X, y), solver=solver, tol=1e-9)
    assert alone.certificate["margin_lower"] == pytest.approx(margin, rel=1e-8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 1.0}, "maximum margin only"),
        ({"penalty": "lp:1.5"}, "p = 2"),
        ({"loss": "logistic"}, "has its own loss"),
        ({"average": True}, "there is no average here; give solver="),
    ],
)
@pytest.mark.parametrize("solver", SOLVERS)
def test_what_it_does_not_serve(solver, options, message):
    with pytest.raises(sm.UsageError, match=message):
        sm.train(separable(), solver=solver, **options)


@pytest.mark.parametrize("solver", [*SOLVERS, "homotopic"])
def test_rows_among_the_smallest_numbers_there_are_are_refused(solver):
    X, y = separable()
    with pytest.raises(sm.DataError, match=r"largest row has the norm .*e-309"):
        sm.train((X * 1e-310, y), solver=solver, passes=20)
