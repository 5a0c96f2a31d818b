"""The methods of the Pdprox paper's experiments reach the optimum, and keep what theory says of their rates."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from reference.datasets import noisy
from reference.words import of_columns
from scipy.optimize import minimize

from examples import first_order as methods
from examples.paper_data import of_tasks
from streammargin.penalties import Group
from streammargin.penalties.outputs import ColumnLengths, ColumnSizes, SingularValues

GROUPS = np.array([0, 0, 1, 2, 1, 2, 2, 0])
PENALTIES = {"group": of_columns(Group(GROUPS), len(GROUPS)), "l2": of_columns("l2")}
CASES = [("group", 0.0), ("group", -1.0), ("l2", 0.0)]
ROWS, LAMBDA = 60, 0.02


def problem(penalty, low, form=np.asarray, budget=math.inf):
    X, y = noisy(ROWS, 8, seed=2)
    return methods.Problem(form(y[:, None] * X), LAMBDA, PENALTIES[penalty], low, budget)


@pytest.fixture(scope="module")
def optimum():
    """(w, objective) of the interior-point method."""
    conic = pytest.importorskip(
        "reference.conic", reason="the interior-point method is clarabel's", exc_type=ImportError
    )
    X, y = noisy(ROWS, 8, seed=2)

    def solve(penalty, low):
        loss, C = "absolute_error" if low else "hinge", np.full(ROWS, 1.0 / (ROWS * LAMBDA))
        best, w, _ = conic.solve(X, y, C, penalty, loss, groups=GROUPS, constant=0.0, free=False)
        assert problem(penalty, low).objective(w) == pytest.approx(LAMBDA * best, rel=1e-6)
        return w, LAMBDA * best

    return {case: solve(*case) for case in CASES}


TASKS, COLUMNS, WIDTH = 3, 4, 0.1


def of_matrix(penalty):
    """Regression with several tasks and epsilon-insensitive losses, two duals a row; X, y and the task of each row."""
    random = np.random.default_rng(5)
    X, tasks = random.standard_normal((ROWS, COLUMNS)), random.integers(0, TASKS, ROWS)
    y = np.sum(X * random.standard_normal((TASKS, COLUMNS))[tasks], axis=1) + random.standard_normal(ROWS)
    A = of_tasks(X, tasks)
    p = methods.Problem(
        sp.vstack([A, -A]).tocsr(), LAMBDA, penalty, targets=np.concatenate([y, -y]) - WIDTH, rows=ROWS,
        shape=(TASKS, COLUMNS),
    )  # fmt: skip
    return p, X, y, tasks


@pytest.fixture(scope="module")
def of_outputs():
    """The interior-point method for a matrix of weights."""
    return pytest.importorskip(
        "reference.conic_outputs", reason="the interior-point method is clarabel's", exc_type=ImportError
    ).Outputs


def solved(program, penalty):
    """(objective, w) of the program, with lambda of the mean loss."""
    program.penalise(penalty, 1.0)
    best, W, _ = program.solve()
    return LAMBDA * best, W[:, :COLUMNS].ravel()  # the last column is the constant, which is 0


MATRICES = {"l1inf": ColumnSizes(), "l21": ColumnLengths(), "trace": SingularValues()}


@pytest.mark.parametrize("name, penalty", MATRICES.items())
def test_a_matrix_of_tasks_has_the_optimum_of_its_program(name, penalty, of_outputs):
    p, X, y, tasks = of_matrix(penalty)
    program = of_outputs(X, TASKS, 0.0, False)
    caps, Y = np.zeros((ROWS, TASKS)), np.zeros((ROWS, TASKS))
    caps[np.arange(ROWS), tasks], Y[np.arange(ROWS), tasks] = 1.0 / (ROWS * LAMBDA), y
    program.absolute(Y, caps, WIDTH)
    best, w = solved(program, name)
    assert p.objective(w) == pytest.approx(best, rel=1e-5)
    scores = np.sum(X * w.reshape(p.shape)[tasks], axis=1)
    loss = np.maximum(np.abs(scores - y) - WIDTH, 0.0).mean()
    assert p.objective(w) == pytest.approx(loss + LAMBDA * penalty.value(w.reshape(p.shape)), rel=1e-12)
    _, alpha = take(methods.algorithm_1(p, 8.0 * p.gamma), 6000)[-1]
    scale = min(1.0, penalty.zero_factor(p.pull(alpha).reshape(p.shape) / LAMBDA) * (1 - 1e-12))
    assert best * (1 - 2e-3) <= p.dual(scale * alpha) <= best * (1 + 1e-6)
    D, R = np.linalg.norm(w), math.sqrt(p.c * p.n)
    for iterates in (
        (w for w, _ in methods.algorithm_1(p, 8.0 * p.gamma)), methods.pdexg(p, p.n / D**2), methods.gd(p, D / R),
        methods.fobos(p, D / R), methods.rda(p, D / R),
    ):  # fmt: skip
        reached = min(map(p.objective, take(iterates, 3000)[-500:]))
        assert best * (1 - 1e-6) <= reached <= best * 1.02
    # R in a dual form: the largest w.u over the ball of u
    told = methods.Dualised(p)
    u = told.project(np.append(np.zeros(p.n), 1e5 * w))[p.n :]
    assert told.costs * w @ u == pytest.approx(LAMBDA * penalty.value(w.reshape(p.shape)), rel=1e-4)
    assert np.linalg.norm(w) <= told.radius


def test_lengths_of_several_targets_have_the_optimum_of_their_program(of_outputs):
    random = np.random.default_rng(6)
    X = random.standard_normal((30, COLUMNS))
    Y = X @ random.standard_normal((COLUMNS, TASKS)) + random.standard_normal((30, TASKS))
    program = of_outputs(X, TASKS, 0.0, False)
    program.lengths(Y, np.full(30, 1.0 / (30 * LAMBDA)))
    best, w = solved(program, "l21")
    for form in (np.asarray, sp.csr_matrix):
        p = methods.Lengths(form(X), LAMBDA, ColumnLengths(), targets=Y)
        assert p.objective(w) == pytest.approx(best, rel=1e-5)
        one, other = (take(form(p, p.gamma, p.gamma), 1500)[-1]
                      for form in (methods.dual_double_dual, methods.dual_double_primal))  # fmt: skip
        assert p.objective(one[0]) == pytest.approx(best, rel=1e-3)
        np.testing.assert_allclose(one[0], other[0], atol=1e-9)
        assert np.linalg.norm(one[1].reshape(Y.shape), axis=1).max() <= 1 + 1e-12


def take(iterates, count):
    return list(itertools.islice(iterates, count))


@pytest.mark.parametrize("case", CASES)
def test_subgradients_keep_their_bounds(case, optimum):
    """Of the least objective after T steps eta / sqrt(t), with eta the distance D over the subgradients' size G."""
    p, (w, best), T = problem(*case), optimum[case], 400
    D, R = np.linalg.norm(w), math.sqrt(p.c * p.n)
    roots, harmonic = sum(t**-0.5 for t in range(1, T + 1)), sum(1 / t for t in range(1, T + 1))
    for method, paid in ((methods.gd, 1.0), (methods.fobos, 7.0)):  # Duchi and Singer 2009, Theorem 2
        found = take(method(p, D / R), T)
        reach = max(map(np.linalg.norm, found))
        beside = LAMBDA * (max(reach, D) if case[0] == "l2" else math.sqrt(8.0))  # the subgradients of lam R
        G = R + beside
        eta = D / R
        bound = (D**2 + paid * eta**2 * G**2 * harmonic) / (2.0 * eta * roots)
        value = min(map(p.objective, found)) - best
        assert -1e-9 <= value <= bound
        assert min(map(p.objective, found[:40])) - best > value  # it is not there from the start
    assert value < 0.02


