"""Certificates against optima in fifty digits: no bound lies above the optimum, and no gap is claimed too small."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

import streammargin as sm
from streammargin.solvers.figures import relative_gap
from streammargin.specs.losses import make_loss

DIGITS = 50


def entropy(a, cap):
    """cap (-b ln b - (1 - b) ln(1 - b)) of b = a / cap."""
    b = a / cap
    return -cap * sum(part * part.ln() for part in (b, 1 - b) if part > 0)


@pytest.mark.parametrize("cap", [1e-9, 0.3, 360.467, 1e12])
def test_the_logistic_dual_in_fifty_digits(cap):
    loss = make_loss("logistic")
    shares = [10.0**-e for e in (0, 1, 3, 7, 12, 14, 15, 16, 17, 20, 100, 300)]
    with localcontext() as context:
        context.prec = DIGITS + 300
        for share in shares:
            for alpha in (share * cap, cap - share * cap, np.nextafter(cap, 0.0)):
                exact = entropy(Decimal(float(alpha)), Decimal(cap))
                assert loss.dual(float(alpha), cap) == pytest.approx(float(exact), rel=1e-14, abs=0), (share, alpha)


def optimum(size, rows, C):
    """min w^2 / 2 + rows C ln(1 + exp(-size w)), by Newton's method in u = size w."""
    r2, total = Decimal(size) ** 2, Decimal(rows) * Decimal(C)
    low, high = Decimal(0), (r2 * total).ln() + 10
    for _ in range(400):  # the derivative u / r2 - total / (1 + exp(u)) rises
        u = (low + high) / 2
        low, high = (low, u) if u / r2 > total / (1 + u.exp()) else (u, high)
    return u * u / (2 * r2) + total * (1 + (-u).exp()).ln()


def objective(w, size, rows, C):
    w = Decimal(float(w))
    return w * w / 2 + Decimal(rows) * Decimal(C) * (1 + (-Decimal(size) * w).exp()).ln()


@pytest.mark.parametrize("solver", ["sdca", "asdca"])
def test_no_logistic_dual_lies_above_the_optimum(solver):
    """Rows of norm 1e3 to 1e9 have duals below 1e-14 of their cap; three of the cases were certified falsely."""
    rng = np.random.default_rng(0)
    cases = [(9768105.0, 360.467)] + [(10 ** rng.uniform(3, 9), 10 ** rng.uniform(-2, 4)) for _ in range(25)]
    y = np.array([1, -1, 1])
    for size, C in cases:
        result = sm.train((size * y[:, None], y), loss="logistic", C=C, solver=solver, tol=1e-3, passes=300)
        end = [event for event in result.history if event["event"] == "certificate"][-1]
        with localcontext() as context:
            context.prec = DIGITS
            best = optimum(size, 3, C)
            assert float(Decimal(end["dual"]) / best) <= 1 + 1e-11, (size, C)
            reached = objective(result.model.coef_[0, 0], size, 3, C)
            apart = float((reached - best) / reached)
        assert apart <= end["gap"] + 1e-11, (size, C)
        assert not result.converged or apart <= 1e-3


def test_a_negative_gap_is_judged_by_what_was_summed():
    assert relative_gap(1.0, 1.0 + 1e-6, summed=1e9) == pytest.approx(1e-3)  # as much as the rounding can be
    with pytest.raises(ArithmeticError, match="negative"):
        relative_gap(1.0, 1.0 + 1e-6, summed=1e5)
    assert relative_gap(2.0, 1.0, summed=1e30) == 0.5
    assert math.isinf(relative_gap(math.inf, 1.0, summed=1.0))
