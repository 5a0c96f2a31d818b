"""When certificates are made, what the history keeps, and how runs end."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest

import streammargin as sm
from streammargin.driver.status import clock
from streammargin.driver.status.events import MOST_KEPT_EVENTS, History
from streammargin.driver.status.stopping import Stopping
from streammargin.json_values import from_plain, to_plain

ONE = np.array([0])


def test_a_certificate_is_due_when_the_prediction_is_below_the_tolerance():
    stopping = Stopping(1, 1e-3)
    assert not stopping.due(np.array([1e-1]), ONE)
    assert not stopping.due(np.array([1e-2]), ONE)  # predicted: 1e-2 * sqrt(0.1) = 3.2e-3
    assert stopping.due(np.array([2e-3]), ONE)  # predicted: 2e-3 * sqrt(0.2) = 0.9e-3


def test_the_last_certificate_calibrates_the_next_prediction():
    stopping = Stopping(1, 1e-3)
    stopping.due(np.array([1e-3]), ONE)
    stopping.learn(np.array([5e-3]), ONE)  # exact: five times the prediction
    assert not stopping.due(np.array([5e-4]), ONE)
    assert stopping.due(np.array([2e-4]), ONE)


def test_every_problem_must_be_believed_ready_and_none_waits_for_ever():
    both = np.array([0, 1])
    stopping = Stopping(2, 1e-3)
    assert not stopping.due(np.array([1e-4, 1e-1]), both)
    assert stopping.due(np.array([1e-4, 1e-1]), ONE)
    waiting = Stopping(1, 1e-3)
    assert any(waiting.due(np.array([1.0]), ONE) for _ in range(100))


def test_a_cheap_certificate_ends_the_passes_of_what_is_done():
    four, estimate = np.arange(4), np.array([1e-4, 1e-4, 1.0, 1.0])
    stopping = Stopping(4, 1e-3)
    assert [stopping.due(estimate, four, True) for _ in range(2)] == [False, True]  # two are done, twice: as many as 4
    stopping.learn(np.array([1e-4, 1e-4, 1.0, 1.0]), four)
    assert not any(stopping.due(estimate, four[2:], True) for _ in range(10))
    dear = Stopping(4, 1e-3)
    assert not any(dear.due(estimate, four) for _ in range(10))


def test_the_history_is_bounded_and_thinned_evenly():
    heard = []
    history = History([heard.append])
    history.publish({"event": "run_start"})
    for number in range(35_000):
        history.publish({"event": "pass_end", "pass": number})
    assert len(heard) == 35_001 and len(history.events) <= MOST_KEPT_EVENTS
    assert history.events[0]["event"] == "run_start"
    steps = np.diff([event["pass"] for event in history.events[1:]])
    assert np.median(steps) == steps.max() and np.mean(steps != steps.max()) < 0.01


def test_plain_values_survive_json():
    values = {"a": np.float64(1.5), "b": [np.int64(3), float("inf"), -float("inf")], "c": np.array([True, False]),
              "d": None, "e": "text", "f": float("nan")}  # fmt: skip
    plain = json.loads(json.dumps(to_plain(values), allow_nan=False))
    assert plain == {"a": 1.5, "b": [3, "inf", "-inf"], "c": [True, False], "d": None, "e": "text", "f": None}
    assert from_plain(plain)["b"] == [3, float("inf"), -float("inf")]


def test_passes_and_seconds_end_a_run(endless, monkeypatch):
    result = sm.train(endless, C=100, tol=0.0, passes=3)
    assert (result.reason, result.passes, result.converged) == ("passes", 3, False)
    assert result.certificate["gap"] > 0.0  # exact figures all the same
    looks = itertools.count()  # each of them takes a hundredth of a second, by this clock
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: 0.01 * next(looks)))
    result = sm.train(endless, C=100, tol=0.0, passes=10**9, max_seconds=0.5)
    assert result.reason == "seconds" and result.certificate["gap"] is not None
    assert 0.01 * next(looks) <= 0.5 + clock.GRACE


def test_a_stop_from_outside_ends_between_blocks_without_figures(blobs):
    calls = []

    def stop():
        calls.append(1)
        return "signal" if len(calls) == 4 else None

    result = sm.train(blobs, tol=0.0, should_stop=stop)
    assert result.reason == "signal" and len(calls) == 4
    assert result.certificate["gap"] is None and not result.converged and np.any(result.model.coef_)


def test_the_library_prints_nothing(blobs, capfd):
    sm.train(blobs)
    assert capfd.readouterr() == ("", "")


def test_the_certified_weights_are_the_ones_returned(blobs):
    X, y = blobs
    for C in (0.1, 1.0):
        result = sm.train(blobs, C=C, tol=1e-4, bias=0)
        w = result.model.coef_[0]
        u = y * (X.astype(np.float64) @ w)
        primal = 0.5 * w @ w + C * np.maximum(0.0, 1.0 - u).sum()
        assert result.certificate["primal"] == pytest.approx(primal, rel=1e-12)
        assert result.certificate["mistakes"] == np.sum(u <= 0)
        assert result.certificate["dual"] <= primal
