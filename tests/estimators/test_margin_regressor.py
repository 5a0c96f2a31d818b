"""MarginRegressor as scikit-learn's users meet it."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5

import streammargin as sm

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import GridSearchCV


@pytest.fixture
def data():
    """X (60, 8), y (60,), of which three columns matter."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 8))
    return X, X[:, 0] - 2.0 * X[:, 3] + 0.7 * X[:, 6] + 0.2 * rng.standard_normal(60) + 5.0


def test_it_is_what_train_finds(data):
    X, y = data
    for options in ({}, {"loss": "quantile:0.9", "penalty": "l1"}, {"loss": "absolute_error", "C": 3.0}):
        model = sm.MarginRegressor(tol=1e-4, passes=5000, **options).fit(X, y)
        other = sm.train((X, y), tol=1e-4, passes=5000, **{"loss": "squared_error", **options}).model
        assert np.array_equal(model.coef_, other.coef_[0]) and model.intercept_ == other.intercept_[0]
        assert model.coef_.shape == (8,) and isinstance(model.intercept_, float) and model.n_iter_ > 1
        assert model.certificate_.converged and model.certificate_.mistakes is None
    assert sm.MarginRegressor(fit_intercept=False).fit(X, y).intercept_ == 0.0
    assert sm.MarginRegressor(0.5).C == 0.5


def test_a_quantile_leaves_its_share_below():
    X, y = load_diabetes(return_X_y=True)
    for C in (1.0, 100.0):
        model = sm.MarginRegressor(loss="quantile:0.9", C=C).fit(X, y)
        assert np.mean(y <= model.predict(X)) == pytest.approx(0.9, abs=0.01)
    rng = np.random.default_rng(0)
    far = 1e5 + rng.standard_normal(len(y))
    assert np.mean(far <= sm.MarginRegressor(loss="quantile:0.9").fit(X, far).predict(X)) >= 0.89
    model = sm.MarginRegressor(loss="absolute_error").fit(X, far)
    assert np.abs(far - model.predict(X)).mean() == pytest.approx(np.abs(far - np.median(far)).mean(), rel=0.02)


def test_losses_of_classes_are_for_the_other_estimator(data):
    X, y = data
    with pytest.raises(
        ValueError, match="MarginRegressor needs a loss for numbers; use MarginClassifier with loss hinge"
    ):
        sm.MarginRegressor(loss="hinge").fit(X, y)
    for loss in ("squared_error", "interpolate"):
        message = f"MarginClassifier needs a loss for classes; use MarginRegressor with loss {loss}"
        with pytest.raises(ValueError, match=message):
            sm.MarginClassifier(loss=loss).fit(X, y > 5)
    with pytest.raises(ValueError, match="quantile must be a number between 0 and 1"):
        sm.MarginRegressor(loss="quantile:1.5").fit(X, y)


def test_files_and_models(data, tmp_path):
    X, y = data
    path = write_h5(tmp_path / "rows.h5", X, y)
    arrays, files = (sm.MarginRegressor(tol=1e-9).fit(*given) for given in ((X, y), (path,)))
    assert np.array_equal(arrays.coef_, files.coef_)
    assert files.score(path) == pytest.approx(arrays.score(X, y))
    files.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(sm.load_model(tmp_path / "model.npz").predict(X), arrays.predict(X))
    with pytest.raises(ValueError, match="takes no sample_weight"):
        files.score(path, sample_weight=np.ones(60))


def test_columns_are_selected_and_searched(data):
    X, y = data
    sparse = sm.MarginRegressor(penalty="l1", C=0.1, tol=1e-5, passes=5000)
    chosen = SelectFromModel(sparse, threshold=1e-8).fit(X, y)
    assert np.flatnonzero(chosen.get_support()).tolist() == [0, 3, 6]
    search = GridSearchCV(clone(sparse), {"C": [1e-4, 0.1]}, cv=3).fit(X, y)
    assert search.best_params_ == {"C": 0.1} and search.best_score_ > 0.9


@pytest.mark.parametrize("kind", [sm.MarginRegressor, sm.MarginClassifier])
def test_sparse_weights_predict_the_same(data, kind):
    X, y = data
    labels = y if kind is sm.MarginRegressor else np.digitize(y, [4.0, 6.0])
    model = kind(penalty="l1", C=0.1, tol=1e-4, passes=5000).fit(X, labels)
    before, shape = model.predict(X), model.coef_.shape
    assert model.sparsify() is model and sp.issparse(model.coef_) and model.coef_.nnz < 8 * (model.coef_.shape[0])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), before)
    model.sparsify()
    np.testing.assert_array_equal(model.densify().predict(X), before)
    assert model.coef_.shape == shape
    model.sparsify().fit(X, labels)
    assert isinstance(model.coef_, np.ndarray)


def test_targets_with_several_columns(data):
    pandas = pytest.importorskip("pandas")
    X, y = data
    Y = np.column_stack([y, 3.0 * X[:, 1] - 1.0, X[:, 2] + y])
    model = sm.MarginRegressor(tol=1e-6).fit(X, Y)
    assert model.coef_.shape == (3, 8) and model.intercept_.shape == (3,) and model.predict(X).shape == (60, 3)
    for k in range(3):
        one = sm.MarginRegressor(tol=1e-6).fit(X, Y[:, k])
        np.testing.assert_allclose(model.predict(X)[:, k], one.predict(X), rtol=1e-9)
    assert model.score(X, Y) == pytest.approx(np.mean([one.score(X, Y[:, 2]), *[
        sm.MarginRegressor(tol=1e-6).fit(X, Y[:, k]).score(X, Y[:, k]) for k in range(2)]]))  # fmt: skip
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model.sparsify())).predict(X), model.densify().predict(X))
    one = sm.MarginRegressor().fit(X, Y[:, :1])  # as scikit-learn takes it
    assert one.coef_.shape == (1, 8) and one.intercept_.shape == (1,) and one.predict(X).shape == (60, 1)
    named = sm.MarginRegressor().fit(X, pandas.DataFrame(Y, columns=["a", "b", "c"]))
    assert named._header["outputs"] == ["a", "b", "c"]
    held = sm.MarginRegressor(early_stop=3, loss="huber").fit(X, Y)
    assert held.certificate_.valid_error is not None
    with pytest.raises(ValueError, match="1d array"):
        sm.InterpolatingRegressor().fit(X, Y)
