"""InterpolatingRegressor as scikit-learn's users meet it."""

import pickle

import numpy as np
import pytest

import streammargin as sm

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


@pytest.fixture
def wide():
    """X (20, 40), y (20,)"""
    rng = np.random.default_rng(2)
    return rng.standard_normal((20, 40)), rng.standard_normal(20) + 1.0


@pytest.mark.parametrize("solver", ["sdca", "asdca"])
def test_it_is_the_smallest_interpolator(wide, solver):
    X, y = wide
    model = sm.InterpolatingRegressor(solver=solver, tol=1e-9, passes=10_000).fit(X, y)
    exact = np.linalg.pinv(np.column_stack([X, np.ones(20)])) @ y
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), exact, atol=1e-6)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-6)
    assert model.coef_.shape == (40,) and isinstance(model.intercept_, float)
    assert model.n_features_in_ == 40 and 1 < model.n_iter_ < 10_000
    assert model.certificate_["converged"] and model.certificate_["residual"] < 1e-8
    assert model.score(X, y) == pytest.approx(1.0, abs=1e-9)


def test_options_reach_the_solver(wide):
    X, y = wide
    within = sm.InterpolatingRegressor(epsilon=0.2, fit_intercept=False, penalty="lp:1.5", tol=1e-6).fit(X, y)
    assert within.intercept_ == 0.0
    assert np.max(np.abs(within.predict(X) - y)) == pytest.approx(0.2, abs=1e-4)
    strong = sm.InterpolatingRegressor(bias=4.0, tol=1e-6).fit(X, y)
    plain = sm.InterpolatingRegressor(tol=1e-6).fit(X, y)
    assert abs(strong.intercept_) > abs(plain.intercept_)
    for options, message in (
        ({"epsilon": -1}, "epsilon"),
        ({"solver": "perceptron"}, "sdca"),
        ({"penalty": "lp:3"}, "the parameter p of lp"),
    ):
        with pytest.raises(ValueError, match=message):
            sm.InterpolatingRegressor(**options).fit(X, y)


def test_it_warns_of_a_contradiction():
    X = np.array([[1.0, 2.0], [1.0, 2.0]])
    with pytest.warns(ConvergenceWarning, match=r"raise passes or tol, or allow a larger epsilon") as caught:
        model = sm.InterpolatingRegressor(passes=20).fit(X, [0.0, 1.0])
    assert caught[0].filename == __file__
    assert np.isfinite(model.predict(X)).all()


def test_clone_pickle_save_and_pipeline(wide, tmp_path):
    X, y = wide
    model = sm.InterpolatingRegressor(epsilon=0.1, penalty="lp:1.5").fit(X, y)
    assert clone(model).get_params() == model.get_params()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    model.save(tmp_path / "m.npz")
    saved = sm.load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(saved.predict(X), model.predict(X))
    figures = saved.evaluate((X, y))
    assert figures["largest_error"] == pytest.approx(np.max(np.abs(model.predict(X) - y)))
    assert figures["mean_squared_error"] == pytest.approx(np.mean((model.predict(X) - y) ** 2))
    pipe = make_pipeline(StandardScaler(), sm.InterpolatingRegressor(tol=1e-6)).fit(X, y)
    np.testing.assert_allclose(pipe.predict(X), y, atol=1e-4)
    with pytest.raises(NotFittedError):
        sm.InterpolatingRegressor().predict(X)
