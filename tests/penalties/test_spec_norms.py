"""Norms: the mirror map is a gradient, and the curvature bounds it."""

import math

import numpy as np
import pytest
from reference import norms as twins
from scipy.optimize import approx_fprime

from streammargin.errors import UsageError
from streammargin.penalties.mirror_maps import L2, Lp, lp_norm, make_norm, mirror, resolve_p
from streammargin.rows.blocks import CSRBlock, DenseBlock

EXPONENTS = [2.0, 1.9, 1.5, 1.2, 1.05]


def vectors(count=20, size=7, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield rng.standard_normal(size) * 10 ** rng.uniform(-3, 3) * (rng.random(size) < 0.8)


@pytest.mark.parametrize("p", EXPONENTS)
def test_mirror_is_the_gradient_of_half_the_squared_dual_norm(p):
    q = twins.conjugate(p)
    for theta in vectors():
        size = np.abs(theta).max()
        gradient = approx_fprime(theta, lambda t: 0.5 * twins.length(t, q) ** 2, 1e-7 * size)
        np.testing.assert_allclose(mirror(theta, q), gradient, atol=1e-4 * size)


@pytest.mark.parametrize("p", EXPONENTS)
def test_mirror_and_norm_equal_the_twins(p):
    q = twins.conjugate(p)
    for theta in vectors(seed=1):
        w = mirror(theta, q)
        np.testing.assert_allclose(w, twins.mirror(theta, q), rtol=1e-10, atol=0)
        assert lp_norm(theta, q) == pytest.approx(twins.length(theta, q), rel=1e-12)
        assert twins.length(w, p) == pytest.approx(lp_norm(theta, q), rel=1e-10)
        assert w @ theta == pytest.approx(lp_norm(theta, q) ** 2, rel=1e-10)


@pytest.mark.parametrize("p", EXPONENTS)
def test_powers_times_scale_are_the_weights(p):
    norm = make_norm(p)
    for theta in vectors(seed=2):
        powers = np.sign(theta) * np.abs(theta) ** (norm.q - 1)
        scale = norm.scale(float(np.sum(np.abs(theta) ** norm.q)))
        np.testing.assert_allclose(scale * powers, twins.mirror(theta, norm.q), rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("p", EXPONENTS)
def test_curvature_of_a_row_bounds_the_dual(p):
    """1/2 ||theta + t a||_q^2 <= 1/2 ||theta||_q^2 + t a.w + L t^2 / 2: a step can only raise the dual."""
    norm = make_norm(p)
    rng = np.random.default_rng(3)
    for theta in vectors(60, seed=3):
        a = rng.standard_normal(len(theta))
        L = norm.curvature(DenseBlock(a[None, :], 0.0), 0)
        t = rng.normal() * np.abs(theta).max() / np.abs(a).max()
        before, after = twins.length(theta, norm.q) ** 2 / 2, twins.length(theta + t * a, norm.q) ** 2 / 2
        assert after <= (before + t * a @ mirror(theta, norm.q) + L * t**2 / 2) * (1 + 1e-12)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("bias", [0.0, 2.5])
def test_curvature_equals_the_twin(p, bias):
    norm = make_norm(p)
    a = np.array([0.0, -3.0, 0.5, 0.0, 2.0])
    sparse = CSRBlock(a[a != 0], np.flatnonzero(a).astype(np.uint32), np.array([0, 3]), 5, bias)
    expected = twins.curvature(np.append(a, bias), norm.q)
    theta = np.array([0.5, 2.0, -1.0, 4.0, 0.25, -3.0])
    powers = np.sign(theta) * np.abs(theta) ** (norm.q - 1)
    power_sum = float(np.sum(np.abs(theta) ** norm.q))
    for block in (DenseBlock(a[None, :], bias), sparse):
        assert norm.curvature(block, 0) == pytest.approx(expected, rel=1e-12)
        score, L = norm.now_and_curvature(block, 0, theta, powers, power_sum)
        assert pytest.approx(expected, rel=1e-12) == L
        assert score == pytest.approx(np.append(a, bias) @ twins.mirror(theta, norm.q), rel=1e-12)


@pytest.mark.parametrize("q", [2.0, 3.0, 21.0])
def test_zero_and_extreme_vectors(q):
    assert lp_norm(np.zeros(3), q) == 0.0
    assert lp_norm(np.empty(0), q) == 0.0
    assert not mirror(np.zeros(3), q).any()
    for size in (1e-200, 1e200):
        theta = size * np.array([3.0, -4.0, 0.0])
        assert lp_norm(theta, q) == pytest.approx(size * twins.length(np.array([3.0, 4.0]), q), rel=1e-12)
        expected = size * twins.mirror(theta / size, q)
        np.testing.assert_allclose(mirror(theta, q), expected, rtol=1e-10)
    assert math.isnan(lp_norm(np.array([math.nan, 1.0]), q))
    assert make_norm(1.2).scale(0.0) == 0.0


def test_exponents():
    assert resolve_p("sparse", 2) == 2.0
    assert resolve_p("sparse", 1) == 2.0
    for features in (3, 100, 10**6):
        assert resolve_p("sparse", features) == pytest.approx(twins.exponent("sparse", features))
    assert resolve_p("1.5", 9) == resolve_p(1.5, 9) == 1.5
    assert isinstance(make_norm(2.0), L2)
    assert make_norm(1.5) == Lp(3.0)


@pytest.mark.parametrize("norm", [1.0, 2.5, 0, -1, math.nan, "fast", None, math.inf])
def test_other_exponents_are_refused(norm):
    with pytest.raises(UsageError, match="p must be a number in"):
        resolve_p(norm, 9)
