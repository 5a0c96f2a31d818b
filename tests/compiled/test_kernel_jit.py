"""What is compiled, when, and what runs as plain Python before."""

import gc
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import event
from reference.datasets import as_form, noisy

import streammargin as sm
from streammargin.compiled import jit
from streammargin.driver.loop import runs
from streammargin.workers import Workers

compiling = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


def fresh(function):
    """A kernel that is nowhere on disk."""
    made = jit.kernel(function)
    made._cache = numba.core.caching.NullCache()
    return made


def doubled(x):
    return 2.0 * x


@pytest.fixture
def patience(monkeypatch):
    monkeypatch.setattr(jit, "PLAIN_SECONDS", 2.0)


@compiling
def test_a_slice_that_is_set_to_another_is_found(slow_to_compile):
    @numba.njit
    def copied(x, y):
        x[:1] = y

    copied(np.zeros(2), np.zeros(1))
    assert slow_to_compile.found
    slow_to_compile.found.clear()  # else the test fails for that


@compiling
def test_small_calls_are_plain_python(patience):
    kernel = fresh(doubled)
    with jit.small_calls(0.1):
        assert kernel(1.5) == 3.0 and not kernel.signatures
    assert kernel(1.5) == 3.0 and len(kernel.signatures) == 1  # nobody says that they are small
    with jit.small_calls(0.1):
        assert kernel(2.5) == 5.0
    assert kernel.spent < 0.1


@compiling
def test_large_calls_and_those_of_other_threads_are_compiled(patience):
    kernel, other = fresh(doubled), fresh(doubled)
    with jit.small_calls(3.0):
        kernel(1.5)
    with jit.small_calls(0.1):
        thread = threading.Thread(target=other, args=(1.5,))
        thread.start()
        thread.join()
    assert kernel.signatures and other.signatures


@compiling
def test_threads_of_a_pool_know_that_calls_are_small(patience):
    kernel, workers = fresh(doubled), Workers(2)
    with jit.small_calls(0.1):
        assert list(workers.each(kernel, [1.5, 2.5, 3.5])) == [3.0, 5.0, 7.0]
    workers.close()
    assert not kernel.signatures and kernel.spent > 0.0


@compiling
def test_a_kernel_that_has_had_its_time_is_compiled(patience):
    kernel = fresh(doubled)
    kernel.spent = 1.95
    with jit.small_calls(0.1):
        kernel(1.5)
    assert kernel.signatures


@compiling
def test_what_plain_python_calls_is_plain_python_too(patience):
    inner = fresh(doubled)

    def twice(x):
        return inner(inner(x))

    outer = fresh(twice)
    with jit.small_calls(0.1):
        assert outer(1.0) == 4.0
    assert not outer.signatures and not inner.signatures
    assert outer.spent > 0.0 and inner.spent == 0.0


@compiling
def test_what_is_on_disk_is_loaded(patience, monkeypatch):
    kernel = fresh(doubled)
    kernel._cache = jit.Cache(doubled)
    monkeypatch.setattr(kernel._cache, "holds", lambda signature, context: True)
    with jit.small_calls(0.1):
        kernel(1.5)
    assert kernel.signatures


@compiling
def test_whoever_waits_for_the_compiler_is_told_once(monkeypatch):
    monkeypatch.setattr(jit, "MOMENT", 0.0)
    told = []
    with jit.told_of_compiling(lambda: told.append("now")):
        for _ in range(2):
            fresh(doubled)(1.5)
    assert told == ["now"]
    monkeypatch.setattr(jit, "MOMENT", 1000.0)
    with jit.told_of_compiling(lambda: told.append("late")):
        fresh(doubled)(1.5)
    fresh(doubled)(1.5)
    assert told == ["now"]


@compiling
def test_a_training_shows_that_it_waits_for_the_compiler(monkeypatch, capsys):
    X, y = noisy(60, 4)

    def slow(waiting):
        for tell in list(waiting):
            tell()

    monkeypatch.setattr(runs, "put_off", lambda run: slow(jit._clock.waiting))
    monkeypatch.setattr(jit, "MOMENT", 1000.0)
    sm.train((X, y), verbose=True)
    assert capsys.readouterr().err.count("compiling for this machine, once") == 1


@compiling
def test_no_garbage_is_looked_for_while_the_compiler_is_at_work():
    states = []

    class Look(event.Listener):
        def on_start(self, event):
            states.append(gc.isenabled())

        def on_end(self, event):
            pass

    with event.install_listener("numba:compile", Look()):
        fresh(doubled)(1.5)
    assert states == [False] and gc.isenabled()


# trains small problems in every way that a first user may; prints what was proven, and how often anything was compiled
TRAIN = """
import json
from numba.core import event
from compiled.test_kernel_jit import trainings
counts = []
class Count(event.Listener):
    def on_start(self, event): counts.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event): pass
event.register("numba:compile", Count())
print(json.dumps([trainings(), counts]))
"""


def trainings():
    X, y = noisy(60, 4)
    found = []
    for options in ({}, {"loss": "logistic"}, {"penalty": "l1"}, {"loss": "quantile:0.9"}):
        for form in ("dense", "csr"):
            result = sm.train((as_form(X, form), y), tol=1e-6, **options)
            found.append([result.converged, result.certificate.primal])
    return found


@pytest.mark.slow
@compiling
def test_small_first_trainings_compile_nothing_and_agree_with_compiled_ones(tmp_path):
    tests = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": tests, "NUMBA_CACHE_DIR": str(tmp_path), "STREAMMARGIN_PATIENCE": "30"}
    done = subprocess.run([sys.executable, "-W", "error", "-c", TRAIN], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    plain, compiled = json.loads(done.stdout)
    assert not set(compiled) - {"extremes"}
    for (converged, primal), (as_well, expected) in zip(plain, trainings(), strict=True):
        assert converged and as_well and primal == pytest.approx(expected, rel=1e-6)
