"""Losses against the table of formulas and against maximisation by search."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from reference import losses as twins
from reference.words import sized as made
from scipy.optimize import minimize_scalar

from streammargin.errors import UsageError
from streammargin.kinds import Number
from streammargin.losses import LOSSES, Loss, is_numeric, losses_with, make_loss, terms
from streammargin.losses.base import attained, attained_one_by_one, distance_of
from streammargin.words import entry

WIDTHS = {"smooth_hinge": (0.1, 1.0, 3.0), "generalized_hinge": (1.1, 2.0, 30.0)}
CASES = [(name, width) for name in twins.ALL for width in WIDTHS.get(name, (1.0,))]


def situations(loss, count=150, seed=0):
    """(alpha, u, L, cap) over several orders of magnitude, alpha at its bounds now and then."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        cap, L = 10 ** rng.uniform(-3, 3, 2)
        top = min(loss.feasible(math.inf, cap), 10 * cap)
        yield rng.choice([0.0, top, rng.uniform(0, top)]), rng.normal(0, 3 if k % 3 else 30), L, cap


def test_every_loss_has_a_twin():
    assert losses_with(["step"]) == sorted(twins.ALL)


@pytest.mark.parametrize("name, width", CASES)
def test_step_is_the_maximum_of_the_dual_along_the_row(name, width):
    loss = made(name, width)
    for alpha, u, L, cap in situations(loss):

        def falling(a, alpha=alpha, u=u, L=L, cap=cap):
            return (a - alpha) * u + 0.5 * L * (a - alpha) ** 2 - loss.dual(a, cap)

        new = loss.step(alpha, u, L, cap)
        assert 0.0 <= new <= loss.feasible(math.inf, cap)
        # beyond this the dual falls: its slope is at most 1 - u there
        far = min(loss.feasible(math.inf, cap), alpha + max(0.0, 1 - u) / L + cap)
        found = minimize_scalar(falling, bounds=(0.0, far), method="bounded", options={"xatol": 1e-12 * far})
        best = min(found.fun, falling(0.0), falling(far))
        size = abs(alpha * u) + L * alpha**2 + (new - alpha) ** 2 * L + abs(new * u) + new + 1e-5 * cap
        assert falling(new) <= best + 1e-10 * size, (alpha, u, L, cap)


@pytest.mark.parametrize("name, width", CASES)
def test_values_equal_the_table(name, width):
    loss, twin = made(name, width), twins.make(name, width, width)
    for alpha, u, L, cap in situations(loss, seed=1):
        assert loss.step(alpha, u, L, cap) == pytest.approx(cap * twin.step(alpha / cap, u, cap * L), rel=1e-9, abs=0)
        assert loss.primal(u, cap) == pytest.approx(cap * float(twin.phi(u)), rel=1e-12, abs=0)
        assert loss.dual(alpha, cap) == pytest.approx(cap * twin.dual(alpha / cap), rel=1e-12, abs=1e-12 * cap)
        assert loss.feasible(math.inf, cap) == cap * twin.top and loss.feasible(-alpha - 1.0, cap) == 0.0
        assert loss.feasible(alpha, cap) == alpha


@pytest.mark.parametrize("name, width", CASES)
def test_dual_is_the_conjugate_of_the_primal(name, width):
    """-phi*(-alpha) = min over u of phi(u) + alpha u."""
    loss = made(name, width)
    for share in (0.05, 0.3, 0.5, 0.95, *((1.0, 0.5 + 0.5 * width, width) if name == "generalized_hinge" else ())):
        found = minimize_scalar(lambda u, a=share: loss.primal(u, 1.0) + a * u, bounds=(-40, 40), method="bounded")
        assert loss.dual(share, 1.0) == pytest.approx(found.fun, abs=1e-5)


@pytest.mark.parametrize("name, width", CASES)
def test_gap_is_primal_minus_dual_and_never_negative(name, width):
    loss = made(name, width)
    for alpha, u, _, cap in situations(loss, seed=2):
        gap = loss.gap(alpha, u, cap)
        plain = loss.primal(u, cap) - loss.dual(alpha, cap) + alpha * u
        size = loss.primal(u, cap) + abs(alpha * u) + cap
        assert gap == pytest.approx(plain, abs=1e-12 * size)
        assert gap >= -1e-12 * size


@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "smooth_hinge"])
def test_without_a_bound_on_alpha_the_losses_are_the_hard_margin(name):
    loss = made(name, 0.7)
    assert loss.has_hard_margin()
    assert loss.feasible(math.inf, math.inf) == math.inf
    assert loss.step(0.5, 0.2, 4.0, math.inf) == 0.5 + 0.8 / 4.0
    assert loss.step(0.5, 9.0, 4.0, math.inf) == 0.0
    assert loss.dual(0.5, math.inf) == 0.5


def test_logistic_has_no_hard_margin():
    assert not terms("logistic").has_hard_margin()


@pytest.mark.parametrize("name, width", CASES)
def test_settled_means_at_a_bound(name, width):
    loss = made(name, width)
    boxed = name != "logistic"  # its dual never reaches a bound
    assert loss.settled(0.0, 2.0) == boxed
    assert loss.settled(2.0, 2.0) == (name in ("hinge", "smooth_hinge", "generalized_hinge"))
    assert not loss.settled(1.0, 2.0)


