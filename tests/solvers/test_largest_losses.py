"""`top` for numbers: duals of both signs with a bound on their sum, against an interior-point method and NumPy."""

from typing import NamedTuple

import numpy as np
import pytest
from reference import words
from scipy.optimize import linprog, minimize_scalar

import streammargin as sm
from streammargin.errors import UsageError
from streammargin.losses.residuals import ResidualTerms

random = np.random.default_rng(4)
N, D, C, M = 40, 6, 0.5, 7.5
X = random.standard_normal((N, D))
Y = X @ [2.0, -1.0, 0.0, 0.5, 0.0, 0.0] + random.standard_t(3, N) + 4.0
WEIGHTS = random.choice([0.0, 0.5, 1.0, 3.0], N)
FIELDS = {
    "absolute_error": {}, "epsilon_insensitive": {"epsilon": 0.6}, "quantile": {"quantile": 0.8},
    "huber": {"delta": 0.7},
}  # fmt: skip
CONSTANTS = {"free": {"bias": "free"}, "penalised": {"bias": 2.0}, "none": {"bias": 0.0}}


def word(loss, top=M):
    return sm.losses.FAMILY.find(loss)(**FIELDS[loss], top=top)


def lifted(loss, u, e):
    """max over alpha of -alpha u - e |alpha| / largest less the conjugate, by its definition; u, e numbers or (n,)."""
    if loss == "huber":
        size = np.maximum(np.abs(u) - e / 0.7, 0.0)
        return np.where(size < 0.7, 0.5 * size**2, 0.7 * (size - 0.35))
    phi = {
        "absolute_error": np.abs(u), "epsilon_insensitive": np.maximum(np.abs(u) - 0.6, 0.0),
        "quantile": np.maximum(-0.8 * u, 0.2 * u),
    }[loss]  # fmt: skip
    return np.maximum(phi - e, 0.0)


def counted(loss, u, weights, top=M):
    """What counts of the losses of residuals u: of those that are linear the largest ones, `top` rows of them."""
    if loss == "huber":
        found = minimize_scalar(
            lambda e: top * e + weights @ lifted(loss, u, e), bounds=(0.0, 100.0), method="bounded",
            options={"xatol": 1e-10},
        )  # fmt: skip
        return min(found.fun, weights @ lifted(loss, u, 0.0))
    order = np.argsort(-lifted(loss, u, 0.0))
    before = np.concatenate([[0.0], np.cumsum(weights[order])[:-1]])
    return np.clip(top - before, 0.0, weights[order]) @ lifted(loss, u, 0.0)[order]


@pytest.mark.parametrize("loss", FIELDS)
@pytest.mark.parametrize("penalty, constant", [("l1", "free"), ("l2", "none"), ("linf", "free"), ("l2", "penalised")])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_optimum_is_that_of_the_interior_point_method(loss, penalty, constant, weighted):
    conic = pytest.importorskip(
        "reference.conic", reason="the interior-point method is clarabel's", exc_type=ImportError
    )
    weights = WEIGHTS if weighted else np.ones(N)
    result = sm.train(
        (X, Y), loss=word(loss), penalty=penalty, C=C, tol=1e-6, passes=30000, sample_weight=weights,
        **CONSTANTS[constant],
    )  # fmt: skip
    w, b, figures = result.model.coef_[0], result.model.intercept_[0], result.certificate
    there, shift = weights > 0.0, result.model.header["problem"]["shift"] if constant == "penalised" else 0.0
    best, _, _ = conic.solve(
        X[there], Y[there] - shift, C * weights[there], penalty, loss, budget=C * M, free=constant != "penalised",
        width=next(iter(FIELDS[loss].values()), 1.0),
        constant=2.0 if constant == "penalised" else float(constant == "free"),
    )  # fmt: skip
    assert result.converged and result.model.header["solver"] == "pdprox"
    assert figures["dual"] <= best * (1 + 1e-6) and figures["primal"] == pytest.approx(best, rel=3e-6)
    parts = np.append(w, (b - shift) / 2.0) if constant == "penalised" else w
    value = words.of_columns(penalty, len(parts)).value(parts)
    least = value + C * counted(loss, X @ w + b - Y, weights)
    assert figures["dual"] * (1 - 1e-12) <= least <= figures["primal"] * (1 + 1e-12)
    if not weighted:  # evaluate knows no weights
        assert result.model.evaluate((X, Y))["loss"] * N == pytest.approx(counted(loss, X @ w + b - Y, weights))


