"""The figures of `evaluate` beside scikit-learn's, to 1e-12."""

import numpy as np
import pytest
from conftest import traced
from sklearn import metrics

import streammargin as sm
from streammargin.model import ranking
from streammargin.workers import Workers


def rows(classes, seed=0, n=600):
    """Rows in groups that overlap, their labels, and a test half in which some scores are equal."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    X = np.round(rng.normal(0, 1, (n, 4)) + 0.8 * np.eye(max(classes, 4))[y, :4], 1)
    return X, y


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_figures_are_those_of_scikit_learn(classes, loss):
    X, y = rows(classes)
    model = sm.train(X, y, loss=loss, C=0.1, multiclass="ovr").model
    got = model.evaluate((X, y))
    guess, scores = model.predict(X), model.decision_function(X)
    labels = model.classes_
    expected = {
        "balanced_accuracy": metrics.balanced_accuracy_score(y, guess),
        "macro_precision": metrics.precision_score(y, guess, average="macro", zero_division=0),
        "macro_recall": metrics.recall_score(y, guess, average="macro"),
        "macro_f1": metrics.f1_score(y, guess, average="macro"),
    }
    if classes == 2:
        expected["roc_auc"] = metrics.roc_auc_score(y, scores)
        expected["average_precision"] = metrics.average_precision_score(y, scores)
    else:
        truth = y[:, None] == labels
        expected["roc_auc"] = metrics.roc_auc_score(truth, scores, average="macro")
        expected["average_precision"] = metrics.average_precision_score(truth, scores, average="macro")
    if loss == "logistic":
        p = model.predict_proba(X)
        expected |= {"log_loss": metrics.log_loss(y, p), "entropy": -np.sum(p * np.log(p)) / len(p)}
    else:
        assert got["log_loss"] is None and got["entropy"] is None
    for name, value in expected.items():
        assert got[name] == pytest.approx(value, rel=1e-12), name
    assert got["confusion"] == metrics.confusion_matrix(y, guess).tolist()
    each = metrics.precision_recall_fscore_support(y, guess, zero_division=0)
    for k, part in enumerate(got["per_class"]):
        assert [part["precision"], part["recall"], part["f1"]] == pytest.approx([figure[k] for figure in each[:3]])
    for k, share in got["top_k"].items():
        assert share == pytest.approx(metrics.top_k_accuracy_score(y, scores, k=int(k), labels=labels), rel=1e-12)


@pytest.mark.parametrize("most", [99, 999, 4_000, 1 << 20])
def test_ranks_on_disk_are_those_in_memory(monkeypatch, tmp_path, most):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rng = np.random.default_rng(0)
    scores, positive = np.round(rng.normal(size=300_000), 2), rng.random(300_000) < 0.3
    scores[:1000] = 0.5  # many rows of one score
    ranks = ranking.Ranking(most, Workers(2))
    for start in range(0, 300_000, 40_000):
        ranks.add(ranking.ranked(scores[start : start + 40_000], positive[start : start + 40_000]))
    spilled = bool(ranks._levels)
    area, precision = ranks.figures()
    assert spilled == (most < 1 << 20) and list(tmp_path.iterdir()) == []
    assert area == pytest.approx(metrics.roc_auc_score(positive, scores), rel=1e-12)
    assert precision == pytest.approx(metrics.average_precision_score(positive, scores), rel=1e-12)


@pytest.mark.parametrize("digits", [16, 0], ids=["all differ", "few scores"])
def test_ranks_take_no_more_memory_than_they_may(digits):
    rng, most = np.random.default_rng(0), 1 << 20
    ranks = ranking.Ranking(ranking.rows_in(most, 1))
    with traced() as allocated:
        for _ in range(200):
            scores = np.round(rng.normal(size=5_000), digits)
            ranks.add(ranking.ranked(scores, scores > rng.normal(size=5_000)))
        area, _ = ranks.figures()
    assert 0.7 < area < 0.9 and allocated.peak < most


def test_a_class_alone_has_no_ranks():
    X, y = rows(2)
    got = sm.train(X, y).model.evaluate((X[y == 1], y[y == 1]))
    assert got["roc_auc"] is None and got["average_precision"] is None and got["balanced_accuracy"] <= 1.0
