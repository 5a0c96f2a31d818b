"""MarginClassifier.partial_fit: one batch after another, as scikit-learn's users expect it."""

import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5
from reference.datasets import noisy, separable

import streammargin as sm

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError

SOLVERS = ("perceptron", "mirror", "pegasos")


def batches(X, y, size=25):
    return [(X[start : start + size], y[start : start + size]) for start in range(0, len(y), size)]


@pytest.fixture
def three():
    """X (100, 6), y (100,) text of three classes, all of them among the first rows."""
    X, _ = noisy(100, 6)
    return X, np.array(["down", "rare", "up"])[np.arange(100) % 3]


@pytest.mark.parametrize("options", [
    {"solver": "perceptron"},
    {"solver": "perceptron:average", "penalty": "lp:1.3", "fit_intercept": False},
    {"solver": "mirror", "penalty": "lp:sparse", "bias": 3.0},
    {"solver": sm.solvers.Mirror(average=True)},
    {"solver": "pegasos", "C": 0.1, "class_weight": {"rare": 4.0}},
    {"solver": "pegasos:average"},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
def test_batches_are_learned_as_a_stream_of_them(three, form, options):
    X, y = three
    parts = [(form(a), b) for a, b in batches(X, y)]
    model = sm.MarginClassifier(**options)
    for a, b in parts:
        assert model.partial_fit(a, b) is model
    plain = dict(options)
    bias = plain.pop("bias", 1.0) if plain.pop("fit_intercept", True) else 0
    stream = sm.train(iter(parts), bias=bias, **plain)
    assert model.coef_.tobytes() == stream.model.coef_.tobytes()
    assert model.intercept_.tobytes() == stream.model.intercept_.tobytes()
    assert model.certificate_ == stream.certificate
    np.testing.assert_array_equal(model.predict(X), stream.model.predict(X))


def test_sample_weights_of_batches():
    X, y = separable(60, 5)
    weight = np.random.default_rng(0).choice([0.0, 0.5, 3.0], 60)
    model = sm.MarginClassifier(solver="pegasos", fit_intercept=False)
    model.partial_fit(X[:30], y[:30], sample_weight=weight[:30]).partial_fit(X[30:], y[30:], None, weight[30:])
    stream = sm.train(iter([(X[:30], y[:30], weight[:30]), (X[30:], y[30:], weight[30:])]), solver="pegasos", bias=0)
    np.testing.assert_array_equal(model.coef_, stream.model.coef_)
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        model.partial_fit(X, y, sample_weight=-weight - 1)


def test_attributes(three):
    X, y = three
    model = sm.MarginClassifier(solver="perceptron")
    with pytest.raises(NotFittedError):
        model.predict(X)
    for k, (a, b) in enumerate(batches(X, y), 1):
        model.partial_fit(a, b)
        assert (model.n_iter_, model.t_) == (k, 25 * k)
    assert model.classes_.tolist() == ["down", "rare", "up"] and model.coef_.shape == (3, 6)
    assert model.n_features_in_ == 6 and model.certificate_["gap"] is None
    assert 0 <= model.certificate_["margin_upper"] < math.inf


@pytest.mark.parametrize("solver", SOLVERS)
def test_pickle_and_clone_between_batches(three, solver, tmp_path):
    X, y = three
    straight, travelled = (sm.MarginClassifier(solver=f"{solver}:average") for _ in range(2))
    for a, b in batches(X, y):
        straight.partial_fit(a, b)
        travelled = pickle.loads(pickle.dumps(travelled.partial_fit(a, b)))
    np.testing.assert_array_equal(travelled.coef_, straight.coef_)
    fresh = clone(straight)
    assert fresh.get_params() == straight.get_params() and not hasattr(fresh, "coef_")
    a, b = batches(X, y)[0]
    first = sm.MarginClassifier(solver=f"{solver}:average").partial_fit(a, b)
    np.testing.assert_array_equal(fresh.partial_fit(a, b).coef_, first.coef_)
    straight.save(tmp_path / "m.npz")
    np.testing.assert_array_equal(sm.load_model(tmp_path / "m.npz").predict(X), straight.predict(X))


@pytest.mark.parametrize("solver", SOLVERS)
def test_nothing_of_a_batch_stays(solver):
    X, y = noisy(1000)
    sizes = [len(pickle.dumps(sm.MarginClassifier(solver=solver).partial_fit(X[:m], y[:m]))) for m in (10, 1000)]
    assert abs(sizes[1] - sizes[0]) < 100


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", SOLVERS)
def test_fit_starts_afresh_and_so_does_the_batch_after_it(solver):
    X, y = separable(60, 5)
    options = {"solver": solver, "passes": 20}
    plain = sm.MarginClassifier(**options).fit(X, y)
    model = sm.MarginClassifier(**options).partial_fit(X[:, :3], y == 1)
    np.testing.assert_array_equal(model.fit(X, y).coef_, plain.coef_)
    assert model.n_iter_ == plain.n_iter_
    batch = sm.MarginClassifier(**options).partial_fit(X[:20], y[:20])
    np.testing.assert_array_equal(model.partial_fit(X[:20], y[:20]).coef_, batch.coef_)
    assert model.n_iter_ == 1 and model.t_ == 20


def test_labels_that_were_not_named(three):
    X, y = three
    late = np.where(np.arange(100) == 60, "late", y)
    model = sm.MarginClassifier(solver="perceptron").partial_fit(X[:50], late[:50])
    before = model.coef_.copy()
    with pytest.raises(sm.DataError, match=r"batch 1: row 10 has the label late.*down, rare, up.*classes="):
        model.partial_fit(X[50:], late[50:])
    np.testing.assert_array_equal(model.coef_, before)
    model.partial_fit(X[50:60], late[50:60])  # goes on as if that batch had never come
    assert model.t_ == 60
    named = sm.MarginClassifier(solver="perceptron")
    named.partial_fit(X[:50], late[:50], classes=np.unique(late)).partial_fit(X[50:], late[50:])
    assert named.classes_.tolist() == ["down", "late", "rare", "up"] and named.coef_.shape == (4, 6)
    named.partial_fit(X, late, classes=["up", "rare", "late", "down"])
    with pytest.raises(ValueError, match=r"classes are \['down', 'up'\].*first call"):
        named.partial_fit(X, late, classes=["up", "down"])
    with pytest.raises(sm.DataError, match="only the label up; list all labels"):
        sm.MarginClassifier(solver="mirror").partial_fit(X[y == "up"], y[y == "up"])
    one = sm.MarginClassifier(solver="mirror").partial_fit(X[y == "up"], y[y == "up"], classes=["down", "up"])
    assert one.predict(X[y == "up"]).tolist().count("up") > 17


def test_only_solvers_that_keep_nothing_of_the_rows_have_it(three):
    model = sm.MarginClassifier()
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError) as caught:
        model.partial_fit(*three)
    assert "mirror, pegasos, perceptron" in str(caught.value)
    assert all(hasattr(sm.MarginClassifier(solver=solver), "partial_fit") for solver in SOLVERS)


@pytest.mark.parametrize("options, message", [
    ({"scale": "std"}, "scale"),
    ({"class_weight": "balanced"}, "balanced"),
    ({"C": 1.0}, "maximum margin"),
    ({"penalty": "lp:0.5"}, "the parameter p of lp"),
    ({"multiclass": "joint"}, "joint"),
    ({"solver": "perceptron", "penalty": "l1"}, "l1"),
    ({"bias": -1.0}, "bias"),
], ids=str)  # fmt: skip
def test_parameters_that_need_all_rows(three, options, message):
    model = sm.MarginClassifier(**{"solver": "perceptron", **options})
    with pytest.raises(ValueError, match=message):
        model.partial_fit(*three)
    assert not hasattr(model, "coef_")


def test_bad_batches(three, tmp_path):
    X, y = three
    model = sm.MarginClassifier(solver="mirror").partial_fit(X, y)
    for rows in (X[:, :5], np.where(X[3, 0] == X, np.nan, X), write_h5(tmp_path / "a.h5", X, np.arange(100) % 3)):
        with pytest.raises(ValueError):
            model.partial_fit(rows, y)
    with pytest.raises(ValueError, match="Unknown label type"):
        model.partial_fit(X, X[:, 0])
    assert model.t_ == 100


def test_files_are_for_fit():
    with pytest.raises(sm.UsageError, match="fit reads files"):
        sm.MarginClassifier(solver="perceptron").partial_fit("rows.h5", None)


def test_a_subclass_may_have_parameters_of_its_own():
    class Mine(sm.MarginClassifier):
        def __init__(self, C=1.0, colour="red"):
            super().__init__(C, passes=3, tol=0.5)
            self.colour = colour

    X, y = separable()[:2]
    assert Mine(0.5).fit(X, y).n_iter_ <= 3


def test_saved_models_of_batches_keep_the_names(three, tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = three
    frame = pd.DataFrame(X, columns=[f"gene{k}" for k in range(6)])
    model = sm.MarginClassifier(solver="perceptron").partial_fit(frame[:50], y[:50])
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame[frame.columns[::-1]], y)
    model.partial_fit(frame[50:], y[50:])
    model.save(tmp_path / "m.npz")
    again = sm.load_model(tmp_path / "m.npz")
    assert again.feature_names_in_.tolist() == frame.columns.tolist()
    assert again.predict(frame[frame.columns[::-1]]).tolist() == model.predict(frame).tolist()
