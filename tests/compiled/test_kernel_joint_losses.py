"""The steps of losses of all lines are the same compiled as in Python, whatever the strides of their arrays."""

import math

import numpy as np
import pytest
from reference.joint_losses import Row

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.losses.hinges import Hinge
from streammargin.losses.l2_error import L2Error
from streammargin.losses.logistic import Logistic

pytestmark = pytest.mark.slow

ROWS = 40


@kernel
def steps(loss, u, signs, off, centres, cap, L, a, figures, slopes):
    """Columns are rows: u, signs, off, centres, a (K, m); figures (m, 3), slopes (m, 3, K)."""
    for r in range(u.shape[1]):
        value, share, slip = loss.coupled_step(u[:, r], signs[:, r], off[:, r], centres[:, r], cap, L, a[:, r])
        figures[r, 0], figures[r, 1], figures[r, 2] = value, share, slip
        loss.coupled_slopes(u[:, r], signs[:, r], centres[:, r], cap, L, a[:, r], slopes[r, 0], slopes[r, 1])
        loss.coupled_middle(signs[:, r], cap, slopes[r, 2])
        loss.coupled_feasible(signs[:, r], cap, slopes[r, 2])
        figures[r, 1] += loss.coupled_dual(signs[:, r], cap, slopes[r, 2])


@pytest.mark.parametrize("loss", [Logistic().joint(), Hinge().joint(), L2Error().joint()], ids=lambda loss: type(loss))
def test_compiled_steps_are_those_of_python(loss):
    rng = np.random.default_rng(0)
    for lines in (1, 3, 8, 26):
        rows = [Row(3.0 * rng.standard_normal(lines), int(rng.integers(lines)), 2.0) for _ in range(ROWS)]
        if "L2" in type(loss).__name__:
            rows = [row._replace(own=None) for row in rows]
        u, signs = np.column_stack([row.u for row in rows]), np.column_stack([row.signs for row in rows])
        centres = np.column_stack([row.duals(rng.dirichlet(np.ones(lines))) / 2 for row in rows])
        for L in (0.0, 0.7, math.inf):
            found = []
            for run in (steps, getattr(steps, "py_func", steps)):
                a, figures, slopes = np.zeros(u.shape), np.zeros((ROWS, 3)), np.zeros((ROWS, 3, lines))
                run(loss, u, signs, np.full(u.shape, 1e-9), centres, 2.0, L, a, figures, slopes)
                found.append((a, figures, slopes))
            for compiled, plain in zip(*found, strict=True):
                np.testing.assert_allclose(compiled, plain, rtol=1e-12, atol=1e-14)
            if math.isinf(L):
                np.testing.assert_allclose(found[0][0], centres, atol=1e-14)


@kernel
def one_step(loss, u, signs, off, centres, cap, L, a):
    """A step whose arrays are contiguous."""
    return loss.coupled_step(u, signs, off, centres, cap, L, a)


@pytest.mark.parametrize("loss", [Logistic().joint(), Hinge().joint(), L2Error().joint()], ids=lambda loss: type(loss))
def test_no_bit_depends_on_where_the_arrays_lie(loss):
    """Machine code may ask at run time how far apart arrays are, and add up in another order."""
    rng = np.random.default_rng(0)
    for lines in (3, 4, 8, 20):
        own = None if "L2" in type(loss).__name__ else 0
        row = Row(3.0 * rng.standard_normal(lines), own, 1.0)
        given = row.u, row.signs, rng.random(lines), row.duals(rng.dirichlet(np.ones(lines)))
        for L in (0.0, 1.0):
            found = set()
            for _ in range(40):
                starts = rng.permutation(np.cumsum(lines + rng.integers(0, 9, 5)))
                whole = np.empty(6 * lines + 50)
                u, signs, off, centres, a = (whole[start : start + lines] for start in starts)
                for place, values in zip((u, signs, off, centres), given, strict=True):
                    place[:] = values
                found.add((*one_step(loss, u, signs, off, centres, 1.0, L, a), a.tobytes()))
            assert len(found) == 1
