"""Data that are hard, or hopeless, and options that do not fit: a clear answer or a clear error."""

import numpy as np
import pytest
from conftest import slow
from reference.datasets import as_form, separable
from reference.training import NO_SEPARATOR

import streammargin as sm
from streammargin.errors import DataError, UsageError

METHODS = ("dual-momentum", "normalized-gd", "gd", "batch-perceptron")
FORMS = ("dense", "csr")


def not_separable(name):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5))
    y = np.where(X[:, 0] > 0, 1, -1)
    if name == "noise":
        return X, rng.permutation(y)
    if name == "one pair":
        X[1], y[1] = X[0], -y[0]
        return X, y
    if name == "all twice":
        return np.vstack([X, X]), np.append(y, -y)
    if name == "all equal":
        return np.ones((40, 5)), y
    if name == "a zero row":
        X[7] = 0
        return X, y
    assert name == "all zero"
    return 0 * X, y


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
@pytest.mark.parametrize("name", ["noise", "one pair", "all twice", "all equal", "a zero row", "all zero"])
def test_no_separator(name, loss, form):
    X, y = not_separable(name)
    result = sm.train((as_form(X, form), y), solver="dual-momentum", loss=loss, tol=0.02, passes=2000)
    certificate = result.certificate
    assert result.reason in NO_SEPARATOR and not result.converged
    assert not certificate["margin_lower"] > 0
    assert 0 <= certificate["margin_upper"] < 0.02 * max(np.linalg.norm(X, axis=1).mean(), 1e-300)
    assert certificate["primal"] == np.inf
    assert certificate["mistakes"] == np.sum(result.model.predict(X) != y) > 0
    assert np.all(np.isfinite(result.model.coef_))


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize("name", ["all twice", "all equal", "a zero row", "all zero"])
def test_no_separator_for_the_others(solver, name):
    X, y = not_separable(name)
    result = sm.train((X, y), solver=solver, tol=0.1, passes=3000)
    assert result.reason in NO_SEPARATOR and not result.converged
    assert np.all(np.isfinite(result.model.coef_))


@pytest.mark.parametrize("multiclass", ["ovr", "joint"])
@pytest.mark.parametrize("name", ["noise", "all equal", "a zero row", "all zero"])
def test_no_separator_of_several_classes(name, multiclass):
    X, _ = not_separable(name)
    y = np.arange(len(X)) % 3
    result = sm.train((X, y), solver="dual-momentum", multiclass=multiclass, tol=0.05, passes=2000)
    assert result.reason in NO_SEPARATOR and not result.converged
    assert result.certificate["mistakes"] == np.sum(result.model.predict(X) != y) > 0


@pytest.mark.parametrize("tol", [0.0, 1e-3])
def test_a_zero_row_is_a_proof_at_any_tolerance(tol):
    X, y = not_separable("a zero row")
    result = sm.train((X, y), solver="dual-momentum", tol=tol)
    assert (result.reason, result.passes) == ("not_separable", 1)


@pytest.mark.parametrize("solver", METHODS)
def test_one_row_of_each_class(solver):
    X, y = np.array([[3.0, 4.0], [0.0, 0.0]]), [0, 1]
    X[1] = -X[0]
    result = sm.train((X, y), solver=solver)
    assert result.converged and result.passes == 1
    assert result.certificate["margin_lower"] == pytest.approx(5.0)
    assert result.model.coef_[0] == pytest.approx([-0.6, -0.8])


def test_one_row_of_each_of_several_classes():
    for multiclass, margin in (("joint", np.sqrt(2)), ("ovr", 1 / np.sqrt(3))):
        result = sm.train((np.eye(3), [0, 1, 2]), solver="dual-momentum", multiclass=multiclass, tol=1e-4, passes=9000)
        assert result.converged
        # joint: U = I - 1/3 (all ones) has the differences 1 and the length sqrt 2: a margin of 1/sqrt 2
        margin = 1 / np.sqrt(2) if multiclass == "joint" else margin
        assert result.certificate["margin_lower"] == pytest.approx(margin, rel=1e-4)
        assert list(result.model.predict(np.eye(3))) == [0, 1, 2]


@pytest.mark.parametrize("size", [1e-150, 1e-30, 1e30, 1e150])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("solver, options", [(s, {}) for s in METHODS] + [("dual-momentum", {"loss": "logistic"})])
def test_huge_and_tiny_scales_give_the_same_answer(solver, options, form, size):
    X, y = separable()
    small = sm.train((size * as_form(X, form), y), solver=solver, passes=25, tol=1e-9, **options)
    usual = sm.train((X, y), solver=solver, passes=25, tol=1e-9, **options)
    assert small.model.coef_ == pytest.approx(usual.model.coef_, rel=1e-7, abs=1e-9)
    for key in ("margin_lower", "margin_upper"):
        assert small.certificate[key] == pytest.approx(size * usual.certificate[key], rel=1e-8, abs=0)
    assert small.certificate["mistakes"] == usual.certificate["mistakes"]


@pytest.mark.parametrize("size", [1e-35, 1e35])
@pytest.mark.parametrize("form", ["dense", slow("csr")])
def test_scales_at_the_end_of_float32(form, size):
    X, y = separable()
    small = sm.train((as_form(size * X, form, np.float32), y), solver="dual-momentum", passes=25, tol=1e-9)
    usual = sm.train((X, y), solver="dual-momentum", passes=25, tol=1e-9)
    assert small.certificate["margin_lower"] == pytest.approx(size * usual.certificate["margin_lower"], rel=1e-3, abs=0)


@pytest.mark.parametrize("size", [1e-250, 1e250])
def test_scales_beyond_computing_are_an_error(size):
    X, y = separable()
    with pytest.raises(DataError, match="norm"):
        sm.train((size * X, y), solver="dual-momentum")


def test_rows_of_very_different_lengths():
    X, y = separable()
    X = X * np.logspace(-12, 12, len(X))[:, None]
    result = sm.train((X, y), solver="dual-momentum", passes=300)
    certificate = result.certificate
    assert np.isfinite(certificate["margin_upper"]) and certificate["margin_lower"] <= certificate["margin_upper"]


@pytest.mark.parametrize(
    "solver, options, message",
    [
        ("dual-momentum", {"penalty": "lp:1.5"}, 'p = 2 only, not 1.5; use solver="asdca" and C=math.inf$'),
        ("batch-perceptron", {"penalty": "lp:sparse"}, 'p = 2 only.*; use solver="asdca" and C=math.inf$'),
        ("dual-momentum", {"C": 1.0}, 'use solver="newton", or leave out C$'),
        ("gd", {"loss": "hinge"}, r"which hinge lacks \(these have it: exponential, logistic\); use solver="),
        ("dual-momentum", {"loss": "squared_hinge"}, "which squared_hinge lacks .these have it: exponential, logistic"),
        ("batch-perceptron", {"loss": "logistic"}, 'has its own loss; use solver="dual-momentum"$'),
        ("dual-momentum:average", {}, "dual-momentum has no parameter 'average'; dual-momentum has no parameters"),
        (
            "sdca",
            {"loss": "exponential"},
            "needs the method step of a loss, which exponential lacks .these have it: .*, hinge, ",
        ),
    ],
)
def test_options_that_do_not_fit(solver, options, message):
    with pytest.raises(UsageError, match=message):
        sm.train(separable(), solver=solver, **options)