@pytest.mark.parametrize("case", CASES)
def test_the_mean_of_dual_averaging_keeps_its_bound(case, optimum):
    p, (w, best), T = problem(*case), optimum[case], 2000
    D, R = np.linalg.norm(w), math.sqrt(p.c * p.n)
    means = np.cumsum(take(methods.rda(p, D / R), T), axis=0) / np.arange(1, T + 1)[:, None]
    for t in (10, 100, T):  # Xiao 2009, Corollary 2 with gamma = G / D: (gamma D^2 + G^2 / gamma) sqrt(t) / t
        assert -1e-9 <= p.objective(means[t - 1]) - best <= 2.0 * D * R / math.sqrt(t)


@pytest.mark.parametrize("case", CASES)
def test_accelerated_gradients_come_near(case, optimum):
    p, (_, best) = problem(*case), optimum[case]
    found = [p.objective(w) - best for w in take(methods.agd(p, 1.0 / p.c), 300)]
    assert -1e-9 <= min(found) < 0.005 < 0.1 * found[0]


@pytest.mark.parametrize("ratio", [0.1, 30.0])
@pytest.mark.parametrize("case, dualised", [*((case, False) for case in CASES), *((case, True) for case in CASES[:2])])
def test_the_excessive_gap_keeps_its_bound(case, dualised, ratio, optimum):
    p, (w, best) = problem(*case), optimum[case]
    told, most = (methods.Dualised(p), ROWS + 3) if dualised else (p, ROWS)  # no dual is longer than the root of it
    bounds = []
    for k, (v, alpha, mu_1, mu_2) in enumerate(take(methods.excessive_gap(told, ratio), 1000)):
        bounds.append(0.5 * mu_1 * w @ w + 0.5 * mu_2 * most)
        assert -1e-9 <= p.objective(v) - best <= bounds[k] * (1 + 1e-9)
        assert p.low <= alpha[:ROWS].min() and alpha[:ROWS].max() <= 1.0
        assert not dualised or p.penalty.groups.lengths(v).all()  # no group is empty, as the paper says
    assert bounds[-1] * 900 < bounds[0] * 4.0  # it falls as 1/t


