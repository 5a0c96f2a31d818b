"""tol=absolute:EPS: the mean gap of each class and each C, recomputed from the saved weights and the rows."""

import math
import subprocess
import sys

import numpy as np
import pytest
from conftest import write_h5
from reference.datasets import noisy
from reference.stopped import stop_after

import streammargin as sm
from streammargin.errors import UsageError

X, Y = noisy(120)
NUMBERS = 50.0 * X[:, 0] + 30.0 * Y
WEIGHTS = np.random.default_rng(3).choice([0.0, 0.5, 1.0, 3.0], 120)
WAYS = [
    {"solver": "sdca"}, {"solver": "asdca"}, {"solver": "newton"}, {"solver": "pdprox"}, {"solver": "pegasos"},
    {"solver": "newton", "loss": "logistic", "penalty": "l1"}, {"solver": "pdprox", "penalty": "l1"},
    {"solver": "sdca", "loss": "squared_error", "bias": 1}, {"solver": "newton", "loss": "squared_error"},
    {"solver": "pdprox", "loss": "absolute_error"},
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(map(str, way.values())))
@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("eps", [1e-1, 1e-4])
def test_the_mean_gap_ends_a_training_whatever_the_size_of_the_objective(way, C, eps):
    y = NUMBERS if "error" in way.get("loss", "") else Y
    eps = 10.0 * eps if way["solver"] == "pegasos" else eps
    result = sm.train((X, y), C=C, tol=f"absolute:{eps}", passes=3000, sample_weight=WEIGHTS, **way)
    figures = result.certificate
    mean = (figures.primal - figures.dual) / (C * WEIGHTS.sum())
    assert result.converged and result.reason == "tolerance" and mean <= figures.mean_gap <= eps
    assert figures.mean_gap == pytest.approx(mean, rel=1e-3, abs=1e-8)
    assert figures.gap == pytest.approx((figures.primal - figures.dual) / figures.primal, rel=1e-3, abs=1e-9)
    told = next(event for event in reversed(result.history) if event["event"] == "certificate")
    assert told["mean_gap"] == figures.mean_gap == result.run_end["mean_gap"]


def test_it_is_that_of_each_class_and_each_C():
    classes = np.digitize(X[:, 0], [-0.6, 1.2])
    factors = {0: 1.0, 1: 5.0, 2: 0.5}
    result = sm.train((X, classes), C=[0.01, 10.0], tol="absolute:1e-3", valid=(X, classes), solver="sdca",
                      class_weight=factors, passes=20000)  # fmt: skip
    mass = sum(factors[k] * np.sum(classes == k) for k in factors)
    assert result.converged
    last = {event["C"]: event for event in result.history if event["event"] == "certificate"}
    for C, event in last.items():
        means = [(one["primal"] - one["dual"]) / (C * mass) for one in event["per_class"]]
        assert [one["mean_gap"] for one in event["per_class"]] == pytest.approx(means, rel=1e-6)
        assert event["mean_gap"] == pytest.approx(max(means), rel=1e-6) and max(means) <= 1e-3
    assert [one["mean_gap"] for one in result.run_end["trials"]] == [last[C]["mean_gap"] for C in (0.01, 10.0)]


@pytest.mark.parametrize("order", [1, -1])
def test_joined_labels_have_the_mean_gap_of_the_one_with_the_least_weight(order):
    labels = np.column_stack([X[:, 0] > 1.5, X[:, 1] > 0.0, X[:, 2] > 0.0])[:, ::order].astype(int)
    options = {"penalty": "l21", "class_weight": {0: 1.0, 1: 9.0}, "C": 0.1, "passes": 3000}
    result = sm.train((X, labels), loss="logistic", tol="absolute:1e-3", **options)
    figures, masses = result.certificate, np.sum(1.0 + 8.0 * labels, axis=0)
    assert result.converged and masses.max() > 1.5 * masses.min()
    assert figures.mean_gap == pytest.approx((figures.primal - figures.dual) / (0.1 * masses.min()), rel=1e-6)


