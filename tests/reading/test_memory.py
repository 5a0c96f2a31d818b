"""What is said of numbers that a method keeps of each row."""

import logging
import math

import numpy as np
import pytest
from reference.sources import CountingSource

import streammargin as sm
from streammargin.errors import UsageError
from streammargin.reading import plan
from streammargin.sizes import format_size
from streammargin.solvers.newton.newton import Newton

ROWS = 60_000


@pytest.fixture
def tall(monkeypatch):
    monkeypatch.setattr(plan, "SLACK_BYTES", 0)
    monkeypatch.setattr(plan, "LEAST_BLOCK_BYTES", 1 << 12)
    random = np.random.default_rng(0)
    X = random.standard_normal((ROWS, 4)).astype(np.float32)
    return CountingSource(X, np.where(X[:, 0] + random.standard_normal(ROWS) > 0, 1, -1), np.arange(0, ROWS + 1, 500))


@pytest.mark.parametrize("solver, penalty, each", [("asdca", "l2", 17), ("pdprox", "l1", 20)])
def test_a_budget_too_small_for_them_names_their_bytes_and_who_keeps_none(solver, penalty, each, tall):
    with pytest.raises(UsageError) as refused:
        sm.train(tall, solver=solver, penalty=penalty, memory=700_000)
    in_all = format_size(each * ROWS)
    assert f"{solver} keeps {each} bytes a row, {in_all} in all; `solver=newton` keeps none" in refused.value.args[0]
    assert sm.train(tall, solver="newton", penalty=penalty, memory=700_000, tol=0.01).converged


@pytest.mark.parametrize("given, who", [
    ({"C": 1.0, "penalty": "lp:1.5"}, "every method for this problem keeps some"),
    ({"C": 1.0, "loss": "hinge:top=9"}, "every method for this problem keeps some"),
    ({"C": math.inf, "penalty": "lp:1.5"}, "`solver=mirror` keeps none"),
    ({"C": math.inf}, "`solver=mirror` keeps none"),
], ids=str)  # fmt: skip
def test_auto_says_who_keeps_none_if_anybody_does(given, who, tall):
    with pytest.raises(UsageError) as refused:
        sm.train(tall, memory=700_000, **given)
    assert "bytes a row" in refused.value.args[0] and who in refused.value.args[0]


def test_auto_never_takes_a_slower_solver_in_silence(tall, monkeypatch, caplog):
    monkeypatch.setattr(Newton, "memory", lambda self, problem: 1 << 40)
    with caplog.at_level(logging.WARNING):
        result = sm.train(tall, memory="3M", passes=2)
    [told] = [record.getMessage() for record in caplog.records if getattr(record, "code", "") == "memory"]
    assert result.model.header["solver"].startswith("ascent") and told.startswith("auto took ascent")
    assert "the smallest plan needs" in told


def test_out_of_core_newton_says_what_it_keeps(tall, caplog):
    with caplog.at_level(logging.INFO):
        sm.train(tall, memory=700_000, tol=0.1)
    assert any("no number of a row is kept" in record.getMessage() for record in caplog.records)
