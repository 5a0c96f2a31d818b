"""Every solver of the largest margin on rows that have one: bounds, forms, scales, classes, and what it refuses."""

import math
from functools import cache

import numpy as np
import pytest
from conftest import slow
from reference.datasets import as_form, separable
from reference.linear import ANY_NORM, HARD, NORMS, WAYS, every, norm_of, train
from reference.norms import length
from reference.optimum import solve
from reference.training import binary

from streammargin.errors import DataError, UsageError

ALONE = sorted({*HARD} - {"auto", "sdca", "asdca"})  # which know no finite C
EUCLIDEAN = sorted({*HARD} - {"auto", *ANY_NORM})
NOT_JOINT = sorted({*HARD} - {"auto", "dual-momentum", "gd", "normalized-gd", "batch-perceptron", "adaptive"})


@cache
def optimum(norm=2.0, bias=0.0):
    """The problem of the rows, its largest margin, and the margin's bound by the duals."""
    X, y = separable(60, 8)
    problem = binary(X, y, C=math.inf, norm=norm, bias=bias)
    exact = solve(problem, "hinge")
    return problem, 1.0 / length(exact.w, problem.p)


@every(WAYS + NORMS)
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_every_interval_holds_the_largest_margin(way, bias):
    X, y = separable(60, 8)
    problem, best = optimum(norm_of(way), bias)
    result = train(way, (X, y), bias=bias, tol=1e-3, passes=200)
    told = [event for event in result.history if event["event"] == "certificate"]
    for event in told:
        assert event["margin_lower"] <= best * (1 + 1e-7) and best <= event["margin_upper"] * (1 + 1e-7)
        assert event["dual"] <= 0.5 / best**2 * (1 + 1e-7)
        if way[0] not in ("sdca", "asdca"):  # whose bounds may be of other duals
            assert event["dual"] == pytest.approx(0.5 / event["margin_upper"] ** 2)
    w = np.append(result.model.coef_[0], result.model.intercept_ / bias if bias else [])
    last = result.certificate
    assert last["margin_lower"] == pytest.approx(problem.margin(w), rel=1e-9)
    assert last["primal"] == pytest.approx(problem.primal(w), rel=1e-9)
    assert last["mistakes"] == problem.mistakes(w)
    assert last["margin_gap"] == pytest.approx(1 - last["margin_lower"] / last["margin_upper"])
    assert (result.reason == "tolerance") == result.converged and (last["margin_gap"] <= 1e-3) >= result.converged
    if not way[0].startswith("perceptron"):  # which ends once the rows are separated
        assert last["margin_lower"] > 0.4 * best and last["margin_upper"] < 2.3 * best


@every(WAYS + NORMS)
@pytest.mark.parametrize("form, dtype", [("csr", float), slow("dense", np.float32), slow("csr", np.float32)])
def test_forms_and_precisions_agree(way, form, dtype):
    X, y = separable()
    X = X.astype(np.float32)
    double = train(way, (X.astype(float), y), passes=15, tol=1e-9, bias=0.5)
    other = train(way, (as_form(X, form, dtype), y), passes=15, tol=1e-9, bias=0.5)
    # float32 rows are numbers of float64 too
    assert other.model.coef_ == pytest.approx(double.model.coef_, rel=1e-6, abs=1e-9)
    assert other.model.intercept_ == pytest.approx(double.model.intercept_, rel=1e-6, abs=1e-9)
    for name in ("margin_lower", "margin_upper", "mistakes", "primal"):
        assert other.certificate[name] == pytest.approx(double.certificate[name], rel=1e-6)


@every(WAYS + NORMS)
@pytest.mark.parametrize("form, power", [("dense", -498), ("dense", 498), ("csr", -498), ("csr", 498), ("csr", -100),
                                         ("dense", 100)])  # fmt: skip
def test_the_scale_of_the_rows_does_not_matter(way, form, power):
    """Powers of two near 1e-150 and 1e150: the steps round alike."""
    X, y = separable(40, 6, margin=1.0)
    size, lp = 2.0**power, "penalty" in way[1]
    X = as_form(X, form)
    if lp and way[0] in ("sdca", "asdca") and abs(power) > 100:  # their sums leave the range of float64
        with pytest.raises(DataError, match='scale="maxabs"'):
            train(way, (X * size, y), tol=0.02, passes=200)
        assert train(way, (X * size, y), tol=0.02, passes=1000, scale="maxabs").converged
        return
    plain, scaled = (train(way, (rows, y), tol=0.02, passes=200) for rows in (X, X * size))
    w, expected = (one.model.coef_[0] / np.abs(one.model.coef_).max() for one in (scaled, plain))
    loose = way[0] == "asdca" or (lp and way[0].startswith("mirror"))  # norms are bounded where powers overflow
    rel = 0.03 if loose else 1e-9
    assert w / np.linalg.norm(w) == pytest.approx(expected / np.linalg.norm(expected), rel=rel, abs=rel)
    for name in ("margin_lower", "margin_upper"):
        assert scaled.certificate[name] / size == pytest.approx(plain.certificate[name], rel=rel)
    assert scaled.certificate["mistakes"] == plain.certificate["mistakes"] == 0
    assert scaled.reason == plain.reason or loose