def test_pdexg_is_that_of_the_paper():
    p = problem(*CASES[0])
    theirs = take(methods.excessive_gap(methods.Dualised(p), 2.0), 9)[-1][0]
    np.testing.assert_array_equal(take(methods.pdexg(p, 2.0), 9)[-1], theirs)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("budget", [math.inf, 7])
def test_the_forms_of_the_paper_have_the_same_iterates(form, budget):
    p = problem("group", 0.0 if budget < math.inf else -1.0, form, budget)
    steps = 3.0 * p.gamma, 0.3 * p.gamma
    for one, other in (
        (methods.dual_double_dual, methods.dual_double_primal),
        (methods.primal_double_primal, methods.primal_double_dual),
    ):
        pairs = zip(take(one(p, *steps), 200), take(other(p, *steps), 200), strict=True)
        for mine, theirs in pairs:
            for found, expected in zip(mine, theirs, strict=True):
                np.testing.assert_allclose(found, expected, atol=1e-11)


@pytest.mark.parametrize("case", CASES)
def test_pdprox_comes_to_the_optimum(case, optimum):
    p, (_, best) = problem(*case), optimum[case]
    strong = {"strong": 1.0} if case[0] == "l2" else {}
    for iterates in (
        methods.algorithm_1(p, p.gamma), methods.dual_double_dual(p, 2.0 * p.gamma, p.gamma, **strong),
        methods.primal_double_primal(p, p.gamma, p.gamma),
    ):  # fmt: skip
        assert p.objective(take(iterates, 4000)[-1][0]) == pytest.approx(best, rel=1e-4)
    w, alpha = take(methods.averaged(methods.algorithm_1(p, p.gamma)), 3000)[-1]
    assert p.objective(w) == pytest.approx(best, rel=0.02)
    if case[0] == "l2":
        assert p.dual(alpha) <= best * (1 + 1e-9) and p.objective(w) - p.dual(alpha) < 0.02 * best


@pytest.mark.parametrize("budget", [0.5, 3.0, 7.25, 100.0])
def test_lemma_13_projects_on_the_budget(budget):
    rng = np.random.default_rng(0)
    for v in rng.normal(0.3, 1.0, (10, 20)):
        alpha = methods.projected(v, 0.0, budget)
        assert alpha.min() >= 0.0 and alpha.max() <= 1.0 and alpha.sum() <= budget * (1 + 1e-12)
        nearest = minimize(
            lambda a, v=v: 0.5 * np.sum((a - v) ** 2), np.full(20, min(0.5, budget / 40)), jac=lambda a, v=v: a - v,
            bounds=[(0, 1)] * 20,
            constraints={"type": "ineq", "fun": lambda a: budget - a.sum(), "jac": lambda a: -np.ones(20)},
            method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
        )  # fmt: skip
        assert nearest.success
        np.testing.assert_allclose(alpha, nearest.x, atol=1e-6)
        for other in rng.random((20, 20)):  # the way to any other point of the set leads away from v
            other *= min(1.0, budget / other.sum())
            assert (v - alpha) @ (other - alpha) <= 1e-9
        assert np.array_equal(methods.projected(v, -1.0, math.inf), np.clip(v, -1.0, 1.0))


def test_the_walk_ends_at_the_least_value_of_a_valley():
    for least in (-10, -3, 0, 4, 10):
        asked = []
        found = methods.best_exponent(lambda k, asked=asked, least=least: asked.append(k) or abs(k - least))
        assert found == least and len(set(asked)) == len(asked) and max(map(abs, asked)) <= 10
        assert methods.best_exponent(lambda k, least=least: abs(k - least), start=7) == least
    assert methods.best_exponent(lambda k: -k) == 10
