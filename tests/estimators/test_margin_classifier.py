"""MarginClassifier as scikit-learn's users meet it."""

import logging
import math
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from conftest import HANGS, write_h5

import streammargin as sm

pytest.importorskip("sklearn")

from reference.datasets import noisy
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils import compute_sample_weight, estimator_checks

TIGHT = {"tol": 1e-12, "passes": 5000}
# if the loss curves, a gap g leaves the weights sqrt(g) away: only its last bit makes two fits agree to
# seven digits. Some checks feed ill-conditioned data, on which `passes` bounds the time.
EXACT = {"tol": 0, "passes": 500, "C": 0.01}
EQUIVALENCE = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("check", EQUIVALENCE)
@pytest.mark.parametrize(
    "options",
    [
        {"loss": "smooth_hinge:0.5", **EXACT},
        {"fit_intercept": False, "penalty": "lp:1.5", **TIGHT},
        {"class_weight": "balanced", "scale": "std", **TIGHT},
        {"C": math.inf, "tol": 1e-11, "passes": 5000},
    ],
    ids=["smooth_hinge", "norm", "balanced-scaled", "hard"],
)
def test_weights_are_repetitions(options, check):
    getattr(estimator_checks, check)("MarginClassifier", sm.MarginClassifier(**options))


@pytest.fixture
def three(blobs):
    """X (200, 10) float64, y (200,) text of three classes, one of them rare."""
    X, y = blobs
    names = np.where(y > 0, "up", np.where(X[:, 0] < -1.5, "rare", "down"))
    return X.astype(np.float64), names


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "ours, theirs",
    [
        ({"C": 0.05}, {"C": 0.05}),
        ({"fit_intercept": False}, {"fit_intercept": False}),
        ({"bias": 3.0}, {"intercept_scaling": 3.0}),
        ({"loss": "squared_hinge"}, {"loss": "squared_hinge"}),
    ],
    ids=lambda options: next(iter(options)),
)
def test_optimum_is_that_of_liblinear(three, ours, theirs, weighted):
    X, y = three
    weight = np.random.default_rng(1).random(len(y)) * 2 if weighted else None
    model = sm.MarginClassifier(**{"loss": "hinge", "C": 0.2, "tol": 1e-9, "passes": 20000, **ours}).fit(X, y, weight)
    peer = liblinear(**theirs).fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, np.broadcast_to(peer.intercept_, 3), atol=1e-4)


def liblinear(**options):
    return LinearSVC(**{"C": 0.2, "loss": "hinge", "tol": 1e-8, "max_iter": 100000, "random_state": 0, **options})


@pytest.mark.parametrize("class_weight", ["balanced", {"down": 1.0, "rare": 5.0, "up": 0.5}], ids=str)
def test_class_weights_multiply_the_weights_of_rows(three, class_weight):
    X, y = three
    # liblinear itself would leave the rest, in one against the rest, at weight 1
    peer = liblinear().fit(X, y, compute_sample_weight(class_weight, y))
    model = sm.MarginClassifier(loss="hinge", C=0.2, tol=1e-9, passes=20000, class_weight=class_weight).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-4)


def test_attributes_of_two_classes(blobs):
    X, y = blobs
    model = sm.MarginClassifier().fit(X, y)
    assert model.coef_.shape == (1, 10) and model.intercept_.shape == (1,)
    assert model.coef_.dtype == model.intercept_.dtype == np.float64
    assert model.classes_.tolist() == [-1, 1] and model.classes_.dtype == y.dtype
    assert isinstance(model.n_iter_, int) and 1 <= model.n_iter_ < 1000
    assert model.n_features_in_ == 10 and not hasattr(model, "feature_names_in_")
    assert model.certificate_["converged"] and model.certificate_["gap"] <= 1e-3
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, X @ model.coef_[0] + model.intercept_[0], atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), np.where(scores > 0, 1, -1))
    assert model.score(X, y) == np.mean(model.predict(X) == y)