@pytest.mark.parametrize("order", [1, -1])
def test_the_mean_gap_of_joined_tasks_is_that_of_all_rows(order):
    tasks = (order * np.digitize(np.arange(120), [10, 60])).astype(int)
    options = {"penalty": "l21", "loss": "squared_error", "C": 0.1, "passes": 3000}
    result = sm.train((X, NUMBERS), tasks=tasks, tol="absolute:1e-3", **options)
    figures = result.certificate
    assert result.converged
    assert figures.mean_gap == pytest.approx((figures.primal - figures.dual) / (0.1 * 120), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("best, told", [(3, Y), (0, -Y)])  # at the optima the last two err on 10 rows and on 9
def test_a_path_over_C(best, told):
    result = sm.train((X, Y), C="path:4,high=5", penalty="l1", tol="absolute:1e-4", valid=(X, told), passes=5000)
    table = result.run_end["trials"]
    assert result.converged and len(table) == 4 and result.run_end["C"] == table[best]["C"]
    assert result.certificate.mean_gap == result.run_end["mean_gap"] == pytest.approx(table[best]["mean_gap"])
    for one in table:
        assert one["mean_gap"] <= 1e-4
        assert one["mean_gap"] == pytest.approx(one["gap"] * one["primal"] / (one["C"] * 120), rel=1e-9)


@pytest.mark.parametrize("first, then", [(1e-2, "absolute:1e-2"), ("absolute:1e-2", 1e-2), ("absolute:1e-2", 1e-5)])
def test_a_training_that_is_resumed_is_held_to_the_other_tolerance(first, then, tmp_path):
    path = write_h5(tmp_path / "data.h5", X, Y)
    options = {"solver": "sdca", "C": 10.0, "passes": 5000, "checkpoint": str(tmp_path / "it")}
    before = sm.train(path, tol=first, **options)
    seen = []
    result = sm.train(path, tol=then, listeners=[seen.append], **options)
    [told] = [event["run_start"]["params"]["tol"] for event in seen if event["event"] == "resumed"]
    assert told == result.model.header["tol"]  # by which the console says which gap it shows
    assert before.converged and result.converged
    if isinstance(then, str):
        assert result.certificate.mean_gap <= 1e-2
    else:
        assert result.certificate.gap <= then
    assert result.model.header["tol"] == (then if isinstance(then, float) else "absolute:0.01")


def test_a_stopped_training_goes_on_with_the_same_bits(tmp_path):
    path = write_h5(tmp_path / "data.h5", X, Y)
    options = {"solver": "sdca", "C": 10.0, "tol": "absolute:1e-3", "passes": 5000}
    folder = str(tmp_path / "it")
    sm.train(path, checkpoint=folder, should_stop=stop_after(21), **options)
    resumed, whole = sm.train(path, checkpoint=folder, **options), sm.train(path, **options)
    assert resumed.passes == whole.passes and resumed.certificate == whole.certificate
    np.testing.assert_array_equal(resumed.model.coef_, whole.model.coef_)


@pytest.mark.parametrize("options", [
    {"C": math.inf}, {"loss": "interpolate"}, {"solver": "mirror"}, {"solver": "active-set"},
])  # fmt: skip
def test_a_hard_margin_has_no_mean_gap(options):
    with pytest.raises(UsageError, match=r"absolute:EPS.* bounds the mean gap at a finite C; for C = inf give"):
        sm.train((X, Y), tol="absolute:1e-3", **options)
    assert sm.train((X, NUMBERS), loss="interpolate:100", passes=3).certificate.mean_gap is None


def test_nor_has_the_margin_of_all_classes():
    classes = np.digitize(X[:, 0], [-0.6, 1.2])
    with pytest.raises(UsageError, match="bounds the mean gap at a finite C"):
        sm.train((X, classes), tol="absolute:1e-3", multiclass="joint", C=np.inf)
    for labels in (classes, Y):
        assert sm.train((X, labels), tol="absolute:1e-3", multiclass="joint").certificate.mean_gap <= 1e-3


@pytest.mark.parametrize("wrong", ["absolute", "absolute:-1", "absolute:x", "absolute:inf", "relative:1e-3", -1.0])
def test_a_tolerance_that_is_none(wrong):
    with pytest.raises(UsageError, match=r"tol|absolute"):
        sm.train((X, Y), tol=wrong)


def test_estimators_take_it_too():
    pytest.importorskip("sklearn")
    made = sm.MarginClassifier(C=10.0, tol="absolute:1e-3").fit(X, Y)
    assert made.get_params()["tol"] == "absolute:1e-3" and made.n_iter_ > 0
    sm.MarginRegressor(tol="absolute:10").fit(X, NUMBERS)


def test_the_closing_lines_and_the_model_say_the_mean_gap(tmp_path):
    path = write_h5(tmp_path / "data.h5", X, Y)
    line = [sys.executable, "-m", "streammargin", "train", path, "-c", "1", "--tol"]

    def said(tol, *more):
        model = str(tmp_path / f"{len(more)}.npz")
        return subprocess.run([*line, tol, "-o", model, *more], capture_output=True, text=True, check=True).stderr

    met = said("absolute:1e-2")
    header = sm.load_model(str(tmp_path / "0.npz")).header
    assert header["tol"] == "absolute:0.01" and header["converged"]
    assert f"certified mean gap {header['certificate']['mean_gap']:.1e}" in met and "converged (tolerance)" in met
    missed = said("absolute:1e-9", "--passes", "2", "--solver", "sdca")
    assert "when the certified mean gap is" in missed and "far from the tolerance 1e-09" in missed
