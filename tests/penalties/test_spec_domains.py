"""Weights within a domain: value, prox, conjugate and bounds by their definitions, in fractions if it counts."""

import math
from fractions import Fraction

import numpy as np
import pytest
from conftest import slow
from reference.words import of_columns

import streammargin as sm
from streammargin.penalties import make_penalty
from streammargin.penalties.base import PenalisedColumns
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.solvers.proof.rounding import EPS, norm_rounding

D, INF = 6, math.inf
DOMAINS = [  # r, low, high, radius
    (0.0, 0.0, INF, INF), (0.0, -INF, 0.25, INF), (0.0, -0.25, 0.5, INF), (0.0, 0.0, 0.0, INF), (1.0, 0.0, INF, INF),
    (1.0, 0.0, 1.0, INF), (1.0, -0.25, 0.5, INF), (1.0, -INF, 0.5, INF), (1.0, 0.0, 0.0, INF), (0.25, 0.0, INF, INF),
    (0.25, -0.5, 0.125, INF), (0.0, -INF, INF, 0.0), (0.0, -INF, INF, 1e-9), (0.0, -INF, INF, 0.5),
    (0.0, -INF, INF, 3.0),
]  # fmt: skip
CASES = [(*line, constant) for line in DOMAINS for constant in (False, True)]
every_case = pytest.mark.parametrize("r, low, high, radius, constant", CASES)


def made(r, low, high, radius, constant):
    """The penalty of D columns; constant: the last one is that of the constant, which the domain leaves out."""
    name = {0.0: "l2:", 1.0: "l1:"}.get(r, f"elasticnet:{r},")
    fields = f"radius={radius!r}" if radius < INF else f"low={low!r},high={high!r}"
    return make_penalty(name + fields).of_columns(PenalisedColumns(D - constant, np.asarray, constant))


def members(low, high, radius, constant, random, count=200):
    """Weights of the domain, its edges among them; a constant is anywhere."""
    for w in random.standard_normal((count, D)) * 10.0 ** random.uniform(-2, 1, (count, 1)):
        own = w[: D - constant]
        own[:] = np.clip(own, low, high)
        if (size := np.linalg.norm(own)) > radius:
            own *= radius / size * (1.0 - 1e-15)
        yield w


def without(r, w):
    """R(w) without the domain."""
    return r * np.abs(w).sum() + (1 - r) / 2 * w @ w


@every_case
def test_the_value_is_inf_outside_of_the_domain(r, low, high, radius, constant):
    penalty, random, outside = made(r, low, high, radius, constant), np.random.default_rng(0), 0
    for w in random.standard_normal((200, D)) * 10.0 ** random.uniform(-10, 1, (200, 1)):
        own = w[: D - constant]
        there = np.all((low <= own) & (own <= high)) and np.linalg.norm(own) <= radius
        assert penalty.value(w) == (pytest.approx(without(r, w), rel=1e-13) if there else INF)
        nearest = penalty.inside(w)
        assert penalty.value(nearest) < INF and (not there or np.array_equal(nearest, w))
        assert not constant or nearest[-1] == w[-1]
        outside += not there
    assert outside > 10
    for w in members(low, high, radius, constant, random):
        assert penalty.value(w) < INF


@every_case
def test_the_prox_is_the_nearest_in_its_metric(r, low, high, radius, constant):
    """The slope (v - w) / steps of the minimum leads to no better weights of the domain, by convexity nowhere."""
    penalty, random = made(r, low, high, radius, constant), np.random.default_rng(1)
    for scale in (0.1, 1.0, 5.0):
        v, wished = scale * random.standard_normal(D), random.random(D) + 0.2
        steps = penalty.even(wished)
        assert np.all(steps <= wished) and np.any(steps == wished)
        w = penalty.prox(v, steps)
        assert penalty.value(w) < INF
        for other in members(low, high, radius, constant, random):
            assert penalty.value(other) >= penalty.value(w) + ((v - w) / steps) @ (other - w) - 1e-12


def exact_conjugate(theta, r, low, high, radius, constant):
    """R*(theta) in fractions, by the formulas of the domain; of a ball by a root in floats, rounded up."""
    theta = [Fraction(t) for t in theta]
    own, rest = (theta[:-1], theta[-1:]) if constant else (theta, [])
    r, total = Fraction(r), Fraction(0)
    if radius < INF:
        square = sum(t * t for t in own)
        size, ball = Fraction(math.sqrt(square)) * (1 + Fraction(3, 10**16)), Fraction(radius)
        total = square / 2 if square <= ball * ball else ball * size - ball * ball / 2
        return total + sum(t * t for t in rest) / 2
    for t, (least, most) in [*((t, (low, high)) for t in own), *((t, (-INF, INF)) for t in rest)]:
        if r == 1:
            for beyond, end in ((t - 1, most), (-t - 1, -least)):
                if beyond > 0:
                    if end == INF:
                        return INF
                    total += Fraction(end) * beyond
            continue
        w = max(abs(t) - r, 0) / (1 - r) * (1 if t > 0 else -1)
        w = Fraction(most) if w > most else Fraction(least) if w < least else w
        total += t * w - r * abs(w) - (1 - r) / 2 * w * w
    return total


@every_case
def test_the_conjugate_is_a_supremum_that_is_attained(r, low, high, radius, constant):
    penalty, random = made(r, low, high, radius, constant), np.random.default_rng(2)
    for scale in (0.1, 0.6, 2.0):
        theta = scale * random.standard_normal(D)
        conjugate = penalty.conjugate(theta)
        assert conjugate == pytest.approx(float(exact_conjugate(theta, r, low, high, radius, constant)), rel=1e-13)
        for w in members(low, high, radius, constant, random):
            assert theta @ w - penalty.value(w) <= conjugate + 1e-13
        if conjugate < INF:
            best = penalty.best(theta)
            assert theta @ best - penalty.value(best) == pytest.approx(conjugate, rel=1e-12, abs=1e-16)


