"""Listeners are told of each kernel that is compiled, with those that it calls."""

import numba
import pytest

from streammargin.driver.runs import told_of_kernels


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
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
    assert [event["kernels"] for event in kernels] == [1, 2]
    assert 0.0 < kernels[0]["seconds"] < kernels[1]["seconds"]
    assert all(event["event"] == "compiling" for event in told)
