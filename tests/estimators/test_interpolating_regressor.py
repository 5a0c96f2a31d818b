"""InterpolatingRegressor as scikit-learn's users meet it, scikit-learn's own suite included."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5

import streammargin as sm

pytest.importorskip("sklearn")

from reference.suite import suite
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

CONTRADICTION = "its rows outnumber the columns and contradict each other: there is no interpolator to be equal to"
IMPOSSIBLE = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"), CONTRADICTION
)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@suite(sm.InterpolatingRegressor(passes=100), expected_failures=lambda estimator: IMPOSSIBLE)
def test_scikit_learn_suite(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@suite(
    sm.InterpolatingRegressor(passes=100, solver="asdca", epsilon=0.1), expected_failures=lambda estimator: IMPOSSIBLE
)
def test_scikit_learn_suite_with_other_options(estimator, check):
    check(estimator)


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


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.coo_array, np.asfortranarray, np.float32])
def test_forms_of_rows(wide, form):
    X, y = wide
    X = np.where(np.abs(X) > 0.5, X, 0)
    plain = sm.InterpolatingRegressor(tol=1e-8).fit(X, y)
    other = sm.InterpolatingRegressor(tol=1e-8).fit(form(X), y)
    np.testing.assert_allclose(other.coef_, plain.coef_, atol=1e-5)
    np.testing.assert_allclose(plain.predict(form(X)), y, atol=1e-5)


def test_files_are_streamed(wide, tmp_path):
    X, y = wide
    path = write_h5(tmp_path / "a.h5", X, y, other=2 * y, kept=np.arange(20) % 4 > 0)
    arrays = sm.InterpolatingRegressor(tol=1e-8).fit(X, y)
    model = sm.InterpolatingRegressor(tol=1e-8).fit(path)
    np.testing.assert_allclose(model.coef_, arrays.coef_, atol=1e-6)
    np.testing.assert_allclose(model.predict(path), arrays.predict(X), atol=1e-6)
    some = sm.InterpolatingRegressor(tol=1e-8).fit(path, "other", "kept")
    errors = np.abs(some.predict(X) - 2 * y)
    assert errors[1] < 1e-6 < errors[0]
    assert model.score(path) == pytest.approx(arrays.score(X, y))


def test_weight_zero_is_absence(wide):
    X, y = wide
    kept = np.arange(20) % 3 > 0
    model = sm.InterpolatingRegressor(tol=1e-8).fit(X, np.where(kept, y, 1e6), 7.0 * kept)
    other = sm.InterpolatingRegressor(tol=1e-8).fit(X[kept], y[kept])
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-5)


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
