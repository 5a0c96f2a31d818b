"""Accelerated dual coordinate ascent: what training certifies, against an interior-point method and the definitions."""

import numpy as np
import pytest
from reference import words
from reference.datasets import WEIGHTINGS, as_form, noisy, separable
from reference.drive import certify, labels_of, problem_of, visit_all
from reference.norms import length
from reference.optimum import solve
from reference.sources import CountingSource
from reference.training import binary, check_certificate
from reference.words import loss_word

import streammargin as sm
from streammargin.compiled import sdca as kernel
from streammargin.errors import DataError, UsageError
from streammargin.rows.blocks import DenseBlock
from streammargin.solvers.coordinate.momentum import Momentum

TOL = 1e-5
WIDTH = 0.5


def train(X, y, **options):
    return sm.train((X, y), **{"solver": "asdca", "tol": TOL, "passes": 20_000, "bias": 0, **options})


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("norm", [2, 1.5, "sparse"])
@pytest.mark.parametrize("loss", words.LOSSES)
def test_objective_equals_the_interior_point_optimum(loss, norm, form, weighting):
    X, y = noisy()
    problem = binary(X, y, loss=loss, width=WIDTH, norm=norm, **WEIGHTINGS[weighting])
    exact = solve(problem, loss, WIDTH)
    result = train(as_form(X, form), y, loss=loss_word(loss, WIDTH), penalty=f"lp:{norm}", **WEIGHTINGS[weighting])
    check_certificate(result, problem, exact, result.model.coef_[0], TOL)


@pytest.mark.parametrize("solver", ["sdca", "asdca"])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_the_exact_largest_margin(form, solver):
    X, y = separable()
    check_margin(*margin_of(X, y, form, solver, 2, 1e-6), 1e-6)


@pytest.mark.parametrize("norm", [1.1, 1.3, "sparse"])
def test_the_exact_largest_margin_of_other_norms(norm):
    X, y = separable()
    check_margin(*margin_of(X, y, "dense", "asdca", norm, 1e-4), 1e-4)


def margin_of(X, y, form, solver, norm, tol):
    problem = binary(X, y, norm=norm, C=np.inf)
    result = train(as_form(X, form), y, solver=solver, penalty=f"lp:{norm}", C=np.inf, tol=tol, passes=100_000)
    return problem, solve(problem, "hinge"), result


def check_margin(problem, exact, result, tol):
    largest = 1 / length(exact.w, problem.p)
    lower, upper = result.certificate["margin_lower"], result.certificate["margin_upper"]
    assert result.converged
    assert lower == pytest.approx(problem.margin(result.model.coef_[0]), rel=1e-9)
    assert (1 - tol) * largest * (1 - 1e-8) <= lower <= largest * (1 + 1e-8)
    assert largest * (1 - 1e-8) <= upper <= largest * (1 + 1.01 * tol)


@pytest.mark.parametrize("loss", ["squared_hinge", "smooth_hinge"])
def test_hard_margin_of_smooth_losses_and_float32_rows(loss):
    X, y = separable()
    X = X.astype(np.float32)
    problem = binary(X, y, C=np.inf, bias=2.0)
    exact = solve(problem, "hinge")
    result = train(X, y, loss=loss, C=np.inf, tol=1e-3, bias=2.0)
    w = np.append(result.model.coef_[0], result.model.intercept_[0] / 2.0)
    assert result.converged
    assert result.certificate["margin_lower"] == pytest.approx(problem.margin(w), rel=1e-6)
    assert problem.margin(w) >= (1 - 1e-3) / length(exact.w, 2) * (1 - 1e-6)


@pytest.mark.parametrize("norm", [2, 1.5])
def test_several_classes_values_of_C_and_blocks(norm):
    X, _ = noisy(90, seed=5)
    y = np.random.default_rng(5).integers(0, 3, 90)
    held = noisy(50, seed=6)[0], np.random.default_rng(6).integers(0, 3, 50)
    source = CountingSource(X, y, (0, 1, 8, 40, 90))
    result = sm.train(source, solver="asdca", C=[0.1, 1.0], penalty=f"lp:{norm}", tol=1e-4, valid=held, bias=0)
    assert result.converged
    for k in range(3):
        problem = binary(X, y == k, C=result.model.header["C"], norm=norm)
        exact = solve(problem, "hinge")
        primal = problem.primal(result.model.coef_[k])
        assert result.certificate["per_class"][k]["primal"] == pytest.approx(primal, rel=1e-10)
        assert 0 <= primal - exact.dual <= 1e-4 * exact.primal
    guess = np.argmax(X @ result.model.coef_.T, axis=1)
    assert result.certificate["mistakes"] == np.count_nonzero(guess != y)


