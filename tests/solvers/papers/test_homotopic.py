"""The homotopic method through `train`: bounds, blocks, forms of data, bad data."""

import numpy as np
import pytest
from conftest import slow
from reference.datasets import as_form, noisy, separable
from reference.optimum import solve
from reference.sources import CountingSource
from reference.training import NO_SEPARATOR, binary

import streammargin as sm

WAYS = ["homotopic", "homotopic:average=no", "homotopic:stochastic", "homotopic:average=no,stochastic"]


def intervals(result):
    events = [e for e in result.history if e["event"] == "certificate"]
    assert [e["pass"] for e in events] == list(range(1, result.passes + 1)), "every pass certifies itself"
    return [(e["margin_lower"], e["margin_upper"]) for e in events]


@pytest.mark.parametrize("solver", WAYS)
@pytest.mark.parametrize("bias", [None, 1.0])
def test_intervals_hold_the_maximum_margin(solver, bias):
    X, y = separable(60, 12)
    exact = binary(X, y, C=np.inf, bias=bias)
    margin = exact.margin(solve(exact, "hinge").w)
    result = sm.train((X, y), solver=solver, bias=bias, passes=400)
    found = np.append(result.model.coef_[0], result.model.intercept_ / bias if bias else [])
    assert exact.margin(found) == pytest.approx(result.certificate["margin_lower"], rel=1e-9)
    assert all(lower <= margin * (1 + 1e-7) and upper >= margin * (1 - 1e-7) for lower, upper in intervals(result))
    lower, upper = intervals(result)[-1]
    assert 0.4 * margin < lower and upper < 1.6 * margin, "it is slow, but it gets somewhere"


@pytest.mark.parametrize("solver", WAYS)
def test_a_read_for_each_pass(solver):
    X, y = separable(90, 8)
    source = CountingSource(X, y, [0, 20, 50, 51, 90])
    result = sm.train(source, solver=solver, passes=130)
    assert set(source.reads.values()) == {131}, "the prologue is one read"
    if "stochastic" not in solver:
        whole = sm.train((X, y), solver=solver, passes=130)
        np.testing.assert_allclose(result.model.coef_, whole.model.coef_, rtol=1e-9)
        np.testing.assert_allclose(intervals(result)[1:], intervals(whole)[1:], rtol=1e-9)


@pytest.mark.parametrize("solver", ["homotopic", "homotopic:stochastic"])
@pytest.mark.parametrize("dtype", [slow(np.float32), np.float64])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_forms_of_the_data(form, dtype, solver):
    X, y = separable(200, 12)
    X = X.astype(np.float32)
    given = {"solver": solver, "passes": 8, "bias": 0.5}
    expected = sm.train((as_form(X, form, np.float64), y), **given)
    np.testing.assert_allclose(
        sm.train((as_form(X, form, dtype), y), **given).model.coef_, expected.model.coef_, rtol=1e-9
    )
    if solver == "homotopic":
        np.testing.assert_allclose(sm.train((X, y), **given).model.coef_, expected.model.coef_, rtol=1e-9)


@pytest.mark.parametrize("scale", [2.0**-498, 2.0**498])
@pytest.mark.parametrize("solver", WAYS)
def test_the_scale_of_the_data_does_not_matter(solver, scale):
    """Powers of two near 1e-150 and 1e150: the steps round alike. Of weights with one direction either may be shown."""
    X, y = separable()
    plain = sm.train((X, y), solver=solver, passes=120)
    result = sm.train((X * scale, y), solver=solver, passes=120)
    found, expected = result.model.coef_ * scale, plain.model.coef_
    np.testing.assert_allclose(found / np.linalg.norm(found), expected / np.linalg.norm(expected), rtol=1e-9)
    assert result.certificate["margin_lower"] == pytest.approx(plain.certificate["margin_lower"] * scale, rel=1e-9)
    assert result.certificate["margin_upper"] == pytest.approx(plain.certificate["margin_upper"] * scale, rel=1e-9)


@pytest.mark.parametrize("solver", WAYS)
def test_classes_share_the_passes(solver):
    rng = np.random.default_rng(3)
    y = np.arange(80) % 4
    X = 5 * rng.standard_normal((4, 6))[y] + rng.standard_normal((80, 6))
    result = sm.train((X, y), solver=solver, passes=20)
    for k in range(4):
        alone = sm.train((X, y), solver=solver, passes=20, positive=k)
        upper = result.certificate["per_class"][k]["margin_upper"]
        assert upper == pytest.approx(alone.certificate["margin_upper"], rel=1e-9)
    scores = X @ result.model.coef_.T
    assert result.certificate["mistakes"] == np.sum(scores.argmax(axis=1) != y)
    for k, figures in enumerate(result.certificate["per_class"]):
        margin = np.min(np.where(y == k, 1, -1) * scores[:, k]) / np.linalg.norm(result.model.coef_[k])
        assert figures["margin_lower"] == pytest.approx(margin, rel=1e-9)


def hopeless():
    X, y = separable()
    Xn, yn = noisy(flips=0.2)
    yield "noisy", np.delete(Xn, 20, 0), np.delete(yn, 20), 0.05
    yield "a row of norm 0", Xn, yn, 1e-3
    yield "twins with opposite labels", np.vstack([X, X[:3]]), np.append(y, -y[:3]), 0.1
    yield "all rows equal", np.ones((6, 3)), np.array([1, 1, 1, -1, -1, -1]), 1e-3
    yield "all rows 0", np.zeros((4, 3)), np.array([1, -1, 1, -1]), 1e-3


@pytest.mark.parametrize("solver", WAYS)
@pytest.mark.parametrize(("X", "y", "tol"), [pytest.param(*rest, id=name) for name, *rest in hopeless()])
def test_what_no_hyperplane_separates(solver, X, y, tol):
    result = sm.train((X, y), solver=solver, tol=tol, passes=1000)
    assert result.reason in NO_SEPARATOR and not result.converged
    assert result.certificate["margin_lower"] <= 0 <= result.certificate["margin_upper"]
    assert result.certificate["margin_upper"] <= tol * np.linalg.norm(X, axis=1).mean()
    assert np.isfinite(result.model.coef_).all()


@pytest.mark.parametrize("solver", WAYS)
def test_one_row_a_class(solver):
    X, y = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([0, 1])
    margin = 7 / np.sqrt(17)  # the distance from 0 to the segment between (-1, -2) and (3, -1)
    alone = sm.train((X, y), solver=solver, tol=0.4)
    assert alone.converged
    assert alone.certificate["margin_lower"] <= margin <= alone.certificate["margin_upper"]


def test_stochastic_steps_depend_on_the_seed_alone():
    data = separable(200, 6)
    coefs = [sm.train(data, solver="homotopic:stochastic", passes=3, seed=s).model.coef_ for s in (1, 1, 2)]
    assert np.array_equal(coefs[0], coefs[1]) and not np.array_equal(coefs[0], coefs[2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 1.0}, "maximum margin only"),
        ({"penalty": "lp:1.5"}, "p = 2"),
        ({"loss": "squared_hinge"}, "has its own loss"),
        ({"solver": "homotopic:decay=linear"}, "must be power, log or exponential"),
    ],
)
def test_what_it_does_not_serve(options, message):
    with pytest.raises(sm.UsageError, match=message):
        sm.train(separable(), **{"solver": "homotopic", **options})
