"""Each loss by its definition: conjugates, slopes and steps by fine grids. Arrays and numbers give the same."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from reference.words import sized as made

from streammargin import formulas
from streammargin.errors import UsageError
from streammargin.kinds import Number
from streammargin.losses import LOSSES, Loss, is_numeric, losses_with, make_loss, terms
from streammargin.losses.base import attained, attained_one_by_one, distance_of, has
from streammargin.words import entry

WIDTHS = {"smooth_hinge": (0.1, 1.0, 3.0), "generalized_hinge": (1.1, 2.0, 30.0)}
NUMBERS = {"quantile": (0.1, 0.5), "epsilon_insensitive": (0.0, 0.7), "huber": (0.3, 2.0)}
CASES = [(name, width) for name in losses_with(["step"]) for width in WIDTHS.get(name, (1.0,))]
EVERY = CASES + [(name, number) for name in losses_with(["step"], True) for number in NUMBERS.get(name, (1.0,))]
SINGLE = [one for one in EVERY if one[0] != "l2_error"]


def ends(loss, cap):
    """The feasible duals, and at most 10 caps if they have no end."""
    return max(loss.feasible(-math.inf, cap), -10 * cap), min(loss.feasible(math.inf, cap), 10 * cap)


def situations(loss, count=150, seed=0):
    """(alpha, u, L, cap) over several orders of magnitude, alpha at its bounds now and then."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        cap, L = 10 ** rng.uniform(-3, 3, 2)
        low, top = ends(loss, cap)
        yield rng.choice([0.0, low, top, rng.uniform(low, top)]), rng.normal(0, 3 if k % 3 else 30), L, cap


def least(f, low, high):
    """(where, value) of the least of a convex function, by grids, each about the best place of the one before."""
    while True:
        grid = np.linspace(low, high, 41)
        values = f(grid)
        best = int(np.argmin(values))
        after = grid[max(best - 1, 0)], grid[min(best + 1, 40)]
        if not after[1] - after[0] < 0.5 * (high - low):
            return grid[best], values[best]
        low, high = after


@pytest.mark.parametrize("name, number", SINGLE)
def test_primal_is_the_formula(name, number):
    loss = made(name, number)
    for _, u, _, cap in situations(loss, seed=1):
        assert loss.primal(u, cap) == pytest.approx(
            cap * float(formulas.LOSS_FORMULAS[name](u, number)), rel=1e-12, abs=0
        )