@every(WAYS + NORMS)
def test_classes_share_the_passes(way):
    rng = np.random.default_rng(3)
    y = np.arange(80) % 4
    X = 5 * rng.standard_normal((4, 6))[y] + rng.standard_normal((80, 6))
    result = train(way, (X, y), passes=20, tol=1e-9)
    scores = X @ result.model.coef_.T
    assert result.certificate["mistakes"] == np.sum(scores.argmax(axis=1) != y)
    for k, figures in enumerate(result.certificate["per_class"]):
        problem = binary(X, y == k, C=math.inf, norm=norm_of(way))
        assert figures["margin_lower"] == pytest.approx(problem.margin(result.model.coef_[k]), rel=1e-9)
        assert figures["mistakes"] == problem.mistakes(result.model.coef_[k])
        alone = train(way, (X, y), passes=20, tol=1e-9, positive=k).certificate
        assert figures["margin_lower"] <= alone["margin_upper"] * (1 + 1e-9)
        assert alone["margin_lower"] <= figures["margin_upper"] * (1 + 1e-9)
        if way[0].partition(":")[0] in ("homotopic", "diagonal", "inertial-diagonal", "gd", "normalized-gd"):
            assert figures["margin_upper"] == pytest.approx(alone["margin_upper"], rel=1e-9)


@every(WAYS + NORMS)
def test_one_row_of_each_class(way):
    X = np.diag([3.0, 2.0, 1.0])
    result = train(way, (X, ["a", "b", "c"]), tol=0.05, passes=1000)
    assert result.model.predict(X).tolist() == ["a", "b", "c"]
    for k, figures in enumerate(result.certificate["per_class"]):
        problem = binary(X, np.arange(3) == k, C=math.inf, norm=norm_of(way))
        best = 1.0 / length(solve(problem, "hinge").w, problem.p)
        assert 0.0 < figures["margin_lower"] <= best * (1 + 1e-7) and best <= figures["margin_upper"] * (1 + 1e-7)


@pytest.mark.parametrize("word, options, message", [
    *((word, {"C": 1.0}, 'maximum margin only|use solver="newton", or leave out C$') for word in ALONE),
    *((word, {"penalty": "lp:1.5"}, r'p = 2 only, not 1\.5; use solver="asdca" and C=math\.inf$')
      for word in EUCLIDEAN),
    *((word, {"loss": "squared_hinge"}, "has its own loss|which squared_hinge lacks")
      for word in ALONE if word != "active-set"),
    ("active-set", {"loss": "logistic"}, "loss"),
    *((word, {"multiclass": "joint", "labels": 3}, "joint|hard margin of all classes") for word in NOT_JOINT),
    ("gd", {"loss": "hinge"}, r"which hinge lacks \(these have it: exponential, logistic\); use solver="),
    ("batch-perceptron", {"loss": "logistic"}, 'has its own loss; use solver="dual-momentum"$'),
    ("sdca", {"loss": "exponential"}, "the method step of a loss, which exponential lacks .these have it: .*, hinge,"),
    ("dual-momentum:average", {}, "dual-momentum has no parameter 'average'; dual-momentum has no parameters"),
    ("mirror:decay=linear", {}, "mirror has no parameter 'decay'"),
    ("homotopic:decay=linear", {}, "must be power, log or exponential"),
    ("adaptive:step=1/t", {}, "momentum or proven"),
    ("diagonal", {"average": True}, "there is no average here; give solver="),
    ("pegasos", {"C": math.inf}, r'pegasos needs a finite C; use solver="active-set", or give a finite C'),
    ("pegasos", {"penalty": "lp:1.5", "C": 1.0}, "p = 2 only"),
    ("pegasos", {"loss": "squared_hinge", "C": 1.0}, "loss"),
    ("pegasos", {"stochastic": True, "C": 1.0}, 'there is no stochastic here; give solver="homotopic:stochastic"'),
    ("perceptron", {"penalty": "lp:1"}, "the parameter p of lp"),
    ("perceptron", {"max_rows": 5}, "max_rows"),
])  # fmt: skip
def test_what_they_refuse(word, options, message):
    X, _ = separable(30, 4)
    labels = np.arange(30) % options.pop("labels", 2)
    with pytest.raises(UsageError, match=message):
        train((word, {}), (X, labels), **options)
