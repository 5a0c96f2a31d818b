"""The solver factors: passes, memory, runs that are stopped and go on."""

import numpy as np
import pytest
from conftest import slow
from reference import matrices
from reference.stopped import stop_after

import streammargin as sm


def low_rank(m=300, n=500, count=20_000, seed=1):
    random = np.random.default_rng(seed)
    cells = random.choice(m * n, count, replace=False)
    i, j = cells // n, cells % n
    X = random.standard_normal((m, 2)) @ random.standard_normal((2, n))
    return i, j, X[i, j] + 0.1 * random.standard_normal(count)


@pytest.mark.parametrize("loss", ["absolute_error", "squared_error"])
def test_a_low_rank_takes_few_passes(loss):
    result = sm.complete(low_rank(), loss=loss, C=0.03, tol=1e-4, solver="factors")
    sizes = np.sum(result.model.left_**2, axis=0)
    assert result.converged and np.sum(sizes > 1e-3 * sizes[0]) == 2 and result.passes < 200


@pytest.mark.parametrize("solver", ["factors", "splitting", "auto"])
@pytest.mark.parametrize("loss", ["squared_error", matrices.HINGE])
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path, solver, loss):
    data = matrices.ratings(count=600)
    options = {"C": 1.0, "tol": 1e-5, "loss": loss, "solver": solver, "passes": 3000}
    whole = sm.complete(data, checkpoint=str(tmp_path / "whole"), **options)
    for after in (1, 7, 40, 133):
        folder = str(tmp_path / str(after))
        first = sm.complete(data, checkpoint=folder, checkpoint_seconds=1e-9, should_stop=stop_after(after), **options)
        assert first.reason == "signal" or first.converged
        again = sm.complete(data, checkpoint=folder, **options)
        assert np.array_equal(again.model.left_, whole.model.left_)
        assert again.certificate.gap == whole.certificate.gap and again.passes == whole.passes


@pytest.mark.parametrize("loss", [slow("absolute_error"), "squared_error"])
def test_ratings_on_disk_give_the_same_answer(tmp_path, monkeypatch, loss):
    from streammargin.reading.plan import Plan
    from streammargin.tables.ratings import sorted as spool
    from streammargin.training import fitting

    made = fitting.make_plan

    def in_blocks(rows, *given):
        found = made(rows, *given)
        return found if rows.whole() is not None else Plan(rows.bounds(1 << 14), 3, found.memory_bytes, False)

    monkeypatch.setattr(fitting, "make_plan", in_blocks)
    i, j, values = low_rank()
    seen = []
    inside = sm.complete((i, j, values), loss=loss, C=0.03, tol=1e-6)
    monkeypatch.setattr(spool, "ENTRIES_BUDGET_SHARE", 1e-3)  # of the budget, which is less than these take
    options = {"loss": loss, "C": 0.03, "tol": 1e-6}
    outside = sm.complete((i, j, values), listeners=[seen.append], **options)
    start = next(event for event in seen if event["event"] == "run_start")
    assert start["plan"]["blocks"] > 3
    assert outside.converged and outside.certificate.primal == pytest.approx(inside.certificate.primal, rel=2e-6)
    folder = str(tmp_path / "checkpoint")
    first = sm.complete(
        (i, j, values), checkpoint=folder, checkpoint_seconds=1e-9, should_stop=stop_after(31), **options
    )  # fmt: skip
    assert first.reason == "signal"
    again = sm.complete((i, j, values), checkpoint=folder, **options)
    assert np.array_equal(again.model.right_, outside.model.right_)


def test_limits_end_a_run_with_what_is_known():
    data = low_rank()
    short = sm.complete(data, C=0.1, tol=1e-9, passes=9)
    assert short.reason == "passes" and not short.converged and 0.0 < short.certificate.gap < 1.0
    assert sm.complete(data, C=0.1, tol=1e-9, passes=1).certificate.gap > 0.5
    quick = sm.complete(data, C=0.1, tol=1e-12, max_seconds=1e-9)
    assert quick.reason == "seconds"


@pytest.mark.parametrize("loss", ["absolute_error", "squared_error"])
def test_factors_without_room_to_grow_end_with_the_memory_that_they_need(loss, caplog):
    random = np.random.default_rng(0)
    i, j = np.nonzero(random.random((20, 15)) < 0.6)
    values = np.clip(np.round(3 + (random.standard_normal((20, 2)) @ random.standard_normal((2, 15)))[i, j]), 1, 5)
    result = sm.complete((i, j, values), loss=loss, memory="1M", passes=5000)
    told = [record.getMessage() for record in caplog.records if getattr(record, "code", "") == "memory"]
    assert result.passes < 2000 and not result.converged and len(told) == 1 and 'memory="32M"' in told[0]
    assert sm.complete((i, j, values), loss=loss, memory="32M").converged