@pytest.mark.parametrize("name, number", SINGLE)
def test_dual_is_the_conjugate_of_the_primal(name, number):
    """-phi*(-alpha) = min over u of phi(u) + alpha u."""
    loss = made(name, number)
    low, top = ends(loss, 1.0)
    for share in np.linspace(low, top, 23)[1:-1]:
        found = least(lambda u, a=share: formulas.LOSS_FORMULAS[name](u, number) + a * u, -60.0, 60.0)[1]
        assert loss.dual(share, 1.0) == pytest.approx(found, rel=1e-9, abs=1e-9)
        assert loss.dual(7.0 * share, 7.0) == pytest.approx(7.0 * loss.dual(share, 1.0), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("name, number", SINGLE)
def test_step_is_the_maximum_of_the_dual_along_the_row(name, number):
    loss = made(name, number)
    for alpha, u, L, cap in situations(loss):

        def falling(a, alpha=alpha, u=u, L=L, cap=cap):
            return (a - alpha) * u + 0.5 * L * (a - alpha) ** 2 - loss.dual(a, cap)

        new, (low, top) = loss.step(alpha, u, L, cap), (loss.feasible(side * math.inf, cap) for side in (-1, 1))
        assert low <= new <= top
        reach = abs(alpha) + (1 + abs(u)) / L + cap  # beyond, the dual falls on either side
        best = least(falling, max(low, -reach), min(top, reach))[1]
        size = abs(alpha * u) + L * alpha**2 + (new - alpha) ** 2 * L + abs(new * u) + abs(new) + 1e-5 * cap
        assert falling(new) <= best + 1e-10 * size, (alpha, u, L, cap)


@pytest.mark.parametrize("name, number", [one for one in SINGLE if has(made(*one), "slope")])
def test_slope_is_minus_the_derivative_of_the_step(name, number):
    loss, seen = made(name, number), set()
    for alpha, u, L, cap in situations(loss, seed=3):
        h = 1e-4 * min(1.0 / (1.0 + abs(u)), L * cap, 1.0)
        less, new, more = (loss.step(alpha, u + side * h, L, cap) for side in (-1, 0, 1))
        slopes = [loss.slope(a, L, cap) for a in (less, new, more)]
        if max(slopes) - min(slopes) <= 1e-3 * max(slopes):  # no kink between
            rounding = 1e-11 * (abs(less) + abs(more) + cap) / h
            assert slopes[1] == pytest.approx((less - more) / (2 * h), rel=2e-3, abs=rounding)
            seen.add(slopes[1] > 0.0)
    assert seen == ({True} if name == "squared_error" else {True, False})  # duals at a bound, or nearly so


@pytest.mark.parametrize("name, number", SINGLE)
def test_arrays_give_what_numbers_give(name, number):
    """The same bits; a search ends for arrays with its last entry, so logistic steps differ by its tolerance."""
    loss = made(name, number)
    rows = [*situations(loss, seed=4), *((0.0, u, 0.0, 2.0) for u in (-3.0, -0.7, 0.0, 0.5, 1.0, 4.0))]
    alpha, u, L, cap = np.array(rows).T
    arguments = {
        "step": (alpha, u, L, cap), "slope": (alpha, L, cap), "primal": (u, cap), "dual": (alpha, cap),
        "gap": (alpha, u, cap), "feasible": (3.0 * u, cap), "settled": (alpha, cap), "slack": (u,), "missed": (u,),
        "distance": (u,), "attained": (u, cap),
    }  # fmt: skip
    exact = name != "logistic"
    for method in (name for name in arguments if has(loss, name)):
        given, call = arguments[method], getattr(loss, method)
        together = np.broadcast_arrays(*np.atleast_2d(call(*given)), u)[:-1]
        apart = np.atleast_2d(np.array([call(*one) for one in zip(*(a.tolist() for a in given), strict=True)]).T)
        if exact:
            np.testing.assert_array_equal(together, apart, method)
        else:
            np.testing.assert_allclose(together, apart, 1e-10 if method == "step" else 1e-14, 1e-300, err_msg=method)


@pytest.mark.parametrize("name, number", CASES)
def test_feasible_duals_begin_at_0(name, number):
    loss = made(name, number)
    for alpha, _, _, cap in situations(loss, seed=1):
        assert loss.feasible(-alpha - 1.0, cap) == 0.0 and loss.feasible(alpha, cap) == alpha


@pytest.mark.parametrize("name, number", SINGLE)
def test_gap_is_primal_minus_dual_and_never_negative(name, number):
    loss = made(name, number)
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


@pytest.mark.parametrize("name, number", [case for case in SINGLE if case not in CASES])
def test_duals_of_numbers_settle_at_their_ends_and_at_0_where_residuals_cost_nothing(name, number):
    loss = made(name, number)
    for alpha, _, _, cap in situations(loss, seed=1):
        bounds = (loss.low * cap, loss.high * cap, *([0.0] if loss.over else []))
        assert loss.settled(alpha, cap) == any(alpha == pytest.approx(bound, rel=1e-12) for bound in bounds)
        assert loss.feasible(alpha, cap) == pytest.approx(alpha, rel=1e-12)


@pytest.mark.parametrize("name, number", SINGLE)
def test_a_row_of_norm_0_takes_the_best_dual_there_is(name, number):
    loss = made(name, number)
    new = loss.step(0.0, 0.0, 0.0, 3.0)
    assert loss.dual(new, 3.0) >= -least(lambda a: -loss.dual(a, 3.0), *ends(loss, 3.0))[1] - 1e-12
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