def test_several_classes_are_one_against_the_rest(three):
    X, y = three
    model = sm.MarginClassifier(loss="hinge", tol=1e-6, passes=20000).fit(X, y)
    assert model.classes_.tolist() == ["down", "rare", "up"]
    assert model.coef_.shape == (3, 10) and model.intercept_.shape == (3,)
    scores = model.decision_function(X)
    assert scores.shape == (200, 3)
    np.testing.assert_array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])
    alone = sm.MarginClassifier(tol=1e-6, passes=20000).fit(X, y == "rare")
    np.testing.assert_allclose(scores[:, 1], alone.decision_function(X), atol=2e-2)


def test_no_intercept(blobs):
    X, y = blobs
    assert sm.MarginClassifier(fit_intercept=False).fit(X + 1, y).intercept_.tolist() == [0.0]
    assert abs(sm.MarginClassifier().fit(X + 1, y).intercept_[0]) > 0.01


def test_pipeline_passes_weights_on(blobs):
    X, y = blobs
    weight = np.where(y > 0, 100.0, 1.0)
    plain = make_pipeline(StandardScaler(), sm.MarginClassifier()).fit(X, y)
    heavy = clone(plain).fit(X, y, marginclassifier__sample_weight=weight)
    assert plain.score(X, y) > 0.85
    assert np.mean(heavy.predict(X) == 1) > np.mean(plain.predict(X) == 1)


def test_grid_search_and_cross_validation(three):
    X, y = three
    search = GridSearchCV(sm.MarginClassifier(), {"C": [1e-7, 1.0], "loss": ["hinge", "logistic"]}, cv=3).fit(X, y)
    assert search.best_params_["C"] == 1.0  # the tiny C knows the largest class only
    assert search.best_estimator_.C == 1.0 and search.score(X, y) > 0.8
    scores = cross_val_score(sm.MarginClassifier(scale="std"), X, y, cv=3)
    assert scores.shape == (3,) and scores.min() > 0.7


def test_clone_and_pickle(three, tmp_path):
    X, y = three
    model = sm.MarginClassifier(C=0.3, loss="squared_hinge", class_weight={"up": 2.0}).fit(X, y)
    fresh = clone(model)
    assert fresh.get_params() == model.get_params() and not hasattr(fresh, "coef_")
    again = pickle.loads(pickle.dumps(model))
    assert again.certificate_ == model.certificate_
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    again.save(tmp_path / "m.npz")  # with the loss it was trained with, for evaluate
    saved = sm.load_model(tmp_path / "m.npz")
    assert saved.header["loss"] == "squared_hinge"
    np.testing.assert_array_equal(saved.predict(X), model.predict(X))
    with pytest.raises(sm.OutputError):
        again.save(tmp_path / "m.npz")


def test_seeds(blobs):
    fits = [
        sm.MarginClassifier(random_state=seed, solver="sdca").fit(*blobs).coef_
        for seed in (3, np.int64(3), 4, np.random.RandomState(3), np.random.RandomState(3), None)
    ]
    np.testing.assert_array_equal(fits[0], fits[1])
    np.testing.assert_array_equal(fits[3], fits[4])
    assert np.any(fits[0] != fits[2])


FORMS = {
    "fortran": np.asfortranarray,
    "list": np.ndarray.tolist,
    "float32": np.float32,
    "csr": sp.csr_matrix,
    "csr_array": sp.csr_array,
    "csc": sp.csc_matrix,
    "coo": sp.coo_array,
    "lil": sp.lil_matrix,
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_rows(sparse_blobs, form):
    X, y = sparse_blobs
    X = X.toarray().astype(np.float64)
    plain = sm.MarginClassifier(**TIGHT).fit(X, y)
    other = sm.MarginClassifier(**TIGHT).fit(FORMS[form](X), y)
    np.testing.assert_allclose(other.coef_, plain.coef_, atol=1e-4)
    np.testing.assert_allclose(plain.decision_function(FORMS[form](X)), plain.decision_function(X), atol=1e-5)
    np.testing.assert_array_equal(plain.predict(FORMS[form](X)), plain.predict(X))
    assert plain.score(FORMS[form](X), y) == plain.score(X, y)


def test_data_frames_bring_names(blobs, blobs_file):
    pd = pytest.importorskip("pandas")
    X, y = blobs
    frame = pd.DataFrame(X, columns=[f"gene{k}" for k in range(10)])
    model = sm.MarginClassifier().fit(frame, pd.Series(y))
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    np.testing.assert_array_equal(model.coef_, sm.MarginClassifier().fit(X, y).coef_)
    assert model.score(frame, y) > 0.85
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])
    model.fit(blobs_file)  # which names no columns
    assert not hasattr(model, "feature_names_in_")
    assert model.score(X, y) > 0.85


