"""Objectives against their definitions, the keeper of the best weights, and an objective from elsewhere."""

import math
from dataclasses import replace

import numpy as np
import pytest
from reference.datasets import noisy

from streammargin.losses import terms
from streammargin.penalties.lp import Lp
from streammargin.solvers.linear import LinearState, keep_weights
from streammargin.solvers.problem import Outputs, Problem
from streammargin.solvers.proof.best import best_figures, keep_bounds
from streammargin.solvers.proof.objectives.base import Candidate, Objective, Running, Sums
from streammargin.solvers.proof.objectives.hard_margin import HardMargin, JointMargin
from streammargin.solvers.proof.objectives.interpolation import Interpolation
from streammargin.solvers.proof.objectives.soft_margin import SoftMargin
from streammargin.solvers.roles import new


def problem_of(classes=1, C=1.0, joint=False, trials=1, targets=(), p=2.0):
    loss = terms("interpolate" if targets else "hinge")
    K = trials * classes
    return Problem(
        rows=4, features=2, dtype=np.dtype(float), loss=loss, penalty=Lp(p),
        outputs=Outputs(np.arange(K), np.full((K, 2), C)), trials=trials, tol=1e-3, seed=0, present=4,
        lines=classes if joint else 1,
        numeric=bool(targets), largest_target=max(map(abs, targets), default=0.0),
    )  # fmt: skip


def test_a_problem_has_the_objective_that_its_numbers_call_for():
    assert type(problem_of().objective) is SoftMargin
    assert type(problem_of(C=math.inf).objective) is HardMargin
    assert type(problem_of(3, C=math.inf, joint=True).objective) is JointMargin
    assert type(problem_of(C=math.inf, targets=[1, -3, 0, 2]).objective) is Interpolation
    assert problem_of(3).objective.shares_mistakes and not problem_of(trials=3).objective.shares_mistakes


def test_lines_of_a_group_follow_each_other_and_have_one_figure():
    problem = replace(problem_of(3, trials=2), lines=3)  # two values of C, with a group of three lines each
    assert (problem.count, problem.groups, problem.per_trial) == (6, 2, 3)
    assert problem.lines_of(1).tolist() == [3, 4, 5]
    assert problem.lines_of(np.array([1, 0])).tolist() == [3, 4, 5, 0, 1, 2]
    rows = np.arange(12.0).reshape(6, 2)
    assert problem.view(rows, 1).tolist() == rows[3:].tolist() and problem.by_group(rows).shape == (2, 3, 2)
    assert problem.by_line(np.array([7, 8])).tolist() == [7, 7, 7, 8, 8, 8]
    assert [problem.groups_of(trial) for trial in (0, 1)] == [slice(0, 1), slice(1, 2)]
    state, rows = new(LinearState, problem, labels=None), np.arange(18.0).reshape(6, 3)
    state.best_w[:] = 1.0
    keep_weights(problem, state, rows.copy(), [None, Candidate(3.0, -math.inf, 1)])
    np.testing.assert_array_equal(state.best_w, [[1.0] * 3] * 3 + rows[3:].tolist())
    assert [figures.primal for figures in best_figures(problem, state.best)] == [math.inf, 3.0]
    one = problem_of(3, trials=2)
    assert one.groups == one.count == 6 and one.lines_of(4).tolist() == [4] and one.groups_of(1) == slice(3, 6)


@pytest.mark.parametrize("p", [2.0, 1.3])
def test_bounds_lie_below_the_objective_and_above_the_margin(p):
    rng = np.random.default_rng(0)
    A, q = rng.standard_normal((20, 4)) + 1.0, p / (p - 1.0)
    for _ in range(50):
        w, alpha = rng.standard_normal(4) + 0.5, rng.random(20) * 0.7
        u, theta = A @ w, A.T @ alpha
        length, size = np.sum(np.abs(theta) ** q) ** (1 / q), np.sum(np.abs(w) ** p) ** (1 / p)
        sums = Sums(0.7 * np.maximum(1 - u, 0).sum(), alpha.sum(), alpha.sum(), u.min(), np.sum(u <= 0))
        soft, hard = SoftMargin(Lp(p), False), HardMargin(Lp(p), False)
        found, (dual, upper) = soft.candidate(soft.size(w), sums), soft.bounds(theta, sums)
        assert found.primal == pytest.approx(0.5 * size**2 + sums.losses) and found.mistakes == np.sum(u <= 0)
        assert dual == pytest.approx(alpha.sum() - 0.5 * length**2) and dual <= found.primal and upper == math.inf
        found, (dual, upper) = hard.candidate(hard.size(w), sums), hard.bounds(theta, sums)
        assert found.lower == pytest.approx(u.min() / size) and upper == pytest.approx(length / alpha.sum())
        assert found.lower <= upper and dual <= hard.dual(upper) * (1 + 1e-12)


