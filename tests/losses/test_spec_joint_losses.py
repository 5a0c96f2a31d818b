"""Losses of all lines together: against NumPy, bisection, an interior-point method, and their own differences."""

import itertools
import math

import numpy as np
import pytest
from reference.joint_losses import TWINS, Row
from scipy.special import log_softmax, logsumexp

from streammargin.losses import LOSSES as WORDS
from streammargin.losses.base import coupled, largest_bend
from streammargin.losses.hinges import Hinge
from streammargin.losses.l2_error import L2Error
from streammargin.losses.logistic import Logistic

LOSSES = {"softmax": Logistic().joint(), "crammer_singer": Hinge().joint(), "l2_error": L2Error().joint()}
LINES = (1, 2, 3, 5, 10)
EPS = np.finfo(float).eps
each_loss = pytest.mark.parametrize("name", LOSSES)


def step(name, row, centres, L, off=0.0):
    """(duals, value, share, slip)."""
    a = np.full(row.z.size, np.nan)
    off = np.broadcast_to(off, row.z.shape)
    return a, *LOSSES[name].coupled_step(row.u, row.signs, off, centres, row.cap, L, a)


def feasible(name, row, rng):
    """Random feasible duals, now and then at a corner or near one."""
    lines = row.z.size
    if name == "l2_error":
        direction = rng.standard_normal(lines)
        return row.cap * rng.choice([0.0, rng.random(), 1.0 - EPS]) * direction / np.linalg.norm(direction)
    p = rng.dirichlet(np.full(lines, rng.choice([0.05, 1.0, 10.0])))
    return row.duals(np.eye(lines)[rng.integers(lines)] if rng.random() < 0.3 else p)


