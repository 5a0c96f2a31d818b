"""The rows that go wrong, beside NumPy on all rows at once; rows come in several blocks."""

import json

import numpy as np
import pytest
from conftest import write_h5

import streammargin as sm
from streammargin.model import scoring
from streammargin.model.wrong import Histogram, Unfinished, wrong_rows

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def pieces(monkeypatch):
    """Rows are scored a few at a time, on several threads."""
    monkeypatch.setattr(scoring, "_PIECE_ROWS", 37)


@pytest.mark.parametrize("classes", [2, 4])
def test_of_classes(pieces, classes):
    rng = np.random.default_rng(classes)
    y = rng.integers(0, classes, 500)
    X = rng.normal(size=(500, 4)) + 1.5 * np.eye(4)[y]
    model = sm.train(X, y, loss="squared_hinge", C=0.01).model
    found = wrong_rows(model, (X, y), threads=3)
    scores = model.decision_function(X)
    if classes == 2:
        distances = np.where(y == 1, scores, -scores)
    else:
        others = np.where(np.eye(classes, dtype=bool)[y], -np.inf, scores)
        distances = scores[np.arange(500), y] - others.max(axis=1)
    guess = model.predict(X)
    order = np.argsort(distances)[:10]
    assert [one["row"] for one in found["worst"]] == order.tolist()
    assert [one["distance"] for one in found["worst"]] == pytest.approx(distances[order])
    assert [(one["label"], one["predicted"]) for one in found["worst"]] == [(str(y[k]), str(guess[k])) for k in order]
    counts, reach = np.array(found["distances"]["counts"]), found["distances"]["reach"]
    expected, _ = np.histogram(distances, bins=len(counts), range=(-reach, reach))
    assert counts.sum() == 500 and np.abs(distances).max() <= reach
    assert counts[: len(counts) // 2].sum() == found["mistakes"] == np.sum(guess != y)
    assert np.abs(np.cumsum(counts) - np.cumsum(expected)).max() <= 1  # of one at a border of two bins
    assert {name: value for name, value in found.items() if name not in ("worst", "distances")} == model.evaluate(
        (X, y)
    )
    json.dumps(found)


def test_of_numbers(pieces, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + rng.standard_t(2, size=300)
    model = sm.train(X, y, loss="huber:1").model
    found = wrong_rows(model, write_h5(tmp_path / "a.h5", X, y))
    errors = model.predict(X) - y
    order = np.argsort(-np.abs(errors))[:10]
    assert [one["row"] for one in found["worst"]] == order.tolist()
    assert [one["label"] for one in found["worst"]] == pytest.approx(y[order])
    assert sum(found["distances"]["counts"][:128]) == np.sum(errors < 0.0)


def test_a_row_with_the_score_0_is_where_its_prediction_is():
    X, y = np.array([[0.0], [0.0], [1.0]]), np.array(["a", "b", "b"])
    model = sm.LinearModel(np.array([[1.0]]), np.zeros(1), np.array(["a", "b"]), {})
    found = wrong_rows(model, (X, y))
    assert found["mistakes"] == 1
    assert found["worst"] == [{"row": 1, "label": "b", "predicted": "a", "distance": 0.0}]
    assert sum(found["distances"]["counts"][:128]) == 1 and sum(found["distances"]["counts"][128:]) == 2


def test_a_histogram_doubles_its_reach_and_loses_nothing():
    values = np.random.default_rng(1).standard_cauchy(2000)
    found = Histogram()
    for part in np.array_split(values, 50):
        found.add(part, part < 0.0)
    assert found.reach >= np.abs(values).max() and found.counts.sum() == 2000
    expected, _ = np.histogram(values, bins=256, range=(-found.reach, found.reach))
    assert np.abs(np.cumsum(found.counts) - np.cumsum(expected)).max() <= 1


def test_a_request_to_stop_ends_the_read(blobs):
    X, y = blobs
    model = sm.train(X, y).model
    with pytest.raises(Unfinished, match="stopped by signal"):
        wrong_rows(model, (X, y), should_stop=lambda: "signal")
