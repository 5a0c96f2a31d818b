"""Listeners are told of each kernel that is compiled, with those that it calls; without any the log tells, once."""

import logging
import time

import numba
import pytest

from streammargin.driver.loop import runs
from streammargin.driver.loop.runs import told_of_kernels

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


def test_a_kernel_is_told_once_with_the_seconds_so_far():
    @numba.njit
    def inner(x):
        return x + 1

    @numba.njit
    def outer(x):
        return inner(x) * 2

    told = []
    with told_of_kernels(told.append):
        outer(1)
        outer(1.0)
        outer(1)
    outer(1j)  # nobody listens
    kernels = [event for event in told if "kernels" in event]
    assert [(event["kernels"], event["busy"]) for event in kernels] == [(0, True), (1, False), (1, True), (2, False)]
    assert [event["parts"] for event in told if "parts" in event] == [1, 1]  # inner, of each kind
    assert 0.0 == kernels[0]["seconds"] < kernels[1]["seconds"] < kernels[3]["seconds"]
    assert all(event["event"] == "compiling" for event in told)


@pytest.mark.parametrize("long, times", [(0.0, 1), (1e6, 0)])
def test_the_log_tells_of_long_compiling_if_nobody_listens(long, times, monkeypatch, caplog):
    monkeypatch.setattr(runs, "_LONG", long)
    caplog.set_level(logging.WARNING, "streammargin.compiling")

    def told():
        return [record.levelname for record in caplog.records if record.name == "streammargin.compiling"]

    with told_of_kernels(None):
        for value in (1, 1.0):
            numba.njit(lambda x: x + 1)(value)
            for _ in range(100):
                if not long and not told():
                    time.sleep(0.1)  # until the timer's thread had its turn
    assert told() == ["WARNING"] * times
