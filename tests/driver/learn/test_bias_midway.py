"""The bias of eq. (15) of the homotopic paper, found after the weights: against the formula in NumPy."""

import itertools
import json
import logging

import h5py
import numpy as np
import pytest
from conftest import write_h5
from reference.datasets import as_form
from reference.drive import problem_of
from reference.sources import CountingSource
from reference.stopped import stop_after

import streammargin as sm
from streammargin.cli.main import main
from streammargin.driver.learn.validate import Midway
from streammargin.errors import UsageError
from streammargin.solvers.roles import new
from streammargin.verification.verify import verify

HARD = {"C": np.inf, "bias": "midway", "tol": 0.05}


def shifted():
    """Rows that a hyperplane through 0 separates, those of one side further from it: it is not midway."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(60) % 2, 1, -1)
    X = 0.3 * rng.standard_normal((60, 12))
    X[:, 0] += np.where(y > 0, 6.0, -1.0)
    return X, y


def formula(scores, positive):
    return -(np.min(scores[positive]) + np.max(scores[~positive])) / 2


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("bounds", [None, (0, 7, 31, 60)])
@pytest.mark.parametrize(
    "options",
    [
        {"solver": "homotopic", "passes": 60},
        {"solver": "homotopic:average=no", "passes": 60},
        {"solver": "homotopic:stochastic", "passes": 60},
        {"solver": "sdca"},
        {"solver": "asdca", "penalty": "lp:1.5"},
    ],
)
def test_the_formula(options, bounds, form):
    X, y = shifted()
    rows = as_form(X, form)
    source = (rows, y) if bounds is None else CountingSource(rows, y, bounds)
    result, plain = sm.train(source, **HARD, **options), sm.train((rows, y), **(HARD | {"bias": None}), **options)
    w = result.model.coef_[0]
    b = formula(X @ w, y > 0)
    assert abs(b) > 0.05 and result.model.intercept_[0] == pytest.approx(b, rel=1e-12)
    if bounds is None:  # the weights and their figures are those without a bias
        assert np.array_equal(w, plain.model.coef_[0])
        assert {**result.certificate.to_dict(), "valid_error": None} == plain.certificate.to_dict()
    else:
        sweeps = {"homotopic": 1 + result.passes}.get(
            options["solver"].partition(":")[0],
            result.passes + sum(e["event"] == "certificate" for e in result.history),
        )
        assert set(source.reads.values()) == {sweeps + 1}
    with_bias = result.model.evaluate((rows, y))["margin"]
    size = np.linalg.norm(w, float(options.get("penalty", "lp:2").removeprefix("lp:")))
    assert with_bias == pytest.approx(np.min(y * (X @ w + b)) / size, rel=1e-9)
    assert with_bias > result.certificate["margin_lower"] + 0.01


def test_absent_rows_scaled_columns_and_held_out_errors():
    X, y = shifted()
    weights = np.where(np.arange(60) % 5 == 0, 0.0, 1.0)
    X[weights == 0] *= -100.0
    data = (X + 1.0, y)  # scaling by std takes the shift out again, and puts it into the bias
    result = sm.train(data, sample_weight=weights, scale="std", solver="homotopic", passes=50, valid=data, **HARD)
    there = weights > 0
    b = formula(data[0][there] @ result.model.coef_[0], y[there] > 0)
    assert result.model.intercept_[0] == pytest.approx(b, rel=1e-10)
    assert result.certificate["valid_error"] == np.mean(result.model.predict(data[0]) != y) > 0
    assert result.certificate["mistakes"] == np.sum((result.model.predict(data[0]) != y)[there]) == 0


def test_each_class_against_the_rest():
    X, _ = shifted()
    labels = np.arange(60) % 3
    X[np.arange(60), labels] += 30.0
    model = sm.train((X, labels), solver="homotopic", passes=30, **HARD).model
    expected = [formula(X @ w, labels == k) for k, w in enumerate(model.coef_)]
    assert model.intercept_ == pytest.approx(expected, rel=1e-10)


def apart(classes):
    """Rows whose farthest class alone is apart from the others, and by no hyperplane through 0."""
    rng = np.random.default_rng(3)
    labels = np.arange(60) % classes
    X = np.column_stack([rng.random(60) + 1.0, 0.1 * rng.standard_normal(60)])
    X[:, 0] += np.where(labels == (1 if classes == 2 else 0), 2.0, 0.0)
    return X, labels


def recounted(path, X, labels):
    """(rows predicted wrong, wrong sides of each line) of a saved file, by NumPy."""
    with np.load(path) as file:
        scores = X @ file["coef"].T + file["intercept"]
    lines = scores.shape[1]
    found = scores.argmax(axis=1) if lines > 1 else scores[:, 0] > 0.0
    own = labels[:, None] == (np.arange(lines) if lines > 1 else 1)
    return np.sum(found != labels), np.sum((scores > 0.0) != own, axis=0).tolist()


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("bounds", [None, (0, 7, 31, 60)])
@pytest.mark.parametrize("classes", [2, 3])
def test_mistakes_are_those_of_the_saved_model(tmp_path, classes, bounds, form):
    X, labels = apart(classes)
    rows, path = as_form(X, form), str(tmp_path / "m.npz")
    source = (rows, labels) if bounds is None else CountingSource(rows, labels, bounds)
    result = sm.train(source, solver="perceptron", passes=9, **HARD)
    result.model.save(path)
    wrong, sides = recounted(path, X, labels)
    assert result.model.intercept_[0] != 0.0 and (wrong == 0) == (classes == 2)
    assert result.certificate["mistakes"] == wrong and result.certificate["train_error"] == wrong / 60
    assert [one["mistakes"] for one in result.certificate["per_class"]] == sides
    before = [event["mistakes"] for event in result.history if event["event"] == "certificate"][-1]
    assert before > wrong  # of the weights alone
    checks = verify(path, write_h5(tmp_path / "rows.h5", X, labels))
    assert [check for check in checks if check.agrees is False] == []
    result.model.header["certificate"]["mistakes"] = before
    result.model.save(path, force=True)
    assert "mistakes" in {one.name for one in verify(path, str(tmp_path / "rows.h5")) if one.agrees is False}


def test_a_training_stopped_in_any_block_counts_what_it_saved(tmp_path):
    X, labels = apart(3)

    def trained(folder=None, blocks=10**9):
        source = CountingSource(as_form(X, "dense"), labels, (0, 31, 60))
        result = sm.train(
            source, solver="perceptron", passes=9, checkpoint=folder, **HARD,
            should_stop=stop_after(blocks),
        )  # fmt: skip
        result.model.save(str(tmp_path / "m.npz"), force=True)
        return result, recounted(tmp_path / "m.npz", X, labels)[0]

    whole, wrong = trained()
    without = 0
    for blocks in itertools.count(1):
        folder = str(tmp_path / str(blocks))
        stopped, found = trained(folder, blocks)
        assert stopped.certificate["mistakes"] in (None, found)
        if stopped.reason != "signal":
            break
        without += stopped.certificate["mistakes"] is not None and not stopped.model.intercept_.any()
        resumed, found = trained(folder)
        assert resumed.model.intercept_.tobytes() == whole.model.intercept_.tobytes()
        assert resumed.certificate == whole.certificate and found == wrong
    assert without >= 4  # two reads of two blocks follow the last certificate


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_from_the_shell(tmp_path, form):
    X, y = shifted()
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["y"] = y
        if form == "dense":
            file["X"] = X
        else:
            rows, group = as_form(X, "csr"), file.create_group("X")
            group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": X.shape})
            for name in ("data", "indices", "indptr"):
                group[name] = getattr(rows, name)
    path, log = str(tmp_path / "m.npz"), tmp_path / "log"
    options = ["--solver", "homotopic", "--bias", "midway", "--passes", "40", "-o", path, "-q", "--log-json", str(log)]
    assert main(["train", str(tmp_path / "a.h5"), *options]) == 0
    model = sm.load_model(path)
    assert model.intercept_[0] == pytest.approx(formula(X @ model.coef_[0], y > 0), rel=1e-10)
    assert json.loads(log.read_text().splitlines()[0])["params"]["bias"] == "midway"


def test_a_signal_leaves_no_bias_and_says_so(caplog):
    X, y = shifted()
    source = CountingSource(X, y, (0, 7, 31, 60))
    with caplog.at_level(logging.WARNING, "streammargin"):
        result = sm.train(source, solver="homotopic", should_stop=stop_after(9), **HARD)
    assert result.reason == "signal" and result.model.intercept_[0] == 0.0
    assert "bias" in caplog.text


@pytest.mark.parametrize(
    "options",
    [
        {"C": 1.0, "bias": "midway"},
        {"C": np.inf, "bias": "midways"},
        {"solver": "dual-momentum", "multiclass": "joint", "bias": "midway"},
        {"loss": "interpolate", "bias": "midway"},
    ],
)
def test_where_it_has_no_meaning(options):
    X, _ = shifted()
    with pytest.raises(UsageError, match="midway"):
        sm.train((X, np.arange(60) % 3), **options)


def test_a_stream_has_no_second_read():
    X, y = shifted()
    with pytest.raises(UsageError, match="second read"):
        sm.train(iter([(X, y)]), solver="perceptron", bias="midway")


def test_a_signal_in_the_last_read_keeps_what_was_proven():
    X, y = shifted()
    events = []

    def stop():  # blocks of the passes are over once a certificate is within the tolerance
        done = [e for e in events if e["event"] == "certificate" and e["margin_gap"] <= HARD["tol"]]
        return "SIGTERM" if done else None

    result = sm.train((X, y), solver="sdca", listeners=[events.append], should_stop=stop, **HARD)
    assert result.reason == "signal" and result.converged and result.model.intercept_[0] == 0.0
    w = result.model.coef_[0]
    assert result.certificate["margin_lower"] == pytest.approx((y * (X @ w)).min() / np.linalg.norm(w))


def test_no_bias_where_it_would_not_separate():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((80, 3)), np.where(rng.random(80) < 0.5, 1, -1)
    assert sm.train((X, y), solver="sdca", **HARD).model.intercept_[0] == 0.0
    found = new(Midway, problem_of(X, K=2), labels=None)
    scores = np.array([[1.0, 1.0], [2.0, 6.0], [5.0, 5.0], [7.0, 7.0]])  # with an offset the first problem is separable
    found.add(scores, np.repeat([[False], [False], [True], [True]], 2, axis=1))
    assert found.bias().tolist() == [-3.5, 0.0]


def test_a_smaller_tolerance_finds_the_bias_of_its_own_weights(tmp_path):
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((400, 5)), rng.standard_normal(5)
    y = np.where(X @ w > 0.0, 1, -1)
    X += 0.6 * y[:, None] * w / np.linalg.norm(w) + 0.3
    options = {**HARD, "solver": "sdca", "checkpoint": str(tmp_path)}
    first = sm.train((X, y), **{**options, "tol": 0.3})
    then = sm.train((X, y), **{**options, "tol": 1e-4})
    assert first.converged and then.converged and then.passes > first.passes
    assert then.model.intercept_[0] == pytest.approx(formula(X @ then.model.coef_[0], y > 0))
