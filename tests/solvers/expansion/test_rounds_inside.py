"""Rounds whose steps on pairs of rows do not end: interior points find the optimum of the round."""

import math

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import traced

import streammargin as sm
from streammargin.solvers.expansion.form import Form
from streammargin.solvers.expansion.interior import _Bordered, solved

RNG = np.random.default_rng(3)


def form(m, low, high, bend, over, under, random):
    full = np.ones(m)
    return Form(
        full, 0.0 * full, full, random.standard_normal(m), low * full, high * full, bend * full, over, under, False
    )


FORMS = {
    "hinge": (0.0, 2.0, 0.0, 0.0, 0.0), "squared hinge": (0.0, np.inf, 0.3, 0.0, 0.0),
    "huber": (-2.0, 2.0, 0.1, 0.0, 0.0), "absolute": (-1.5, 1.5, 0.0, 0.2, 0.2),
    "squared error": (-np.inf, np.inf, 0.1, 0.0, 0.0), "quantile": (-0.2, 1.8, 0.0, 0.0, 0.0),
    "kinked on one side": (-1.0, 2.0, 0.05, 0.3, 0.0),
}  # fmt: skip


def best(H, g, own, total):
    """The least b.H b / 2 - g.b + costs over the bounds, with this sum of b, by an independent method."""
    m = len(g)
    P = sp.csc_array(np.block([[H, -H], [-H, H]]) + 1e-14 * np.abs(H).max() * np.eye(2 * m))
    costs = np.concatenate([own.under - g, own.over + g])  # b = p - q
    ends = np.concatenate([np.maximum(own.high, 0.0), np.maximum(-own.low, 0.0)])
    least = np.concatenate([np.maximum(own.low, 0.0), np.maximum(-own.high, 0.0)])
    there = np.isfinite(ends)
    A, b = [-sp.eye_array(2 * m), sp.eye_array(2 * m).tocsr()[there]], [-least, ends[there]]
    cones = [clarabel.NonnegativeConeT(2 * m + int(there.sum()))]
    if total is not None:
        A, b = [np.concatenate([np.ones(m), -np.ones(m)])[None], *A], [[total], *b]
        cones = [clarabel.ZeroConeT(1), *cones]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    found = clarabel.DefaultSolver(P, costs, sp.csc_array(sp.vstack([sp.csc_array(one) for one in A])),
                                   np.concatenate(b), cones, settings).solve()  # fmt: skip
    v = np.array(found.x)
    return 0.5 * v @ (P @ v) + costs @ v


@pytest.mark.parametrize("free", [False, True])
def test_a_singular_system_has_no_finite_solution_and_warns_of_nothing(free):
    with np.errstate(all="ignore"):
        found = _Bordered(np.ones((3, 3)), free).solve(np.arange(3.0), 0.0)[0]
    assert not np.isfinite(found).any()


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("rank, size", [(2, 1.0), (2, 3e5), (12, 1.0), (40, 1e-3)])
def test_a_round_is_solved_however_ill_conditioned_it_is(name, free, rank, size):
    random, m = np.random.default_rng([rank, len(name), free]), 30
    X = np.round(random.standard_normal((m, rank)), 1)
    K = size * X @ X.T
    own = form(m, *FORMS[name], random)
    b = np.clip(0.1 * random.standard_normal(m), own.low, own.high)
    others = random.standard_normal(m)  # scores by the coefficients of other rows
    found = solved(K, own, K @ b + others, b, free)
    assert np.all((own.low <= found) & (found <= own.high))
    if free:
        assert found.sum() == pytest.approx(b.sum(), abs=1e-12 * max(1.0, np.abs(found).max()))
    H, g = K + np.diag(own.bend), own.t - others
    value = 0.5 * found @ H @ found - g @ found + np.where(found > 0.0, own.under, own.over) @ np.abs(found)
    near = 1e-6 if size <= 1.0 else 2e-3  # of K = 3e5 rounding hides the rest
    assert value <= best(H, g, own, b.sum() if free else None) + near * (1.0 + abs(value))


def test_nothing_is_changed_if_nothing_is_gained():
    own = form(5, *FORMS["hinge"], RNG)._replace(t=-np.ones(5))
    b = np.zeros(5)
    np.testing.assert_array_equal(solved(np.eye(5), own, b, b, False), b)
    fixed = form(5, 0.0, 0.0, 0.0, 0.0, 0.0, RNG)
    np.testing.assert_array_equal(solved(np.eye(5), fixed, b, b, True), b)


@pytest.mark.parametrize("loss", ["huber:0.5", "absolute_error", "squared_error", "epsilon_insensitive:0.1"])
@pytest.mark.parametrize("size", [1.0, 500.0])
def test_a_column_of_large_values_takes_few_passes(loss, size):
    random = np.random.default_rng(0)
    x = random.integers(-3, 3, 15)
    X, y = (size * x[:, None]).astype(np.float32), np.round(-0.5 * x + 0.1 * random.standard_normal(15), 2)
    result = sm.train((X, y), kernel="linear", C=15.0, loss=loss, passes=20)
    assert result.converged
    linear = sm.train((X, y), C=15.0, loss=loss, bias="free", tol=1e-6)
    assert result.certificate.primal == pytest.approx(linear.certificate.primal, rel=2e-3)


def test_bounds_and_violations_of_many_rows_take_no_copies_of_their_length():
    m, random = (1 << 20) + 5, np.random.default_rng(5)
    many = form(m, *FORMS["kinked on one side"], random)
    f, b = random.standard_normal(m), random.choice([-1.0, -0.5, 0.0, 0.5, 2.0], m)
    with traced() as bounding:
        up, down = many.bounds(f, b)
    with traced() as violating:
        found = many.violations(f, b, 0.1)
    assert bounding.peak < 8 * m and violating.peak < 8 * m + 8 * m
    slope = many.t - f - 0.05 * b
    rise = np.where(b == 2.0, -math.inf, slope - np.where(b >= 0.0, 0.0, -0.3))
    fall = np.where(b == -1.0, math.inf, slope - np.where(b > 0.0, 0.0, -0.3))
    assert (up, down) == (rise.max(), fall.min())
    np.testing.assert_allclose(found, np.maximum(rise - 0.1, 0.0) + np.minimum(fall - 0.1, 0.0), atol=1e-14)