def test_the_joint_margin_is_that_of_explicit_pseudo_rows():
    rng = np.random.default_rng(1)
    X, W, own = rng.standard_normal((9, 4)), rng.standard_normal((3, 4)), np.arange(9) % 3
    rows = []
    for x, c in zip(X, own, strict=True):
        for k in range(3):
            if k != c:
                row = np.zeros((3, 4))
                row[c], row[k] = x / math.sqrt(2), -x / math.sqrt(2)
                rows.append(row.ravel())
    margins = np.array(rows) @ W.ravel()
    joint = JointMargin(Lp(2.0), True, 3)
    problem = problem_of(3, C=math.inf, joint=True)
    lengths = problem.lengths(np.linalg.norm(W, axis=1))
    scores = X @ W.T
    apart = [s[c] - max(np.delete(s, c)) for s, c in zip(scores, own, strict=True)]
    assert joint.reported(margins.min()) / lengths == pytest.approx([np.min(apart) / np.linalg.norm(W)])
    assert joint.terms(9) == len(rows)
    of_rows = joint.margins_of_rows(scores, own[:, None] == np.arange(3))
    np.testing.assert_allclose(of_rows, [margins.reshape(9, 2).min(axis=1)])
    spread = np.linalg.norm(rows, 2) ** 2 / np.linalg.norm(X, 2) ** 2
    assert 0.5 * joint.spread < spread <= joint.spread
    figures = joint.figures(Candidate(math.inf, 0.5, 0), joint.dual(0.6), 0.6)
    assert figures.primal == pytest.approx(0.5 / 0.25) and figures.dual == pytest.approx(0.5 / 0.36)
    assert figures.margin_gap == pytest.approx(0.1 / 0.6)


def test_interpolation_weighs_violations_against_the_norm():
    objective = Interpolation(Lp(2.0), False, 4.0)
    near, exact = Candidate(2.0, -0.04, 0), Candidate(2.4, 0.0, 0)
    assert objective.better(near, exact, 2.0) and not objective.better(exact, near, 2.0)
    assert objective.better(exact, Candidate(math.inf, -math.inf, 0), 2.0)
    figures = objective.figures(near, 2.0, math.inf)
    assert figures.gap is None and figures.residual == 0.04
    assert objective.reached(figures, 0.011) and not objective.reached(figures, 0.009)
    assert objective.figures(exact, 2.0, math.inf).gap == pytest.approx(1 / 6)
    assert objective.estimate(Running(2.0, 1.9, 0.0, 0.0, -0.4)) == pytest.approx(0.1)


def test_each_problem_keeps_its_own_best_and_what_was_shown_is_never_written():
    problem = problem_of(trials=2)
    state = new(LinearState, problem, labels=None)
    best = state.best
    keep_bounds(best, np.array([1.0, 2.0]), np.full(2, math.inf))
    keep_weights(problem, state, np.full((2, 3), 1.0), [Candidate(4.0, -math.inf, 1), Candidate(5.0, -math.inf, 2)])
    shown = state.best_w
    keep_bounds(best, np.array([1.5, 1.0]), np.full(2, math.inf))
    keep_weights(problem, state, np.full((2, 3), 2.0), [Candidate(3.0, -math.inf, 3), Candidate(6.0, -math.inf, 4)])
    second = best_figures(problem, best)
    assert [f.primal for f in second] == [3.0, 5.0] and [f.dual for f in second] == [1.5, 2.0]
    assert [f.mistakes for f in second] == [3, 2] and [f.gap for f in second] == [0.5, 0.6]
    np.testing.assert_array_equal(state.best_w, [[2.0] * 3, [1.0] * 3])
    np.testing.assert_array_equal(shown, np.ones((2, 3)))
    together = problem_of(2)  # classes share a count of mistakes: the latest weights of all
    state = new(LinearState, together, labels=None)
    for value in (1.0, 2.0):
        found = [Candidate(value, -math.inf, 0)] * 2
        keep_weights(together, state, np.full((2, 3), value), found)
    assert [f.primal for f in best_figures(together, state.best)] == [2.0, 2.0]


def test_a_constant_column_that_is_not_penalised_asks_for_a_sum_of_0():
    from scipy.optimize import minimize

    X, y = noisy(40, 3)
    A = y[:, None] * np.column_stack([X, np.ones(40)])
    objective: Objective = SoftMargin(Lp(2.0), False, free=True)
    # the dual of the squared hinge, sum alpha - alpha^2 / 4 each, under sum y alpha = 0
    found = minimize(
        lambda a: 0.5 * np.sum((a @ A[:, :-1]) ** 2) - a.sum() + 0.25 * a @ a, np.ones(40), bounds=[(0, None)] * 40,
        constraints={"type": "eq", "fun": lambda a: a @ A[:, -1]}, method="SLSQP", options={"ftol": 1e-14},
    )  # fmt: skip
    alpha = found.x
    theta = A.T @ alpha
    theta[-1] = 0.0
    inside = alpha > 1e-6  # alpha = 2 (1 - u)
    w = np.append(theta[:-1], np.mean((1 - alpha / 2 - A @ theta)[inside] * A[inside, -1]))
    u = A @ w
    sums = Sums(np.sum(np.maximum(1 - u, 0) ** 2), (alpha - alpha**2 / 4).sum(), alpha.sum(), u.min(), 0.0)
    candidate, (dual, _) = objective.candidate(objective.size(w), sums), objective.bounds(theta, sums)
    assert objective.reached(objective.figures(candidate, dual, math.inf), 1e-5)
    assert objective.bounds(theta + 1e-3, sums)[0] == -math.inf
    assert not objective.better(candidate, candidate._replace(primal=candidate.primal - 1.0), dual)


def test_a_bound_of_the_running_sums_is_an_estimate_only():
    assert SoftMargin(Lp(2.0), False).estimate(Running(1.0, 3.0, 0.0, 1.0, 0.5)) == 0.25
    assert HardMargin(Lp(2.0), False).estimate(Running(2.0, 0.0, 4.0, 0.0, 0.9)) == pytest.approx(1 - 0.9 / 2 * 4 / 2)
    assert replace(HardMargin(Lp(2.0), False), shares_mistakes=True).better(Candidate(0, 1, 0), Candidate(0, 2, 0), 0.0)