def test_the_largest_absolute_errors_are_a_linear_program():
    """min |w|_1 + C (M t + sum_i s_i) with s_i >= |x_i.w + b - y_i| - t, by HiGHS."""
    result = sm.train((X, Y), loss="absolute_error:top=5", penalty="l1", C=C, tol=1e-7, passes=30000)
    one, last = np.eye(N), np.ones((N, 1))
    signed = [np.hstack([sign * X, -sign * X, sign * last, -last, -one]) for sign in (1, -1)]
    cost = np.concatenate([np.ones(2 * D), [0.0, 5.0 * C], np.full(N, C)])
    bounds = [(0, None)] * (2 * D) + [(None, None)] + [(0, None)] * (N + 1)
    best = linprog(cost, np.vstack(signed), np.concatenate([Y, -Y]), bounds=bounds, method="highs")
    assert result.certificate["primal"] == pytest.approx(best.fun, rel=2e-7)
    assert result.certificate["dual"] <= best.fun * (1 + 1e-9)


@pytest.mark.parametrize("loss", FIELDS)
def test_as_many_rows_as_there_are_change_nothing(loss):
    options = {"penalty": "l1", "C": C, "tol": 1e-6, "passes": 30000}
    plain, all_rows = (sm.train((X, Y), loss=word(loss, top), **options) for top in (None, N))
    assert all_rows.converged
    assert all_rows.certificate["primal"] == pytest.approx(plain.certificate["primal"], rel=2e-6)


def test_the_unit_of_the_numbers_does_not_matter():
    """With y and delta a hundred times as large w is too, if C is a hundredth of what it was; l1 grows with w."""
    one, other = (
        sm.train((X, s * Y), loss=f"huber:{0.7 * s},top=5", penalty="l1", C=C / s, tol=1e-7, passes=30000)
        for s in (1.0, 100.0)
    )
    assert other.certificate["primal"] == pytest.approx(100.0 * one.certificate["primal"], rel=1e-6)
    np.testing.assert_allclose(other.model.coef_, 100.0 * one.model.coef_, atol=0.1)


@pytest.mark.parametrize("loss", FIELDS)
def test_the_formulas_of_a_lifted_loss(loss):
    """phi and the step along one row against their definitions; the dual that counts is not lifted."""
    made, rng = word(loss).terms(), np.random.default_rng(0)
    up, down = made.reach()
    assert (up, down) == {"quantile": (0.8, pytest.approx(0.2)), "huber": (0.7, 0.7)}.get(loss, (1.0, 1.0))
    for _ in range(60):
        u, e, cap, L = rng.normal(0, 3), rng.exponential(), *10 ** rng.uniform(-2, 2, 2)
        above, alpha = made.lifted(e), cap * rng.uniform(-down, up)
        assert above.primal(u, cap) == pytest.approx(cap * float(lifted(loss, u, e)), rel=1e-12, abs=1e-12 * cap)
        cost = e * abs(alpha) / (up if alpha > 0 else down)
        assert above.dual(alpha, cap) == pytest.approx(made.dual(alpha, cap) - cost, rel=1e-12)

        def falling(a, alpha=alpha, u=u, L=L, cap=cap, e=e):
            part = e * abs(a) / (up if a > 0 else down)
            return (a - alpha) * u + 0.5 * L * (a - alpha) ** 2 - made.dual(a, cap) + part

        best = minimize_scalar(falling, bounds=(-down * cap, up * cap), method="bounded")
        new = above.step(alpha, u, L, cap)
        assert falling(new) <= min(best.fun, falling(0.0)) + 1e-9 * (1 + cap + abs(alpha * u) + L * alpha**2)


@pytest.mark.parametrize("solver", ["sdca", "asdca", "ascent", "newton", "prox-newton"])
def test_the_solver_that_serves_it_is_named(solver):
    with pytest.raises(
        UsageError, match=r"does not support the parameter top of a loss; use solver=.pdprox., or loss=.huber:1"
    ):
        sm.train((X, Y), loss="huber:top=3", solver=solver)


def test_a_loss_of_the_users_own_says_what_its_duals_are_parts_of():
    terms = NamedTuple("Terms", [(name, float) for name in ResidualTerms._fields])
    for name in ("of_numbers", "has_hard_margin", "step", "primal", "dual", "feasible", "missed"):
        setattr(terms, name, getattr(ResidualTerms, name))

    class Mine(sm.losses.Quantile):
        def terms(self):
            return terms(*super().terms())

    assert sm.train((X, Y), loss=Mine(0.8), penalty="l1", tol=1e-3).converged
    with pytest.raises(UsageError, match="the parameter top needs the methods reach and lifted of a loss of numbers"):
        sm.train((X, Y), loss=Mine(0.8, top=3), penalty="l1", solver="pdprox")
