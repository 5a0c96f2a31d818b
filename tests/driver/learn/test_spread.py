"""Means and standard deviations of the columns that models keep, beside NumPy's."""

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5
from reference.stopped import stop_after

import streammargin as sm
from streammargin.driver.learn import ranges


def rows(n=400):
    """Rows of columns of different sizes, of which one is constant and one far from 0, and labels."""
    rng = np.random.default_rng(3)
    X = np.where(rng.random((n, 6)) < 0.4, 0.0, rng.normal(size=(n, 6)) * 10.0 ** np.arange(-2, 4))
    X[:, 2], X[:, 3] = 7.0, X[:, 3] + 1e4
    return X, (X[:, 0] + 0.01 * rng.normal(size=n) > 0.0).astype(int)


def check(model, X, weights=None):
    means, deviations = model.moments
    mean = np.average(X, axis=0, weights=weights)
    np.testing.assert_allclose(means, mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        deviations, np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights)), rtol=1e-6, atol=1e-12
    )


@pytest.mark.parametrize("scale", ["none", "std", "maxabs", "auto"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_they_are_those_of_the_rows_as_stored(form, scale):
    X, y = rows()
    check(sm.train(form(X), y, scale=scale).model, X)


@pytest.mark.parametrize("solver", ["newton", "sdca", "pdprox"])
def test_absent_rows_do_not_count_and_weights_do(solver):
    X, y = rows()
    weights = np.random.default_rng(4).integers(0, 3, len(y)).astype(float)
    X[weights == 0.0] *= 100.0
    check(sm.train(X, y, solver=solver, sample_weight=weights, passes=3).model, X, weights)


def test_out_of_core_they_are_those_of_all_blocks_after_a_resume_too(tmp_path, monkeypatch):
    monkeypatch.setattr(ranges, "SPREAD_VALUES", 1 << 30)
    X = np.random.default_rng(5).normal(size=(60_000, 40)).astype(np.float32) + 3.0
    y = (X[:, 0] > 3.0).astype(int)
    path = write_h5(tmp_path / "a.h5", X, y)
    whole = sm.train(path, memory="20M", passes=2, solver="sdca")
    assert whole.history[0]["plan"]["blocks"] > 1
    check(whole.model, X.astype(float))
    again = {"memory": "20M", "passes": 2, "solver": "sdca", "checkpoint": str(tmp_path / "state")}
    sm.train(path, **again, should_stop=stop_after(2))
    resumed = sm.train(path, **again)
    for found, expected in zip(resumed.model.moments, whole.model.moments, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    resumed.model.save(tmp_path / "m.npz")
    for found, expected in zip(sm.load_model(tmp_path / "m.npz").moments, resumed.model.moments, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_of_many_rows_evenly_spaced_ones_count(monkeypatch):
    X, y = rows(1000)
    monkeypatch.setattr(ranges, "SPREAD_VALUES", 1)
    monkeypatch.setattr(ranges, "OF_SPARSE", 1)
    monkeypatch.setattr(ranges, "LEAST_SPREAD_ROWS", 100)
    for form in (np.asarray, sp.csr_matrix):
        model = sm.train(form(X), y).model
        check(model, X[::10])
        assert model.header["measured_rows"] == 100 and model.header["rows"] == 1000


def test_they_are_left_out_where_they_are_unknown_or_would_take_much(tmp_path):
    X, y = rows()
    assert sm.train(X, y, kernel="rbf", passes=2).model.moments is None
    assert sm.train(X, y, map="rff:8", passes=2).model.moments is None
    assert sm.train(X * 1e200, y, passes=1, solver="perceptron").model.moments is None  # squares overflow
    wide = sp.random_array((50, 200_000), density=1e-4, rng=np.random.default_rng(0), format="csr")
    assert sm.train(wide, np.arange(50) % 2, memory="64M", passes=1).model.moments is None
    assert sm.train(wide, np.arange(50) % 2, memory="1G", passes=1).model.moments is not None


def test_a_pass_that_is_cut_off_tells_none(tmp_path):
    X, y = rows()
    result = sm.train(X, y, solver="sdca", should_stop=lambda: "signal")
    assert result.reason == "signal" and result.model.moments is None