@pytest.mark.parametrize("norm", [2, 1.5])
def test_distance_to_the_solution_is_at_most_what_the_dual_lacks(norm):
    """Proposition 1 for p = 2, 1.5: the Bregman distance of w to w* is at most D* - D(v)."""
    X, y = separable()
    problem = binary(X, y, C=np.inf, norm=norm)
    exact = solve(problem, "hinge")
    for passes in (1, 3, 10, 30):
        result = train(X, y, C=np.inf, penalty=f"lp:{norm}", passes=passes, tol=0.0)
        w = result.model.coef_[0]
        theta = np.sign(w) * length(w, problem.p) ** (2 - problem.p) * np.abs(w) ** (problem.p - 1)
        star = 0.5 * length(exact.w, problem.p) ** 2
        distance = star - 0.5 * length(w, problem.p) ** 2 - theta @ (exact.w - w)
        assert -1e-7 <= distance <= star - result.certificate["dual"] + 1e-7


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "smooth_hinge", "logistic"])
@pytest.mark.parametrize("norm", [2, 1.5])
@pytest.mark.parametrize("solver", ["sdca", "asdca"])
def test_with_losses_too_the_distance_is_at_most_what_the_dual_lacks(solver, norm, loss):
    """Proposition 2: that of Proposition 1 for a finite C, whose dual is that of the losses."""
    X, y = noisy(80, 6, seed=2)
    problem = binary(X, y, C=0.5, loss=loss, norm=norm)
    exact = solve(problem, loss)
    star = 0.5 * length(exact.w, problem.p) ** 2
    ratios = []
    for passes in (1, 2, 4, 8, 16):  # too few for more than the one certificate, of the last weights
        result = train(X, y, solver=solver, loss=loss, C=0.5, penalty=f"lp:{norm}", passes=passes, tol=0.0)
        assert sum(event["event"] == "certificate" for event in result.history) == 1
        w = result.model.coef_[0]
        theta = np.sign(w) * length(w, problem.p) ** (2 - problem.p) * np.abs(w) ** (problem.p - 1)
        distance = star - 0.5 * length(w, problem.p) ** 2 - theta @ (exact.w - w)
        lacks = exact.dual - result.certificate["dual"]
        assert -1e-7 <= distance <= lacks + 1e-7 * exact.primal
        ratios.append(distance / lacks if lacks > 1e-4 * exact.primal else 0.0)
    assert max(ratios) > 0.01  # the bound says something


def test_it_needs_fewer_passes_than_plain_ascent_where_that_stalls():
    X, y = separable(200, 40, margin=0.02)
    plain, fast = (train(X, y, solver=solver, C=np.inf, tol=1e-4) for solver in ("sdca", "asdca"))
    assert fast.converged and plain.converged
    assert fast.passes < plain.passes / 2


@pytest.mark.parametrize("solver", ["sdca", "asdca"])
def test_rows_beyond_p_2_too(solver):
    X, y = separable()
    for size in (1e200, 1e-200):
        with pytest.raises(DataError, match="too large or too small"):
            train(X * size, y, solver=solver)
    with pytest.raises(DataError, match="too large or too small"):  # 1e25^2 has no float32 inverse
        train((X * 1e25).astype(np.float32), y, solver=solver, tol=1e-3)


@pytest.mark.parametrize("solver", ["sdca", "asdca"])
def test_p_near_1(solver):
    X, y = separable()
    with pytest.raises(DataError, match="too large or too small"):
        train(X, y, solver=solver, penalty="lp:1.0000001")
    with pytest.raises(UsageError, match="the parameter p of lp"):
        train(X, y, solver=solver, penalty="lp:1")


@pytest.mark.parametrize("p", [2.0, 1.5])
def test_a_certificate_wipes_out_drift_and_changes_nothing_else(p):
    X, y = noisy()
    problem, solver = problem_of(X, p=p), Momentum()
    state, block = solver.start(problem, labels_of(y)), DenseBlock(X, 0.0)
    for number in range(1, 4):
        visit_all(solver, problem, state, number, block)
    state.theta *= 1.01
    before = {name: getattr(state, name).copy() for name in ("alpha", "momentum", "drift")}
    figures = certify(solver, problem, state, block)[0][0]
    signed = X * y[:, None]
    np.testing.assert_allclose(state.theta[0, :-1], signed.T @ state.alpha[0], rtol=1e-9, atol=1e-12)
    for name, array in before.items():
        np.testing.assert_allclose(getattr(state, name), array, rtol=0, atol=1e-12 * np.abs(array).max())
    v = np.clip(state.alpha[0] + state.pace[0, kernel.LAST] ** 2 * state.momentum[0], 0, 1)
    assert figures.dual == pytest.approx(v.sum() - 0.5 * length(signed.T @ v, problem.q) ** 2, rel=1e-10)


@pytest.mark.parametrize("p", [2.0, 1.5])
def test_a_restart_goes_on_from_the_averaged_sequence(p):
    X, y = noisy()
    problem, solver = problem_of(X, p=p, tol=0.0), Momentum()
    state, active, block = solver.start(problem, labels_of(y)), np.arange(1), DenseBlock(X, 0.0)
    restarts = 0
    for number in range(1, 200):
        visit_all(solver, problem, state, number, block)
        last = state.pace[0, kernel.LAST]
        v = state.alpha + last**2 * state.momentum
        image = state.theta + last**2 * state.drift
        solver.end_pass(problem, state, active)
        if state.passes[0] == 0:
            restarts += 1
            np.testing.assert_allclose(state.alpha, np.maximum(v, 0), rtol=1e-12)
            np.testing.assert_allclose(state.theta, image, rtol=1e-12, atol=1e-15)
            assert state.pace[0, kernel.GAMMA] == 1 / 60
            assert not state.momentum.any() and not state.drift.any()
    assert 1 <= restarts <= 100