@pytest.mark.parametrize("form", ["blobs", "sparse_blobs"])
def test_files_are_streamed(form, request, tmp_path):
    X, y = request.getfixturevalue(form)
    names = np.where(y > 0, "tumour", "normal")
    path = Path(write_h5(tmp_path / "a.h5", X, names.astype("S")))
    model = sm.MarginClassifier(**TIGHT).fit(path)
    arrays = sm.MarginClassifier(**TIGHT).fit(X, names)
    assert model.classes_.tolist() == ["normal", "tumour"] and model.n_features_in_ == 10
    np.testing.assert_allclose(model.coef_, arrays.coef_, atol=1e-4)
    for data in (str(path), path, X):
        np.testing.assert_array_equal(model.predict(data), arrays.predict(X))
        np.testing.assert_allclose(model.decision_function(data), arrays.decision_function(X), atol=1e-3)
        assert model.score(data, None if data is not X else names) == arrays.score(X, names)
    halves = [
        write_h5(tmp_path / f"{k}.h5", X[rows], names[rows].astype("S"))
        for k, rows in enumerate((slice(0, 90), slice(90, 200)))
    ]
    np.testing.assert_allclose(sm.MarginClassifier(**TIGHT).fit(halves).coef_, arrays.coef_, atol=1e-4)
    np.testing.assert_array_equal(model.predict(halves), arrays.predict(X))


def test_labels_and_weights_beside_a_file(blobs, tmp_path):
    X, y = blobs
    weight = np.where(y > 0, 9.0, 0.5)
    path = write_h5(tmp_path / "a.h5", X, other=y, w=weight)
    arrays = sm.MarginClassifier(**TIGHT).fit(X, y, weight)
    for labels, weights in (("other", "w"), (y, weight), (y, "w")):
        model = sm.MarginClassifier(**TIGHT).fit(path, labels, weights)
        np.testing.assert_allclose(model.coef_, arrays.coef_, atol=1e-4)
        assert model.score(path, labels) == arrays.score(X, y)
    with pytest.raises(ValueError, match="sample_weight"):
        model.score(path, y, weight)


def test_classes_that_are_never_predicted_are_logged(caplog):
    y = np.where(np.arange(200) % 40, 0, 1)
    with caplog.at_level(logging.WARNING, "streammargin"):
        sm.MarginClassifier(C=0.01).fit(np.random.default_rng(0).standard_normal((200, 3)), y)
    (record,) = caplog.records
    assert record.code == "never_predicted"
    assert record.getMessage().startswith('never predicted: 1 class (1); try class_weight="balanced" or a larger C')


@pytest.mark.parametrize(
    "options, advice",
    [
        ({"passes": 1, "tol": 1e-9, "solver": "sdca"}, "not converged: stopped after 1 pass.*raise passes or tol"),
        ({"max_seconds": 1e-9, "tol": 1e-9, "solver": "sdca"}, "raise max_seconds"),
        ({"C": math.inf}, "finite C"),
    ],
)
def test_warns_unless_converged(blobs, options, advice):
    X, y = blobs
    y = np.where(np.arange(200) % 10, y, -y)  # not separable
    with pytest.warns(ConvergenceWarning, match=advice) as caught:
        model = sm.MarginClassifier(**options).fit(X, y)
    assert caught[0].filename == __file__  # names the caller's line
    assert not model.certificate_["converged"]
    assert model.predict(X).shape == (200,)  # usable all the same
    if options.get("passes") == 1:
        assert model.n_iter_ == 1