@every_case
@pytest.mark.parametrize("blur", [0.0, slow(1e-12), 1e-3])
def test_no_bound_is_above_what_a_part_of_the_duals_proves(blur, r, low, high, radius, constant):
    """Whatever A^T alpha was within its rounding, in fractions."""
    line, random = (r, low, high, radius, constant), np.random.default_rng(3)
    penalty, rounding = made(*line), norm_rounding(D)
    for _ in range(40):
        theta = random.standard_normal(D) * 10.0 ** random.uniform(-1, 1)
        gain = random.random() * 10.0 ** random.integers(-1, 3)
        bound = penalty.bound(gain, theta, blur, rounding)
        s = penalty.best_part(gain, theta, blur + EPS * lp_norm(theta, 2.0), rounding)
        assert 0.0 <= s <= 1.0 and bound >= 0.0
        for e in (random.standard_normal(D), theta, -theta, np.sign(theta), np.eye(D)[np.argmax(theta)]):
            moved = [Fraction(t) + Fraction(0.99 * blur * x) for t, x in zip(theta, e / np.linalg.norm(e), strict=True)]
            proven = Fraction(s) * Fraction(gain) - exact_conjugate([Fraction(s) * t for t in moved], *line)
            assert bound <= max(proven, 0) + Fraction(EPS) * Fraction(gain)  # which a gain has room for (TERM)
        if blur == 0.0:
            tried = [each * gain - penalty.conjugate(each * theta) for each in np.linspace(0.0, 1.0, 401)]
            assert bound >= max(tried) - 1e-10 * gain


def test_duals_that_a_penalty_has_no_room_for_prove_nothing_above_0():
    penalty = made(1.0, 0.0, INF, INF, False)
    for theta in (np.full(D, np.nan), np.full(D, np.inf), np.full(D, -np.inf)):
        assert penalty.bound(1.0, theta, 0.0, 1e-15) >= 0.0
    assert penalty.bound(-1.0, np.ones(D), 0.0, 1e-15) == 0.0


def test_the_weights_wake_where_the_conjugate_leaves_0():
    random = np.random.default_rng(4)
    for line in CASES:
        penalty, theta = made(*line), random.standard_normal(D)
        zero_factor = penalty.zero_factor(theta)
        if 0.0 < zero_factor < 1e100:
            assert (
                penalty.conjugate(zero_factor * (1 - 1e-12) * theta)
                == 0.0
                < penalty.conjugate(zero_factor * (1 + 1e-9) * theta)
            )
    assert made(1.0, 0.0, INF, INF, False).zero_factor(np.array([-5.0, 0.25, 0.0, 0.0, 0.0, 0.0])) == 4.0


def test_words():
    assert sm.penalties.L1(low=0, high=1) == make_penalty("l1:low=0,high=1") == make_penalty("l1:high=1.0,low=-0")
    assert str(make_penalty("elasticnet:0.3,low=-1")) == "elasticnet:0.3,low=-1" and str(make_penalty("l2")) == "l2"
    for word in ("l2:high=inf", "l2:low=-inf", "l2:radius=inf", "l2"):  # no domain: what all solvers support
        assert isinstance(of_columns(word), sm.penalties.L2)
    assert isinstance(of_columns("l1:high=inf"), sm.penalties.L1)
    for word, refusal in {
        "l2:low=1": "the parameter low of l2 must be a number of at most 0, not 1",
        "l1:high=-0.5": "the parameter high of l1 must be a number of at least 0, not -0.5",
        "l2:radius=-1": "the parameter radius of l2 must be a number of at least 0, not -1",
        "l2:low=0,radius=1": "l2 takes low and high, or a radius, not both",
        "l1:radius=1": "l1 has no parameter",
        "l2:low=nan": "nan is not allowed",
    }.items():
        with pytest.raises(sm.UsageError, match=refusal):
            make_penalty(word)
    for given in ({"low": "0"}, {"low": 0.5}, {"high": -1}, {"radius": np.nan}, {"radius": 1.0, "high": 2.0}):
        with pytest.raises(sm.UsageError):
            make_penalty(sm.penalties.L2(**given))


def test_the_prox_of_a_ball_takes_a_step_of_its_own_for_each_column():
    random = np.random.default_rng(5)
    for radius in (1e-200, 1e-9, 0.3, 1e6):
        penalty = made(0.0, -INF, INF, radius, True)
        assert np.linalg.norm(made(0.0, -INF, INF, 1e-320, False).prox(np.full(D, 1e9), np.ones(D))) <= 1e-320
        for _ in range(50):
            v, steps = 10.0 ** random.uniform(-6, 6, (2, D))
            w = penalty.prox(v, steps)
            plain, size = v / (1.0 + steps), np.linalg.norm(w[:-1])
            assert w[-1] == plain[-1] and size <= radius
            if np.linalg.norm(plain[:-1]) <= radius:
                assert np.array_equal(w, plain)
            else:  # v - w = steps (1 + more) w, with one multiplier >= 0 for all, of a constraint that is met
                more = ((v - w) / (steps * w))[:-1] - 1.0
                far = w[:-1] > 1e-3 * size  # of others rounding of v - w says nothing
                assert size == pytest.approx(radius, rel=1e-13) and more[far].min() >= -1e-9
                assert np.ptp(more[far]) <= 1e-6 * (1.0 + more[far].max())
