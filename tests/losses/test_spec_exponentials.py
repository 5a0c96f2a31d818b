"""exp(-x), log(1 + t) and log(x) against numpy's in extended precision, in plain Python and compiled."""

import numba
import numpy as np
import pytest

from streammargin.compiled import overloads  # noqa: F401
from streammargin.losses import exponentials

EPS = np.finfo(float).eps
EXPONENTS = np.concatenate([[0.0, 5e-324, 1e-17, 707.9999], np.linspace(0, 707, 4001), np.logspace(-20, 2.8, 2001)])


@numba.njit
def exps_minus(x, out):
    for i in range(x.size):
        out[i] = exponentials.exp_minus(x[i])


@numba.njit
def logs_one_plus(t, out):
    for i in range(t.size):
        out[i] = exponentials.log_one_plus(t[i])


@numba.njit
def logarithms(x, out):
    for i in range(x.size):
        out[i] = exponentials.logarithm(x[i])


@pytest.mark.parametrize("run", [exps_minus, exps_minus.py_func])
def test_exp_minus_is_right_to_a_unit_in_the_last_place(run):
    run(EXPONENTS, found := np.empty_like(EXPONENTS))
    true = np.exp(-EXPONENTS.astype(np.longdouble))
    assert np.abs((found - true) / true).max() <= EPS
    for none in (708.0, 1e4, np.inf):
        assert exponentials.exp_minus(none) == 0.0


@pytest.mark.parametrize("run", [logs_one_plus, logs_one_plus.py_func])
def test_log_one_plus_is_right_to_two_units_in_the_last_place(run):
    t = np.unique(np.concatenate([np.exp(-EXPONENTS), np.linspace(0.4, 0.43, 101), [exponentials.BREAK, 1.0]]))
    run(t, found := np.empty_like(t))
    true = np.log1p(t.astype(np.longdouble))
    assert np.abs((found - true) / true).max() <= 2 * EPS
    assert exponentials.log_one_plus(0.0) == 0.0


@pytest.mark.parametrize("run", [logarithms, logarithms.py_func])
def test_logarithm_is_right_to_two_units_in_the_last_place(run):
    near = 1.0 + np.linspace(-1e-3, 1e-3, 201)
    x = np.concatenate([np.logspace(-307, 308, 4001), np.linspace(0.3, 3.0, 2001), near, 2.0 ** np.arange(-1022, 1023)])
    run(x, found := np.empty_like(x))
    true = np.log(x.astype(np.longdouble))
    some = true != 0
    assert np.abs((found - true)[some] / true[some]).max() <= 2 * EPS
    assert np.all(found[~some] == 0.0)
