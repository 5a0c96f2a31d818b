"""The time of compiling is measured, so that a limit in seconds does not count it as part of a pass."""

import time

import numba
import pytest

from streammargin.compiled.jit import compile_seconds


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_only_compiling_is_counted():
    @numba.njit
    def inner(x):
        return x + 1

    @numba.njit
    def outer(x):
        return inner(x) * 2

    before, started = compile_seconds(), time.perf_counter()
    outer(1)
    spent = time.perf_counter() - started
    after = compile_seconds()
    assert 0 < after - before <= spent  # `inner` is compiled within `outer`, and counted once
    outer(1)
    assert compile_seconds() == after
