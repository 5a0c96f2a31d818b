"""Probabilities learned from held-out scores, beside those of scikit-learn on the same splits."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import PredefinedSplit
from sklearn.svm import SVC, LinearSVC

import streammargin as sm
from streammargin.cli.main import main
from streammargin.driver.learn.validate import BINS, bins_of, middles
from streammargin.errors import UsageError
from streammargin.model.calibration import ARRAYS, COUNTS, SCALE, SIGMOID, isotonic, learned
from streammargin.numpy_model import NumpyModel
from streammargin.verification.verify import verify

random = np.random.default_rng(3)
N = 1500
X = random.normal(size=(N, 4))
Z = X @ [2.0, -1.0, 0.5, 0.0] - 1.0
TWO = (random.random(N) < 1.0 / (1.0 + np.exp(-Z))).astype(int)
THREE = np.array(["low", "middle", "top"])[np.digitize(Z + random.logistic(size=N), [-2.0, 0.5])]
FOLDS = random.integers(0, 5, N)
SQUARED = {"loss": "squared_hinge", "C": 1.0, "tol": 1e-8}
NEW = np.random.default_rng(4).normal(size=(500, 4))


def peer(method, y):
    made = CalibratedClassifierCV(
        LinearSVC(C=1.0, dual=False, tol=1e-9), method=method, cv=PredefinedSplit(FOLDS), ensemble=False
    )
    return made.fit(X, y)


def log_loss(p, y, classes):
    return -np.log(np.clip(p[np.arange(len(y)), np.searchsorted(classes, y)], 1e-15, 1.0)).mean()


@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_probabilities_are_those_of_scikit_learn_on_the_same_splits(method, y):
    model = sm.train((X, y), cv=FOLDS, calibrate=method, **SQUARED).model
    found, wanted = model.predict_proba(NEW), peer(method, y).predict_proba(NEW)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    if method == "sigmoid":
        np.testing.assert_allclose(found, wanted, atol=5e-4)
    else:  # a step may lie in the next bin
        assert np.abs(found - wanted).mean() < 0.01
    ours, theirs = (log_loss(p, y, model.classes_) for p in (model.predict_proba(X), peer(method, y).predict_proba(X)))
    assert abs(ours - theirs) < (1e-4 if method == "sigmoid" else 0.02)
    assert model.calibration[COUNTS].sum(axis=(1, 2)).tolist() == [N] * len(np.atleast_2d(model.coef_))
    assert model.evaluate((X, y))["log_loss"] == pytest.approx(ours)


def test_a_bin_is_a_64th_of_the_distance_from_the_centre():
    scale = np.array([[3.0, 0.5], [-1e-3, 2.0**-9]])
    x = middles(scale)
    assert (np.diff(x) > 0.0).all() and (bins_of(x.T, scale) == np.arange(BINS)[:, None]).all()
    far = np.array([[0.0, 1e-300], [1e300, -1e300], [-0.0, 1.0]])
    assert bins_of(far, np.array([[0.0, 1.0], [0.0, 1.0]])).tolist() == [[2048, 2048], [4095, 0], [2048, 3072]]


def test_counts_lose_next_to_nothing():
    scores = np.concatenate([random.normal(-1.0, 0.02, 30_000), random.normal(0.0, 2.0, 2_000), [1e6, -1e5]])
    y = random.random(len(scores)) < 0.5 + 0.5 * np.tanh(10.0 * (scores + 1.0))
    scale = np.array([[-1.0, 1.0]])
    counts = np.zeros((1, 2, BINS), np.int64)
    np.add.at(counts, (0, y.astype(int), bins_of(scores[:, None], scale)[:, 0]), 1)
    exact = IsotonicRegression(out_of_bounds="clip").fit(scores, y).predict(scores)
    model = learned("isotonic", scale, counts, middles(scale))
    found = np.interp(scores, model["calibration.scores"], model["calibration.probabilities"][0])
    cost = [-np.log(np.clip(np.where(y, p, 1.0 - p), 1e-15, 1.0)).mean() for p in (found, exact)]
    assert 0.0 < cost[0] - cost[1] < 2e-3
    order = np.argsort(scores)
    each = isotonic(np.stack([~y[order], y[order]]).astype(int))  # a bin for each row
    np.testing.assert_allclose(each, exact[order], atol=1e-12)
    for shift in (0.0, 50.0):
        one = learned("sigmoid", scale + [[shift, 0.0]], counts, middles(scale) + shift)[SIGMOID][0]
        known = learned("sigmoid", scale, counts, middles(scale))[SIGMOID][0]
        np.testing.assert_allclose(one, [known[0], known[1] - shift * known[0]], rtol=1e-6)


@pytest.mark.parametrize(
    "at, own", [([-1.0, 1.0], [0, 1]), ([2.0, 2.0], [0, 1]), ([0.0, 0.0], [1, 1]), ([1e-9, 1e9], [1, 0])]
)
def test_a_sigmoid_is_finite_whatever_the_scores(at, own):
    scale, counts = np.array([[0.0, 1.0]]), np.zeros((1, 2, BINS), np.int64)
    np.add.at(counts, (0, own, bins_of(np.array(at)[:, None], scale)[:, 0]), 100)
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(learned("sigmoid", scale, counts, middles(scale))[SIGMOID]).all()


WAYS = {
    "hinge": (TWO, {"loss": "hinge", "C": [0.01, 1.0], "cv": 4}),
    "softmax": (THREE, {"C": 1.0, "cv": 4}),
    "joint hinge": (THREE, {"loss": "hinge", "multiclass": "joint", "C": 1.0, "valid": "30%"}),
    "share": (TWO, {"C": [0.01, 1.0], "valid": 0.3}),
    "path": (TWO, {"C": "path:4,low=0.01,high=1", "valid": (X, TWO)}),
    "hard margin": (X[:, 0] > 0.0, {"C": np.inf, "bias": "midway", "valid": (X, TWO == 1)}),
    "early": (TWO, {"solver": "sdca", "early_stop": 2, "valid": (X, TWO)}),
    "kernel": (THREE, {"kernel": "rbf:0.5", "cv": 3, "C": [0.1, 1.0], "tol": 0.01}),
    "scaled": (TWO, {"scale": "std", "map": "rff:20", "cv": 3, "C": 1.0}),
    "rule": (TWO, {"cv": "4,rule=1se", "C": [0.01, 0.1, 1.0]}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_every_way_to_hold_rows_out(way, method, tmp_path):
    y, options = WAYS[way]
    result = sm.train((X, y), calibrate=method, **options)
    model, path = result.model, tmp_path / "m.npz"
    p = model.predict_proba(NEW)
    held_out = {"share": N / 3, "joint hinge": N / 3}.get(way, N)
    counts = model.calibration[COUNTS]
    assert (abs(counts.sum(axis=(1, 2)) - held_out) <= 1).all() and counts.max() < N / 4
    assert p.shape == (500, len(np.unique(y))) and p.min() >= 0.0 and np.ptp(p[:, 0]) > 0.3
    model.save(path)
    again = sm.load_model(path)
    assert again.predict_proba(NEW).tobytes() == p.tobytes() and {*again.calibration} < {*ARRAYS}
    if way not in ("kernel",):
        np.testing.assert_allclose(NumpyModel(path).predict_proba(NEW), p, atol=1e-12)
    if way == "path":  # rows of one training: the scores are those of the model
        known = bins_of(model.decision_function(X)[:, None], model.calibration[SCALE])[:, 0]
        assert (np.bincount(known, minlength=BINS) == counts[0].sum(axis=0)).all()


def test_out_of_fold_scores_are_counted():
    result = sm.train((X, TWO), cv=FOLDS, calibrate="sigmoid", **SQUARED)
    scale, wanted = result.model.calibration[SCALE], np.zeros((2, BINS), np.int64)
    for fold in range(5):
        here = fold == FOLDS
        scores = X[here] @ result.trials.w[fold, :-1] + result.trials.w[fold, -1]
        np.add.at(wanted, (TWO[here], bins_of(scores[:, None], scale)[:, 0]), 1)
    assert (result.model.calibration[COUNTS][0] == wanted).all()


def test_bits_do_not_depend_on_threads_nor_on_a_kill(tmp_path):
    sm.write_hdf5([(X, THREE)], tmp_path / "rows.h5")
    options = {"cv": "5", "calibrate": "isotonic", "C": [0.1, 1.0], "tol": 1e-4, "loss": "hinge"}
    wanted = sm.train(str(tmp_path / "rows.h5"), **options).model
    found = sm.train(str(tmp_path / "rows.h5"), **options, threads=2).model
    assert all((found.calibration[name] == wanted.calibration[name]).all() for name in wanted.calibration)
    for stop in (3, 8, 20, 40):
        units = iter(range(10**9))
        folder = str(tmp_path / f"state{stop}")
        sm.train(str(tmp_path / "rows.h5"), **options, checkpoint=folder,
                 should_stop=lambda units=units, stop=stop: "signal" if next(units) > stop else None)  # fmt: skip
        found = sm.train(str(tmp_path / "rows.h5"), **options, checkpoint=folder).model
        assert all((found.calibration[name] == wanted.calibration[name]).all() for name in wanted.calibration)


def test_a_training_that_is_stopped_says_that_it_has_no_probabilities(caplog):
    model = sm.train((X, TWO), cv=5, C=1.0, calibrate="sigmoid", should_stop=lambda: "signal").model
    assert model.calibration == {} and "stopped before the scores were calibrated" in caplog.text
    with pytest.raises(UsageError, match="has no probabilities"):
        model.predict_proba(X)


@pytest.mark.parametrize("data, options, told", [
    ((X, TWO), {}, 'give cv=5, or valid="DATA"'),
    ((X, TWO), {"cv": 5, "calibrate": "platt"}, "sigmoid, isotonic|sigmoid or isotonic"),
    ((X, Z), {"loss": "squared_error", "cv": 5}, "calibrate does not apply to the regression loss"),
    ((X, np.stack([TWO, 1 - TWO], axis=1)), {"valid": (X, np.stack([TWO, 1 - TWO], axis=1))}, "one label a row"),
    ((X, TWO), {"tasks": FOLDS, "valid": (X, TWO, FOLDS)}, "each of the tasks has its own"),
    (iter([(X, TWO)]), {"solver": "pegasos"}, "calibrate cannot be used with a stream"),
])  # fmt: skip
def test_what_has_no_calibration_says_so(data, options, told):
    with pytest.raises(UsageError, match=told):
        sm.train(data, **{"calibrate": "sigmoid", **options})


@pytest.mark.parametrize("held_out", [
    (NEW[:50], np.zeros(50, int)), (NEW[:50], np.full(50, 2)), 1 / N, "0.067%",
], ids=["one class", "one of three", "one row", "as the shell has it"])  # fmt: skip
def test_each_class_needs_held_out_rows(held_out):
    """All probabilities were 0 or 1, without a word."""
    y = np.where(Z > 3.0, 2, TWO)
    with pytest.raises(sm.DataError, match=r"no held-out row has the label [012], so calibrate cannot learn its prob"):
        sm.train((X, y), valid=held_out, calibrate="isotonic", loss="hinge")


def test_estimators_calibrate_on_folds_or_on_the_rows_that_they_hold_out():
    by_folds = sm.MarginClassifierCV(Cs=[0.1, 1.0], cv=5, calibrate="sigmoid", loss="hinge").fit(X, TWO)
    p = by_folds.predict_proba(NEW)
    assert np.corrcoef(p[:, 1], 1.0 / (1.0 + np.exp(-(NEW @ [2.0, -1.0, 0.5, 0.0] - 1.0))))[0, 1] > 0.98
    one = sm.MarginClassifierCV(Cs=[1.0], cv=5, calibrate="sigmoid", scoring="roc_auc", loss="hinge").fit(X, TWO)
    assert one.predict_proba(NEW).shape == (500, 2)
    alone = sm.MarginClassifier(calibrate="isotonic", loss="hinge", validation_fraction=0.3).fit(X, THREE)
    assert alone.predict_proba(NEW).shape == (500, 3)
    assert alone._model().calibration[COUNTS].sum(axis=(1, 2)).tolist() == [451] * 3
    machine = sm.KernelMarginClassifier(kernel="rbf:0.5", calibrate="sigmoid").fit(X, TWO)
    assert machine.predict_proba(NEW).shape == (500, 2) and (X[machine.support_] == machine.support_vectors_).all()
    reference = CalibratedClassifierCV(SVC(gamma=0.5), cv=PredefinedSplit(FOLDS), ensemble=False).fit(X, TWO)
    splits = list(PredefinedSplit(FOLDS).split())
    machine = sm.KernelMarginClassifierCV(kernel="rbf:0.5", Cs=[1.0], cv=splits, tol=1e-6, calibrate="sigmoid")
    np.testing.assert_allclose(machine.fit(X, TWO).predict_proba(NEW), reference.predict_proba(NEW), atol=2e-3)
    assert not hasattr(sm.MarginClassifier(loss="hinge"), "predict_proba")
    with pytest.raises(UsageError, match="of an estimator holds out rows of arrays"):
        sm.MarginClassifier(calibrate="sigmoid").fit("rows.h5")


def of_json(path):
    """Probabilities of NEW as docs/production.md says."""
    model = json.loads(path.read_text())
    scores = NEW @ [column["weights"] for column in model["columns"]] + model["intercept"]
    if model["link"] == "sigmoid":
        slopes, constants = np.array(model["calibration"]["sigmoid"]).T
        p = 1.0 / (1.0 + np.exp(-(slopes * scores + constants)))
    else:
        at, lines = model["calibration"]["scores"], model["calibration"]["probabilities"]
        p = np.transpose([np.interp(of, at, line) for of, line in zip(scores.T, lines, strict=True)])
    return p / p.sum(axis=1, keepdims=True)


def test_the_command_keeps_it_and_verify_finds_what_is_wrong(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sm.write_hdf5([(X, THREE)], "rows.h5")
    asked = ["train", "rows.h5", "--cv", "4", "--C", "1", "--loss", "hinge", "-q"]
    for method in ("sigmoid", "isotonic"):
        assert main([*asked, "--calibrate", method, "-o", f"{method}.npz"]) == 0
        assert main(["predict", f"{method}.npz", "rows.h5", "--probability", "-o", "p.npy", "--force"]) == 0
        model = sm.load_model(f"{method}.npz")
        assert np.load("p.npy").tobytes() == model.predict_proba("rows.h5").tobytes()
        checks = [one for one in verify(f"{method}.npz", "rows.h5") if one.name == "calibration"]
        assert len(checks) == 3 and all(one.agrees for one in checks)
        assert main(["verify", f"{method}.npz", "rows.h5"]) == 0
        arrays = dict(np.load(f"{method}.npz"))
        changed = "calibration.sigmoid" if method == "sigmoid" else "calibration.probabilities"
        np.savez("other.npz", **{**arrays, changed: arrays[changed] * 0.99})
        assert main(["verify", "other.npz", "rows.h5"]) == 65
        assert main(["export", f"{method}.npz", "--to", "json", "-o", f"{method}.json"]) == 0
        assert json.loads((tmp_path / f"{method}.json").read_text())["link"] == method
        np.testing.assert_allclose(of_json(tmp_path / f"{method}.json"), model.predict_proba(NEW), atol=1e-12)
        for form in ("onnx", "liblinear"):
            assert main(["export", f"{method}.npz", "--to", form, "-o", "other"]) == 2
        assert f"--calibrate {method} cannot be exported as LIBLINEAR" in capsys.readouterr().err
        pipeline = pickle.loads(pickle.dumps(model.to_sklearn()))
        found = pipeline.predict_proba(NEW)
        np.testing.assert_allclose(found, model.predict_proba(NEW), atol=1e-12)
        np.testing.assert_array_equal(pipeline.predict(NEW), model.classes_[found.argmax(axis=1)])
    assert main([*asked[:2], "--calibrate", "sigmoid", "-o", "none.npz"]) == 2
    assert "give --cv 5, or --valid DATA" in capsys.readouterr().err


@pytest.mark.parametrize(("y", "options"), [(TWO, {}), (TWO, {"positive": 0}), (THREE, {})])
def test_a_pipeline_has_isotonic_probabilities_of_frames(y, options):
    frame = pd.DataFrame(X, columns=[f"column {k}" for k in range(X.shape[1])])
    for scale in ("none", "std"):
        model = sm.train((frame, y), cv=FOLDS, C=1.0, loss="hinge", calibrate="isotonic", scale=scale, **options).model
        pipeline = model.to_sklearn()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = pipeline.predict_proba(frame)
        np.testing.assert_allclose(found, model.predict_proba(frame), atol=1e-7)  # rows of float32
        assert pipeline.classes_.tolist() == model.classes_.tolist()


def test_a_softmax_is_told_that_it_has_probabilities(caplog):
    caplog.set_level("INFO")
    for loss, told in (("logistic", True), ("hinge", False)):
        caplog.clear()
        sm.train((X, THREE), cv=FOLDS, calibrate="sigmoid", C=1.0, loss=loss)
        assert ("the softmax has probabilities of its own" in caplog.text) == told