@pytest.mark.parametrize(
    "options, message",
    [
        ({"C": 0}, "C must be positive"),
        ({"C": -1.0}, "C must be positive"),
        ({"C": math.nan}, "C must be positive"),
        ({"loss": "hing"}, "hing.*hinge, .*squared_hinge"),
        ({"solver": "sdac"}, "sdac.*sdca"),
        ({"loss": "logistic", "C": math.inf}, "C = inf"),
        ({"penalty": "lp:3"}, "the parameter p of lp"),
        ({"tol": -1}, "tol"),
        ({"passes": 0}, "passes"),
        ({"bias": -1.0}, "bias"),
        ({"scale": "minmax"}, "scale"),
        ({"class_weight": "balance"}, "class_weight"),
        ({"class_weight": {7: 1.0}}, "no label 7"),
        ({"random_state": -1}, "seed"),
    ],
    ids=str,
)
def test_bad_parameters_are_named_by_fit(blobs, options, message):
    model = sm.MarginClassifier(**options)  # as in all of scikit-learn, only fit complains
    with pytest.raises(ValueError, match=message):
        model.fit(*blobs)
    assert not hasattr(model, "coef_")


def test_bad_data(blobs, blobs_file, tmp_path):
    X, y = blobs
    model = sm.MarginClassifier()
    with pytest.raises(NotFittedError):
        model.predict(blobs_file)
    with pytest.raises(ValueError, match="one class"):
        model.fit(X, np.ones(200))
    with pytest.raises(ValueError, match="Unknown label type"):
        model.fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        model.fit(X, y, -np.ones(200))
    with pytest.raises(FileNotFoundError, match=r"absent\.h5"):
        model.fit(str(tmp_path / "absent.h5"))
    model.fit(X, y)
    narrow = write_h5(tmp_path / "narrow.h5", X[:, :9], y)
    for data in (narrow, X[:, :9]):
        with pytest.raises(ValueError, match="9 features"):
            model.predict(data)


WITHOUT = """
import sys
sys.modules["sklearn"] = None  # importing it now fails
import streammargin as sm
from streammargin.cli.main import main
path, out = sys.argv[1:]
assert sm.train(path).converged
assert main(["train", path, "-q", "-o", out]) == 0
try:
    sm.MarginClassifier
except ImportError as error:
    print(error)
"""