@pytest.mark.parametrize("name, width", CASES)
def test_a_row_of_norm_0_takes_the_best_dual_there_is(name, width):
    loss, twin = made(name, width), twins.make(name, width, width)
    new = loss.step(0.0, 0.0, 0.0, 3.0)
    assert new == pytest.approx(3.0 * twin.step(0.0, 0.0, 0.0), rel=1e-9)
    assert loss.gap(new, 0.0, 3.0) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("u", [-1e308, -800.0, 800.0, 1e308])
def test_logistic_survives_extreme_margins(u):
    loss = terms("logistic")
    new = loss.step(0.3, u, 1e-3, 1.0)
    assert 0.0 <= new <= 1.0
    assert loss.primal(u, 1.0) == max(0.0, -u)


class OwnTerms(NamedTuple):
    rate: float


class Own(Loss):
    """A loss of the user's."""

    rate: float = entry(1.0, Number(), "of it")

    def terms(self):
        return OwnTerms(self.rate)


def test_an_object_of_a_class_of_the_users_is_a_loss():
    assert terms(Own(2)) == OwnTerms(2.0) and str(make_loss(Own(2))) == "own:2"
    for other in (3, (1.0,), OwnTerms(1.0), Own, None):
        with pytest.raises(UsageError, match=r"loss must be a name, as .*, or an object of a subclass of"):
            terms(other)
    with pytest.raises(UsageError, match="the parameter rate of own must be a number, not 'a'; own has rate"):
        terms(Own("a"))


def test_bad_names_and_widths_are_refused():
    with pytest.raises(UsageError, match="unknown loss 'hindge'; did you mean loss=\"hinge\"\\? known: hinge"):
        terms("hindge")
    for width in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(UsageError, match="width of smooth_hinge must be a positive number"):
            terms(LOSSES["smooth_hinge"](width))
    for slope in (1.0, -2.0, math.inf, math.nan, "2"):
        with pytest.raises(UsageError, match="slope of generalized_hinge must be a number above 1"):
            terms(LOSSES["generalized_hinge"](slope))
    with pytest.raises(UsageError, match="hinge has no parameter 'slope'; hinge has top"):
        terms("hinge:slope=3")


@pytest.mark.parametrize("name", [name for name in sorted(LOSSES) if not is_numeric(terms(name))])
def test_curvature_is_bounded_as_the_loss_says(name):
    loss, u, h = made(name, 0.3 if name != "generalized_hinge" else 3.0), np.linspace(-5, 5, 2001), 1e-3
    phi = [np.array([loss.primal(x, 1.0) for x in u + shift]) for shift in (-h, 0.0, h)]
    curvature = (phi[0] - 2 * phi[1] + phi[2]) / h**2
    bound = loss.curvature_bound()
    if math.isfinite(bound):
        assert 0.99 * bound < curvature.max() <= bound * (1 + 1e-6)
    else:  # a kink, or growth without end
        assert curvature.max() > 100
    if hasattr(loss, "curvature_at_start"):  # of pairs of rows whose mean risk is that of w = 0 at most
        mean = (phi[1][:, None] + phi[1]) / 2 <= loss.primal(0.0, 1.0)
        assert np.max(((curvature[:, None] + curvature) / 2)[mean]) <= loss.curvature_at_start() * (1 + 1e-6)


@pytest.mark.parametrize(
    "u", [0.0, 1e-9, -1e-9, 0.4, -0.7, 3.0, -4.0, 36.0, -37.0, 6e2, -6e2, 1e4, -1e4, 1e300, -1e300]
)
def test_logistic_at_once_is_logistic_one_by_one(u):
    loss = terms("logistic")
    for cap in (1e-3, 1.0, 1e4):
        alpha, value, share, slope = attained(loss, u, cap)
        plain = attained_one_by_one(loss, u, cap)
        assert (alpha, value) == pytest.approx(plain[:2], rel=1e-14, abs=0 if abs(u) < 700 else cap * 1e-300)
        # one by one the share loses what is left of alpha next to cap to rounding, and so does its slope
        assert (share, slope) == pytest.approx(plain[2:], rel=1e-14, abs=cap * (2.0 + min(abs(u), 50.0)) * 2.3e-16)


def test_margins_far_from_where_a_loss_bends():
    assert [distance_of(terms("hinge"), u) > 0.5 for u in (-1.0, 0.4, 0.6, 1.0, 1.4, 1.6)] == [1, 1, 0, 0, 0, 1]
    assert [distance_of(terms("squared_hinge"), u) > 0.5 for u in (-1.0, 1.4, 1.6)] == [0, 0, 1]
    assert not distance_of(terms("absolute_error"), 9.0), "residuals have units, and no such distance"


def test_smooth_hinges_at_once_are_their_methods():
    for loss in (terms("squared_hinge"), terms("smooth_hinge:0.7")):
        for u in (-3.0, 0.4, 0.9, 1.0, 2.0):
            alpha, value, share, slope = attained(loss, u, 3.0)
            assert value == loss.primal(u, 3.0) and share == loss.dual(alpha, 3.0)
            assert share - alpha * u == pytest.approx(value, rel=1e-14, abs=1e-14)
            step = 1e-4
            bend = (loss.primal(u + step, 3.0) - 2 * value + loss.primal(u - step, 3.0)) / step**2
            assert slope == pytest.approx(bend, rel=1e-4, abs=1e-6) or u == 1.0
