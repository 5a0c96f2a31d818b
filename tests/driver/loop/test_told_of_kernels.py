"""Listeners are told of each kernel that is compiled, with those that it calls; without any the log tells, once."""

import importlib
import json
import logging
import pkgutil
import time

import numba
import numpy as np
import pytest

import streammargin as sm
from streammargin import compiled
from streammargin.compiled import jit
from streammargin.driver.loop import compiling, runs
from streammargin.driver.loop.compiling import told_of_kernels

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


def test_kernels_and_seconds_that_are_left_are_those_measured(monkeypatch):
    """`second` and a form of `first` are on disk, `unknown` was not measured, `third` is never needed; 10 s were 2."""
    measured = {"first": [7.0, 2.0], "second": [3.0], "third": [1.0, 5.0]}
    monkeypatch.setattr(compiling, "kernels_of", lambda kind: measured if kind == "known" else {})
    monkeypatch.setattr(compiling, "compile_seconds", lambda: 10.0 * len(told))
    monkeypatch.setattr(compiling, "READY", [])
    monkeypatch.setattr(compiling, "_READY_FOR", {"known": ["first"], "more": ["third"]})

    @numba.njit
    def first(x):
        return x + 1

    @numba.njit
    def unknown(x):
        return x + 2

    told = []
    known = [(4, 11.0), (5, 11.0), (4, 8.0), (4, 30.0)]
    for kind, expected in (("known", known), ("other", [(None, None)] * 4)):
        with told_of_kernels(told.append, kind):
            for function, found in ((unknown, "second"), (first, "first")):
                function(1 if kind == "known" else 1.0)
                compiling.READY.append(found)  # as kernels do
        assert [(event["of"], event["seconds_left"]) for event in told] == expected
        told.clear()
    assert compiling._READY_FOR["known"] == ["first", "second", "first"]


def test_a_training_is_of_a_measured_kind_and_measured_kernels_exist(monkeypatch):
    kinds, rows = set(), np.random.default_rng(0).standard_normal((60, 3))
    monkeypatch.setattr(runs, "kind_of", lambda *given: kinds.add(compiling.kind_of(*given)) or "")
    sm.train((rows, np.sign(rows[:, 0])), tol=0.5)
    measured = json.loads(compiling.MEASURED.read_text())
    assert kinds == {"newton steps dense"} <= measured.keys()
    names = {name for kernels in measured.values() for name in kernels}
    modules = [f"{compiled.__name__}.{one.name}" for one in pkgutil.iter_modules(compiled.__path__)]
    found = [one for module in modules for one in vars(importlib.import_module(module)).values()]
    assert names <= {one.__name__ for one in found if isinstance(one, jit.CompiledKernel)}


@pytest.mark.parametrize("long, times", [(0.0, 1), (1e6, 0)])
def test_the_log_tells_of_long_compiling_if_nobody_listens(long, times, monkeypatch, caplog):
    monkeypatch.setattr(compiling, "_LONG", long)
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