def situations(name, count=60, seed=0):
    """(row, centres, L) over several orders of magnitude."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        lines = LINES[k % len(LINES)]
        cap, L = 10 ** rng.uniform(-3, 3, 2)
        own = None if name == "l2_error" else int(rng.integers(lines))
        row = Row(rng.normal(0, rng.choice([0.1, 3.0, 30.0]), lines), own, cap)
        yield row, feasible(name, row, rng), L


def check_feasible(name, row, a):
    """Duals are feasible as exactly as floats allow."""
    assert np.all(np.isfinite(a))
    if name == "l2_error":
        assert np.linalg.norm(a) <= row.cap * (1 + 4 * EPS)
        return
    others = np.delete(a, row.own)
    assert np.all(a >= 0) and a[row.own] <= row.cap
    assert a[row.own] == pytest.approx(math.fsum(others), rel=(4 + row.z.size / 2) * EPS, abs=0)


def objective(name, row, centres, L, a):
    """What a step maximises."""
    return TWINS[name].dual(row, a) - a @ row.u - L / 2 * np.sum((a - centres) ** 2)


def test_words_that_have_a_joint_form():
    found = {name: cls().joint() for name, cls in WORDS.items()}
    assert {name for name, terms in found.items() if terms is not None} == {"logistic", "hinge", "l2_error"}
    assert all(coupled(terms) for terms in LOSSES.values())
    assert not coupled(Logistic().terms())
    assert [name for name, terms in LOSSES.items() if math.isfinite(largest_bend(terms))] == ["softmax"]


@each_loss
def test_steps_equal_those_by_bisection_and_sorting(name):
    for row, centres, L in situations(name):
        a, value, share, slip = step(name, row, centres, L)
        check_feasible(name, row, a)
        twin = TWINS[name].step(row, centres, L)
        # scores and centres are rounded before the step
        size = row.cap + (np.abs(row.z).max() + row.cap * L) / (L + 1 / row.cap)
        np.testing.assert_allclose(a, twin, rtol=1e-11, atol=4e-15 * size)
        assert value == pytest.approx(TWINS[name].primal(row), rel=1e-12, abs=1e-13 * row.cap)
        assert share == pytest.approx(TWINS[name].dual(row, a), rel=1e-12, abs=1e-13 * row.cap)
        assert slip == 0.0


@each_loss
def test_no_feasible_duals_are_better_than_the_step(name):
    rng = np.random.default_rng(3)
    for row, centres, L in situations(name, seed=2):
        for curvature in (0.0, L):
            a, *_ = step(name, row, centres, curvature)
            best = objective(name, row, centres, curvature, a)
            size = row.cap * (1.0 + np.abs(row.z).max() + curvature * row.cap)
            for _ in range(8):
                other = feasible(name, row, rng)
                for share in (1.0, 1e-3):
                    tried = objective(name, row, centres, curvature, a + share * (other - a))
                    assert tried <= best + 1e-13 * size


@each_loss
def test_fenchel(name):
    """cap phi >= share(a) - a.u for feasible duals, with equality for the best."""
    rng = np.random.default_rng(5)
    for row, centres, _ in situations(name, seed=4):
        a, value, share, _ = step(name, row, centres, 0.0)
        size = row.cap * (1.0 + np.abs(row.z).max())
        check_feasible(name, row, a)
        assert value == pytest.approx(share - a @ row.u, abs=1e-14 * size)
        assert LOSSES[name].coupled_dual(row.signs, row.cap, a) == pytest.approx(share, abs=1e-13 * row.cap)
        for _ in range(5):
            other = feasible(name, row, rng)
            assert value >= LOSSES[name].coupled_dual(row.signs, row.cap, other) - other @ row.u - 1e-13 * size


def conic_step(name, row, centres, L):
    """The step by an interior-point method: cones of lengths, for softmax of exponentials too."""
    clarabel, sparse = pytest.importorskip("clarabel"), pytest.importorskip("scipy.sparse")
    lines, eye, q = row.z.size, np.eye(row.z.size), row.probabilities(centres)
    kappa = row.cap * L
    if name == "l2_error":  # a / cap in a ball
        P, linear = kappa * eye, row.z - L * centres
        A, b, cones = np.vstack([np.zeros(lines), -eye]), np.append(1.0, np.zeros(lines)), [clarabel.SecondOrderConeT]
        cones = [clarabel.SecondOrderConeT(lines + 1)]
    elif name == "crammer_singer":
        P, linear = kappa * eye, -(row.z + 1.0 - row.mine) - kappa * q
        A, b = np.vstack([np.ones(lines), -eye]), np.append(1.0, np.zeros(lines))
        cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(lines)]
    else:  # t_k <= the entropy of p_k: (t_k, p_k, 1) in the cone of exponentials
        P = np.zeros((2 * lines, 2 * lines))
        P[:lines, :lines] = kappa * eye
        linear = np.concatenate([-row.z - kappa * q, -np.ones(lines)])
        A, b = [np.append(np.ones(lines), np.zeros(lines))], [1.0]
        for k in range(lines):
            A += [np.append(np.zeros(lines), -eye[k]), np.append(-eye[k], np.zeros(lines)), np.zeros(2 * lines)]
            b += [0.0, 0.0, 1.0]
        A, b = np.array(A), np.array(b)
        cones = [clarabel.ZeroConeT(1), *[clarabel.ExponentialConeT()] * lines]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(P)), linear, sparse.csc_matrix(A), b, cones, settings
    )  # fmt: skip
    found = np.array(solver.solve().x)[:lines]
    return row.cap * found if name == "l2_error" else row.duals(found)


@each_loss
def test_steps_equal_those_of_an_interior_point_method(name):
    for row, centres, L in itertools.islice(situations(name, seed=6), 5, 40):
        if row.z.size > 10 or not 0.1 < row.cap * L < 100 or np.abs(row.z).max() > 10:
            continue
        a, *_ = step(name, row, centres, L)
        np.testing.assert_allclose(a, conic_step(name, row, centres, L), atol=1e-6 * row.cap)


@each_loss
def test_slopes_equal_differences_of_the_pulls(name):
    compared = 0
    for row, centres, L in situations(name, count=100, seed=7):
        a, *_ = step(name, row, centres, L)
        lines, width = row.z.size, 1e-4 if name == "softmax" else 1e-6 * (L * row.cap + np.abs(row.z).max())
        straight, crossed = np.full(lines, np.nan), np.full(lines, np.nan)
        LOSSES[name].coupled_slopes(row.u, row.signs, centres, row.cap, L, a, straight, crossed)
        slopes = np.diag(straight) - np.outer(crossed, crossed)
        assert np.linalg.eigvalsh(slopes)[0] >= -1e-13 * straight.max()
        found = np.empty((lines, lines))
        for k in range(lines):
            ends = [row._replace(z=row.z + move * np.eye(lines)[k]) for move in (width, -width)]
            pulls = [row.signs * step(name, end, centres, L)[0] for end in ends]
            found[:, k] = (pulls[1] - pulls[0]) / (2 * width)
        bend = 1 / (L + 1 / (row.cap if name == "softmax" else math.inf))
        if name != "softmax" and np.abs(found - slopes).max() > 1e-4 * bend:
            continue  # a kink within the difference
        compared += 1
        np.testing.assert_allclose(found, slopes, atol=1e-4 * bend)
    assert compared >= 90


@each_loss
def test_where_it_is_smooth_there_are_slopes_without_a_curvature(name):
    row = Row(np.array([0.3, -1.0, 2.0]), None if name == "l2_error" else 1, 2.0)
    straight, crossed, width = np.empty(3), np.empty(3), 1e-6
    a, *_ = step(name, row, np.zeros(3), 0.0)
    LOSSES[name].coupled_slopes(row.u, row.signs, np.zeros(3), row.cap, 0.0, a, straight, crossed)
    slopes = np.diag(straight) - np.outer(crossed, crossed)
    for k in range(3):
        ends = [row._replace(z=row.z + move * np.eye(3)[k]) for move in (width, -width)]
        pulls = [row.signs * step(name, end, np.zeros(3), 0.0)[0] for end in ends]
        np.testing.assert_allclose((pulls[1] - pulls[0]) / (2 * width), slopes[k], atol=1e-8)
    if name == "softmax":
        assert np.linalg.eigvalsh(slopes)[-1] <= row.cap * LOSSES[name].curvature_bound()


@each_loss
def test_slip_bounds_the_growth_within_the_errors_of_the_margins(name):
    rng = np.random.default_rng(9)
    for row, centres, L in situations(name, seed=8):
        for size in (1e-9, 1e-2, 10.0):
            off = size * rng.random(row.z.size)
            for curvature in (0.0, L):
                _, value, _, slip = step(name, row, centres, curvature, off)
                corners = rng.choice([-1.0, 0.0, 1.0], (10, off.size))
                worst = -row.signs if row.own is not None else np.sign(row.z)
                top = np.argmax(row.z + 1.0)
                most = np.where(np.arange(off.size) == top, 1.0, -1.0)
                grown = [
                    TWINS[name].primal(row._replace(z=row.z + off * corner)) - value
                    for corner in [*corners, worst, most]
                ]
                assert max(grown) <= slip + 1e-12 * (abs(value) + row.cap)
                assert slip <= 2.0 * row.cap * np.linalg.norm(off) + 1e-12 * row.cap


@each_loss
@pytest.mark.parametrize("lines", [1, 2, 3, pytest.param(100, marks=pytest.mark.slow)])
@pytest.mark.parametrize("cap", [1e-8, 1.0, 1e8])
def test_extremes(name, cap, lines):
    rng = np.random.default_rng(lines)
    for scale, L in itertools.product((0.0, 1.0, 1e5), (0.0, 1e-300, 1e-6, 1.0, 1e6, 1e12, math.inf)):
        for kind in ("random", "sure", "wrong", "tied"):
            own = None if name == "l2_error" else int(rng.integers(lines))
            row = Row(scale * rng.standard_normal(lines), own, cap)
            if kind != "random" and own is not None:
                row.z[:] = scale * {"sure": -1.0, "wrong": 1.0, "tied": 0.5}[kind]
                row.z[own] = 0.5 * scale
            for centres in (feasible(name, row, rng), np.zeros(lines)):
                a, value, share, slip = step(name, row, centres, L, 1e-12)
                check_feasible(name, row, a)
                assert value >= 0.0 and np.isfinite([value, share, slip]).all() and slip >= 0.0
                assert value == pytest.approx(TWINS[name].primal(row), rel=1e-12, abs=1e-15 * cap * (1 + scale))
                gap = value - share + a @ row.u
                assert gap >= -1e-13 * cap * (1 + scale)
                if 1e-6 <= L <= 1e6 and cap * L < 1e9:
                    best = objective(name, row, centres, L, TWINS[name].step(row, centres, L))
                    size = cap * (lines + scale + L * cap)
                    assert objective(name, row, centres, L, a) >= best - 1e-14 * size
                if math.isinf(L):
                    np.testing.assert_allclose(a, centres, rtol=1e-14, atol=1e-15 * cap)


def test_a_sure_row_keeps_the_digits_of_its_small_duals():
    row = Row(np.array([-400.0, 0.0, -40.0]), 1, 2.0)
    for L in (0.0, 1e-9):
        a, value, share, _ = step("softmax", row, np.zeros(3), L)
        assert a == pytest.approx(2.0 * np.exp([-400.0, -40.0, -40.0]), rel=1e-13, abs=0)
        assert value == pytest.approx(2.0 * math.exp(-40.0), rel=1e-14, abs=0)
        assert share == pytest.approx(2.0 * 41.0 * math.exp(-40.0), rel=1e-13, abs=0)


@each_loss
def test_duals_that_are_not_feasible_are_made_so(name):
    rng = np.random.default_rng(11)
    for row, centres, _ in situations(name, seed=10):
        a = centres * (1 + 1e-6 * rng.standard_normal(centres.size)) - 1e-6 * row.cap * rng.random(centres.size)
        LOSSES[name].coupled_feasible(row.signs, row.cap, a)
        check_feasible(name, row, a)
        np.testing.assert_allclose(a, centres, atol=1e-5 * row.cap * math.sqrt(a.size))
        exact = np.float32(centres).astype(float)
        LOSSES[name].coupled_feasible(row.signs, row.cap, exact)
        check_feasible(name, row, exact)


@each_loss
@pytest.mark.parametrize("lines", [1, 3])
def test_the_middle_of_the_duals(name, lines):
    row = Row(np.zeros(lines), None if name == "l2_error" else 0, 6.0)
    a = np.full(lines, np.nan)
    LOSSES[name].coupled_middle(row.signs, row.cap, a)
    check_feasible(name, row, a)
    np.testing.assert_allclose(a, row.duals(np.full(lines, 0.0 if name == "l2_error" else 1 / lines)))


def test_log_likelihoods_are_those_of_softmax():
    scores = np.array([[0.0, 1.0, 2.0], [1e5, -1e5, 1e5], [-800.0, 0.0, 800.0]])
    np.testing.assert_allclose(LOSSES["softmax"].log_likelihoods(scores), log_softmax(scores, axis=1))
    assert Row(scores[0], 0, 1.0).cap * (logsumexp(scores[0]) - scores[0, 0]) == TWINS["softmax"].primal(
        Row(scores[0], 0, 1.0)
    )


def test_softmax_of_many_rows_at_once_is_that_of_each():
    """(lines, m) arrays, as small problems have it (arrays/): values, duals, and second derivatives at L = 0."""
    rng, lines, m, loss = np.random.default_rng(5), 4, 60, LOSSES["softmax"]
    z, own, caps = (
        rng.normal(0, rng.choice([0.1, 3, 300], m), (lines, m)),
        rng.integers(0, lines, m),
        rng.uniform(0, 9, m),
    )
    signs, off, none = (
        np.where(np.arange(lines)[:, None] == own, 1.0, -1.0),
        rng.random((lines, m)),
        np.zeros((lines, m)),
    )
    a, straight, crossed = np.empty((3, lines, m))
    together = loss.coupled_step(signs * z, signs, off, none, caps, 0.0, a)
    loss.coupled_slopes(signs * z, signs, none, caps, 0.0, a, straight, crossed)
    for r in range(m):
        row = Row(z[:, r], int(own[r]), float(caps[r]))
        one, bends = np.empty(lines), np.empty((2, lines))
        apart = loss.coupled_step(row.u, row.signs, off[:, r], none[:, r], row.cap, 0.0, one)
        loss.coupled_slopes(row.u, row.signs, none[:, r], row.cap, 0.0, one, *bends)
        np.testing.assert_allclose([each[r] for each in together], apart, 1e-13)
        np.testing.assert_allclose([a[:, r], straight[:, r], crossed[:, r]], [one, *bends], 1e-12, 1e-300)
