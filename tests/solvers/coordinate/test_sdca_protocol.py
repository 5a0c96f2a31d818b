"""What the solver declares to the driver."""

import math
from dataclasses import replace

import numpy as np
import pytest
from reference.datasets import noisy, separable
from reference.drive import certify, labels_of, problem_of, prologue, visit_all
from reference.norms import length

import streammargin as sm
from streammargin.errors import UsageError
from streammargin.rows.blocks import DenseBlock
from streammargin.solvers.coordinate.momentum import Momentum
from streammargin.solvers.coordinate.plain import Plain
from streammargin.solvers.leaves import carry_out
from streammargin.solvers.proof.figures import relative_gap, relative_margin_gap
from streammargin.solvers.registry import make_solver, names


def test_the_estimate_of_a_settled_pass_is_its_gap():
    X, y = noisy()
    problem, solver = problem_of(X, C=0.05), Plain()
    state, active, block = solver.start(problem, labels_of(y)), np.arange(1), DenseBlock(X, 0.0)
    for number in range(1, 400):
        visit_all(solver, problem, state, number, block)
        report = solver.end_pass(problem, state, active)
        if number in (1, 5):
            figures, _ = certify(solver, problem, state, block)
            # summed while the weights moved, but of the right size: it decides when a certificate is due
            assert figures[0].gap / 10 < report.estimate[0] < 1000 * figures[0].gap
        state.sleep[:] = 0
    assert report.estimate[0] < 1e-9


@pytest.mark.parametrize("p", [2.0, 1.5])
def test_a_certificate_wipes_out_the_drift_of_the_running_sums(p):
    X, y = noisy()
    problem, solver = problem_of(X, p=p), Plain()
    state, block = solver.start(problem, labels_of(y)), DenseBlock(X, 0.0)
    visit_all(solver, problem, state, 1, block)
    for array in (state.theta, state.powers, state.power_sum):
        array *= 1.01  # powers are theta itself at p = 2, and this array is empty
    certify(solver, problem, state, block)
    theta = (X * y[:, None]).T @ state.alpha[0]
    np.testing.assert_allclose(state.theta[0, :-1], theta, rtol=1e-12)
    powers = state.powers if problem.keeps_powers else state.theta
    np.testing.assert_allclose(powers[0, :-1], np.sign(theta) * np.abs(theta) ** (problem.q - 1), rtol=1e-12)
    if p != 2.0:
        assert state.power_sum[0] == pytest.approx(np.sum(np.abs(theta) ** problem.q), rel=1e-12)


@pytest.mark.parametrize("method", [Plain, Momentum])
def test_problems_that_are_done_keep_their_figures_and_cost_nothing(method):
    X, y = noisy()
    problem, solver, found = problem_of(X, K=2), method(), {}
    problem = replace(problem, outputs=problem.outputs._replace(caps=np.array([[0.5, 0.5], [1.0, 1.0]])))
    for active in ((0, 1), (1,)):
        state, block = solver.start(problem, labels_of(y)), DenseBlock(X, 0.0)
        prologue(solver, problem, state, [(0, block)])
        visit_all(solver, problem, state, 1, block)
        solver.end_pass(problem, state, np.arange(2))
        first = certify(solver, problem, state, block)[0]
        visit_all(solver, problem, state, 2, block)
        alpha = state.alpha[0].copy()
        visit = solver.certificate(problem, state, np.array(active))
        visit.begin(problem, state, *visit.arguments)
        carry_out(problem, state, visit, [(0, block)])
        found[active] = visit.end(problem, state, *visit.arguments)[0]
        assert visit.lines == len(active)
    assert found[1,][1] == found[0, 1][1] != first[1] and found[1,][0] == first[0] != found[0, 1][0]
    assert state.alpha[0].tolist() == alpha.tolist()


def test_every_pass_takes_the_sum_of_powers_afresh():
    X, y = noisy()
    problem, solver = problem_of(X, p=1.5), Plain()
    state, active = solver.start(problem, labels_of(y)), np.arange(1)
    visit_all(solver, problem, state, 1, DenseBlock(X, 0.0))
    state.power_sum *= 1.01
    solver.end_pass(problem, state, active)
    expected = np.sum(np.abs(state.theta[0]) ** problem.q)
    assert state.power_sum[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("C, make", [(1.0, noisy), (math.inf, separable)])
def test_the_best_weights_so_far_are_kept_with_their_figures(C, make):
    X, y = make()
    problem, solver = problem_of(X, C=C), Plain()
    state, block = solver.start(problem, labels_of(y)), DenseBlock(X, 0.0)
    for number in range(1, 50):
        visit_all(solver, problem, state, number, block)
    found = []
    for damage in (1.0, 0.1):
        for array in (state.alpha, state.theta):
            array[:, ::2] *= damage
        figures = certify(solver, problem, state, block)[0][0]
        w = solver.certified(state).tolist()
        found.append((w, figures.primal, figures.dual, figures.margin_lower, figures.margin_upper))
    assert found[0] == found[1]


@pytest.mark.parametrize("p", [2.0, 1.5])
def test_the_smallest_margin_is_a_share_of_the_mean_row_norm(p):
    X, y = noisy()
    problem, solver = problem_of(X, p=p, tol=0.01), Plain()
    state = solver.start(problem, labels_of(y))
    visit_all(solver, problem, state, 1, DenseBlock(X, 0.0))
    expected = 0.01 * np.mean([length(x, p / (p - 1)) for x in X])
    assert solver.margin_sizes(problem, state).least == pytest.approx(expected)


def test_the_logistic_loss_has_no_hard_margin():
    with pytest.raises(UsageError, match="the loss logistic does not have"):
        sm.train(noisy(), loss="logistic", C=math.inf)


def test_solvers_are_known_by_name():
    assert all(str(make_solver(name)).startswith(make_solver(name).name) for name in names()[1:])
    assert [make_solver(name).called for name in ("sdca", "asdca", "ascent")] == ["sdca", "asdca", "ascent"]
    with pytest.raises(UsageError, match="unknown solver 'magic'; known: auto, ascent"):
        make_solver("magic")


def test_gaps():
    assert relative_gap(0.0, 0.0) == 0.0
    assert relative_gap(2.0, 1.0) == 0.5
    assert relative_gap(-1.0, -2.0) == 0.5
    with pytest.raises(ArithmeticError, match="duality gap is negative"):
        relative_gap(1.0, 1.0 + 1e-15)  # the figures have their rounding on the safe side already
    with pytest.raises(ArithmeticError, match="duality gap is negative"):
        relative_gap(1.0, 1.1)
    assert relative_margin_gap(1.0, 2.0) == 0.5
    assert relative_margin_gap(-math.inf, math.inf) == math.inf
    assert relative_margin_gap(-1.0, 0.0) == math.inf
    with pytest.raises(ArithmeticError, match="interval is empty"):
        relative_margin_gap(2.0, 1.0)
