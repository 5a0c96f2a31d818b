"""A training without progress says so, and what to do: once a minute, and at its end."""

import itertools
import logging
from types import SimpleNamespace

import numpy as np
import pytest

import streammargin as sm
from streammargin.driver.status import stopping
from streammargin.driver.status.stopping import Gain
from streammargin.solvers.proof.figures import Figures


def with_an_id(n=400):
    random = np.random.default_rng(0)
    X = random.standard_normal((n, 4))
    X[:, 2] = random.integers(0, 10**12, n)
    return X, X[:, 0] + random.standard_normal(n) > 0


@pytest.fixture
def minutes(monkeypatch):
    """A clock that advances by ten seconds at each call."""
    looks = itertools.count()
    monkeypatch.setattr(stopping, "time", SimpleNamespace(monotonic=lambda: 10.0 * next(looks)))


def said(caplog, code):
    return [record.getMessage() for record in caplog.records if getattr(record, "code", "") == code]


def test_without_gain_it_says_so_once_a_minute_and_goes_on(minutes, caplog):
    with caplog.at_level(logging.WARNING, "streammargin"):
        result = sm.train(*with_an_id(), solver="sdca", passes=60)
    told = said(caplog, "no_gain")
    assert 8 <= len(told) <= 10 and result.passes == 60  # ten minutes
    assert all("no progress for" in text and "in column 2 " in text and 'try scale="maxabs"' in text for text in told)


def test_with_gain_it_does_not(monkeypatch, caplog):
    looks = itertools.count()
    monkeypatch.setattr(stopping, "time", SimpleNamespace(monotonic=lambda: float(next(looks))))
    X, y = with_an_id(9000)
    with caplog.at_level(logging.WARNING, "streammargin"):
        assert sm.train(X[:, :2], y, solver="sdca", tol=1e-3).passes > 1
    assert not said(caplog, "no_gain")


def test_a_gap_or_an_objective_that_falls_is_gain(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(stopping, "time", SimpleNamespace(monotonic=lambda: now[0]))
    known = Gain()

    def after(seconds, gap, primal=2.0):
        now[0] += seconds
        return known.remark(None, [Figures(primal, 0.0, gap, None, None, None, 0)])

    assert after(59.0, 0.9) is None and after(59.0, 0.8) is None and after(2.0, 0.8) is None
    assert after(59.0, 0.799) == "no progress for 1 min: the gap is still about 8.0e-01; the training continues"
    assert after(30.0, 0.8) is None and "no progress for 2 min" in after(31.0, 0.8)
    assert after(59.0, 0.8, primal=1.0) is None and after(59.0, 0.8, primal=1.0) is None


def test_one_of_several_trainings_that_improves_is_gain(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(stopping, "time", SimpleNamespace(monotonic=lambda: now[0]))
    known = Gain()
    for other in (0.9, 0.5, 0.1, 0.01):
        now[0] += 300.0
        assert known.remark(None, [Figures(2.0, 0.0, gap, None, None, None, 0) for gap in (1.0, other)]) is None
    for told in (False, True):
        now[0] += 300.0
        same = [Figures(2.0, 0.0, gap, None, None, None, 0) for gap in (1.0, 0.3)]
        assert (known.remark(None, same) is not None) == told


def test_a_long_read_is_not_without_gain(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(stopping, "time", SimpleNamespace(monotonic=lambda: now[0]))
    known, same = Gain(), [Figures(2.0, 0.0, 0.9, None, None, None, 0)]
    for told in (False, False, True, True):
        now[0] += 300.0
        assert (known.remark(None, same) is not None) == told


def test_compiling_is_no_time_without_gain(monkeypatch):
    now, compiled = [0.0], [0.0]
    monkeypatch.setattr(stopping, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(stopping, "compile_seconds", lambda: compiled[0])
    known = Gain()
    same = [Figures(2.0, 0.0, 0.9, None, None, None, 0)]
    assert known.remark(None, same) is None
    now[0], compiled[0] = 100.0, 90.0
    assert known.remark(None, same) is None
    now[0] = 151.0
    assert known.remark(None, same).startswith("no progress for 1 min")


def test_the_last_words_name_the_columns_and_no_smaller_C(caplog):
    with caplog.at_level(logging.WARNING, "streammargin"):
        result = sm.train(*with_an_id(), passes=20)
    [first], [last] = said(caplog, "scale"), said(caplog, "not_converged")
    assert not result.converged and first in last and "smaller C" not in last
    assert last.endswith("else raise passes or tol") and "scale" in first
    with caplog.at_level(logging.WARNING, "streammargin"):
        sm.train(*with_an_id(), passes=2, solver="sdca")
    assert f'; use solver="auto"; {said(caplog, "scale")[-1]}; else raise' in said(caplog, "not_converged")[-1]


def test_the_last_words_after_a_resume_know_the_columns_too(tmp_path, caplog):
    there = {"checkpoint": str(tmp_path / "there"), "solver": "sdca"}
    sm.train(*with_an_id(), passes=3, **there)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "streammargin"):
        sm.train(*with_an_id(), passes=6, **there)
    assert "in column 2 " in said(caplog, "not_converged")[0]


@pytest.mark.parametrize("solver", ["sdca", "newton"])
def test_verbose_shows_what_the_shell_shows(solver, capfd):
    X, y = with_an_id()
    sm.train(X[:, :2], y, solver=solver)
    assert capfd.readouterr() == ("", "")
    sm.train(X[:, :2], y, solver=solver, verbose=True)
    out, err = capfd.readouterr()
    assert out == "" and "400 rows, 2 features" in err and "converged (tolerance) after" in err


def test_so_it_does_of_streams_and_estimators(capfd):
    X, y = with_an_id()
    sm.train(iter([(X, y), (X, y)]), solver="perceptron", verbose=True)
    assert "not converged (passes) after 1 pass" in capfd.readouterr().err
    for estimator in (sm.MarginClassifier, sm.MarginRegressor):
        estimator(verbose=True).fit(X[:, :2], y)
        assert "converged (tolerance)" in capfd.readouterr().err
        estimator().fit(X[:, :2], y)
        assert capfd.readouterr() == ("", "")