def test_scikit_learn_is_optional(blobs_file, tmp_path):
    command = [sys.executable, "-c", WITHOUT, blobs_file, str(tmp_path / "m.npz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    assert "pip install 'streammargin[sklearn]'" in done.stdout
    assert (tmp_path / "m.npz").exists()


def test_probabilities_are_there_for_the_logistic_loss_alone(blobs):
    X, y = blobs
    assert not hasattr(sm.MarginClassifier(), "predict_proba")
    with pytest.raises(AttributeError) as error:
        sm.MarginClassifier().predict_proba(X)
    assert "CalibratedClassifierCV" in str(error.value)
    assert not hasattr(sm.MarginClassifier(loss="squared_hinge"), "predict_proba")
    assert not hasattr(sm.MarginRegressor(), "predict_proba")
    for labels in (y, np.where(X[:, 0] > 1, 2, y)):
        model = sm.MarginClassifier(loss="logistic").fit(X, labels)
        found, scores = model.predict_proba(X), model.decision_function(X)
        assert found.shape == (200, len(model.classes_)) and np.allclose(found.sum(axis=1), 1.0)
        if scores.ndim == 1:
            assert np.allclose(found[:, 1], 1.0 / (1.0 + np.exp(-scores)), rtol=1e-12)
        else:
            assert np.allclose(found, np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True), rtol=1e-12)
            scores = model.set_params(multiclass="ovr").fit(X, labels).decision_function(X)
            sigmoids = 1.0 / (1.0 + np.exp(-scores))
            expected = sigmoids / sigmoids.sum(axis=1, keepdims=True)
            assert np.allclose(model.predict_proba(X), expected, rtol=1e-12)


def test_scores_of_other_losses_are_calibrated_by_scikit_learn(blobs):
    calibration = pytest.importorskip("sklearn.calibration")
    X, y = blobs
    model = calibration.CalibratedClassifierCV(sm.MarginClassifier(), cv=3).fit(X, y)
    found = model.predict_proba(X)
    assert found.shape == (200, 2) and ((found[:, 1] > 0.5) == (y > 0)).mean() > 0.7


def test_probabilities_come_by_log_loss_scoring(blobs):
    X, y = blobs
    scores = cross_val_score(sm.MarginClassifier(loss="logistic"), X, y, scoring="neg_log_loss", cv=3)
    assert (scores > np.log(0.5)).all()  # better than a coin


def test_labels_with_several_columns(tmp_path):
    X, y = noisy(80, 6)
    Y = np.column_stack([y > 0, X[:, 1] > 0.2, X[:, 2] * y > 0])
    model = sm.MarginClassifier(loss="logistic").fit(X, Y)
    assert model.coef_.shape == (3, 6) and model.classes_.tolist() == [0, 1]
    assert model.score(X, Y) == pytest.approx((model.predict(X) == Y).all(axis=1).mean())
    for k in range(3):
        one = sm.MarginClassifier(loss="logistic").fit(X, Y[:, k])
        np.testing.assert_allclose(model.decision_function(X)[:, k], one.decision_function(X), rtol=1e-9)
        np.testing.assert_allclose(model.predict_proba(X)[:, k], one.predict_proba(X)[:, 1], rtol=1e-6)
    path = write_h5(tmp_path / "d.h5", X, Y.astype(int))
    of_file = sm.MarginClassifier(loss="logistic").fit(path)
    np.testing.assert_allclose(of_file.coef_, model.coef_, rtol=1e-7)
    assert of_file.score(path) == model.score(X, Y)
    assert sm.MarginClassifier(early_stop=2, loss="logistic").fit(X, Y).certificate_.valid_error is not None
    with pytest.raises(sm.DataError, match="labels of several columns are 0 or 1"):
        sm.MarginClassifier().fit(X, 2 * Y.astype(int))


MISSING = ["a", "b", None, "a", "b", "a"]


def of_polars(kind):
    polars = pytest.importorskip("polars")
    return polars.Series(MISSING, dtype=polars.Enum(["a", "b"]) if kind == "enum" else None)


GAPS = {
    "list": MISSING,
    "object": np.array(MISSING, object),
    "nan": np.array(["a", "b", np.nan, "a", "b", "a"], object),
    "column": np.array(MISSING, object)[:, None],
    "series": pd.Series(MISSING),
    "string": pd.Series(MISSING, dtype="string"),
    "category": pd.Series(MISSING, dtype="category"),
    "booleans": [True, False, None, True, False, True],
    "frame": pd.DataFrame({"p": pd.Series([1, 0, None, 1, 0, 1], dtype="Int64"), "q": [0, 1, 0, 1, 0, 1]}),
}


@pytest.mark.parametrize("kind", [*GAPS, "polars", "enum"])
def test_a_missing_label_is_a_sentence(kind):
    X, y = np.arange(6.0)[:, None], GAPS[kind] if kind in GAPS else of_polars(kind)
    message = "^y: row 2 has no label; drop the row or give it a label$"
    for estimator in (sm.MarginClassifier(), sm.KernelMarginClassifier(), sm.MarginRegressor()):
        with pytest.raises(sm.DataError, match=message):
            estimator.fit(X, y)
    with pytest.raises(sm.DataError, match=message):
        sm.MarginClassifier(solver="perceptron").partial_fit(X, y, ["a", "b"])
    fitted = sm.MarginClassifier().fit(X, ["a", "b", "a", "a", "b", "a"])
    with pytest.raises(sm.DataError, match=message):
        fitted.score(X, y)


@pytest.mark.parametrize("kind", [int, float])
def test_whole_numbers_are_classes_however_many(kind, tmp_path):
    """The command and files refuse them as amounts, by the names of what an estimator has."""
    X, y = np.random.default_rng(0).normal(size=(600, 3)), (np.arange(600) % 120 * 7).astype(kind)
    model = sm.MarginClassifier(passes=2, tol=10.0).fit(X, y)
    np.testing.assert_array_equal(model.classes_, np.arange(120) * 7)
    assert model.classes_.dtype == y.dtype
    write_h5(tmp_path / "a.h5", X, y)
    with pytest.raises(sm.DataError, match=r"amounts, not classes; use a regressor, or write classes as text; for"):
        sm.MarginClassifier().fit(str(tmp_path / "a.h5"))
