"""The dual norm of sparse groups in exact fractions: what scales duals down must never be too small."""

from fractions import Fraction

import numpy as np
import pytest
from reference.words import of_columns

from streammargin.penalties import SparseGroup
from streammargin.solvers.proof.rounding import norm_rounding


def left_over(theta, groups, r, s):
    """The largest ||(|theta_g| - s r)_+||^2 - (s (1 - r))^2 d_g of a group, exactly: above 0, s is too small."""
    r, s, found = Fraction(r), Fraction(s), []
    for g in np.unique(groups):
        mine = [Fraction(abs(t)) for t in theta[groups == g].tolist()]
        found.append(sum(max(t - s * r, 0) ** 2 for t in mine) - (s * (1 - r)) ** 2 * len(mine))
    return max(found)


def cases():
    random = np.random.default_rng(0)
    for number in range(120):
        size = int(random.integers(1, 40))
        theta = random.standard_normal(size) * 10.0 ** random.uniform(-8, 8, size if number % 3 == 0 else 1)
        theta *= random.random(size) < random.choice([0.1, 0.6, 1.0])
        yield np.round(theta, 1) if number % 4 == 1 else theta, random.integers(0, 9, size)
    for size in (1e-150, 1e150):  # one group of one column among them, numbers of groups that no column has
        yield size * random.standard_normal(6), np.array([0, 7, 7, 3, 3, 3])
    one = np.full(3000, 1e-3)
    one[7] = 1.0  # of a large group one column is far above the others
    yield one, np.zeros(3000, int)
    yield np.ones(50), np.zeros(50, int)


@pytest.mark.parametrize("r", [1e-9, 0.1, 0.5, 0.9, 1.0 - 1e-9])
def test_the_gauge_is_the_smallest_scale_that_makes_duals_feasible(r):
    for theta, groups in cases():
        penalty = of_columns(SparseGroup(groups, r), len(theta))
        gauge, rounding = penalty.gauge(theta), norm_rounding(len(theta))
        if not theta.any():
            assert gauge == 0.0
            continue
        assert left_over(theta, groups, r, gauge * (1 + rounding)) <= 0, "it claims too much"
        assert left_over(theta, groups, r, gauge * (1 - 2 * rounding)) > 0, "it gives too much away"


def test_it_is_the_largest_product_with_weights_of_value_1():
    random = np.random.default_rng(1)
    groups = np.array([0, 2, 2, 2, 5])
    for r in (0.2, 0.7):
        penalty = of_columns(SparseGroup(groups, r), 5)
        for theta in random.standard_normal((20, 5)):
            gauge = penalty.gauge(theta)
            for w in random.standard_normal((200, 5)):
                assert theta @ w <= gauge * penalty.value(w) * (1 + 1e-12)
            beyond = np.sign(theta) * np.maximum(np.abs(theta) - gauge * r, 0.0)  # where it is attained, in one group
            ends = [np.where(groups == g, beyond, 0.0) for g in (0, 2, 5)]
            assert max(theta @ w / penalty.value(w) for w in ends if w.any()) == pytest.approx(gauge, rel=1e-12)


def test_what_is_no_number_is_no_endless_loop():
    penalty = of_columns(SparseGroup(np.array([0, 0, 1]), 0.5), 3)
    for value in (np.nan, np.inf):
        assert not penalty.gauge(np.array([1.0, value, 2.0])) < np.inf
