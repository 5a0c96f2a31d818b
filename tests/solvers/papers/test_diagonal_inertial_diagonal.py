"""Diagonal descent against the paper's lines and theorems, and to the exact largest margin."""

import numpy as np
import pytest
from reference.datasets import as_form, noisy, separable
from reference.diagonal import descend, toy, unsigned
from reference.drive import hard_problem, one_pass, started, visit_all
from reference.optimum import solve
from reference.sources import CountingSource
from reference.training import binary

import streammargin as sm
from streammargin.rows.blocks import DenseBlock
from streammargin.solvers.papers.diagonal import Diagonal
from streammargin.solvers.registry import make_solver

SLACK = 1.0 + 1e-9


def run(word, A, passes):
    """Yields (beta_t, w_t) in the units of the rows, and 1/gamma first: at least ||A A^T||, the same for all t."""
    X, y = unsigned(A)
    problem, solver = hard_problem(X), make_solver(word)
    state = started(solver, problem, X, y)
    R = np.linalg.norm(A, axis=1).max()
    assert solver.largest_norm(state) == pytest.approx(R, rel=1e-15)
    for t in range(1, passes + 1):
        one_pass(solver, problem, state, X, t)
        if t == 1:
            fixed = state.curvature[0]
            assert 1.0 <= fixed / np.linalg.norm(A / R, 2) ** 2 <= 1.1 * (1 + 1e-12)
            yield fixed * R**2
        assert state.curvature[0] == fixed
        yield state.beta[0] / R**2, state.theta[0, :-1] / R


@pytest.mark.parametrize(("word", "alpha"), [
    ("diagonal", None), ("inertial-diagonal:restarts=no,alpha=5", 5.0), ("inertial-diagonal:restarts=no", 3.0),
    ("inertial-diagonal:restarts=no,alpha=10", 10.0),
])  # fmt: skip
@pytest.mark.parametrize(
    ("lambda0", "decay", "inverse"), [(400, "linear", lambda t: t / 400), (99, "sqrt", lambda t: t**0.5 / 99)]
)
def test_iterates_are_those_of_the_paper(word, alpha, lambda0, decay, inverse):
    fields = f"{',' if ':' in word else ':'}lambda0={lambda0},decay={decay},gamma=fixed"
    X, y = separable(40, 6)
    A = X * y[:, None]
    passes = run(word + fields, A, 60)
    twin = descend(A, 1 / next(passes), inverse, 60, alpha)
    walls = 0
    for t, ((beta, w), expected) in enumerate(zip(passes, twin, strict=True), 1):
        np.testing.assert_allclose(beta, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(w, A.T @ expected, rtol=1e-9, atol=1e-12)
        walls += bool(np.any(expected == inverse(t)))
    assert walls > 0, "the box must have mattered"


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("kernel", [None, "linear"])
def test_the_answer_is_w_of_eq_4_7_if_that_is_asked_for(form, kernel):
    """The best w_t so far is certified, not a point with inertia; by blocks, and in the space of a kernel too."""
    X, y = separable(40, 6)
    A, fields = X * y[:, None], "lambda0=400,decay=linear,gamma=fixed,alpha=10,restarts=no"
    *_, (_, last) = passes = list(run(f"inertial-diagonal:{fields}", A, 30))[1:]
    best = max((A @ w).min() / np.linalg.norm(w) for _, w in passes)
    given = (as_form(X, form), y) if kernel else CountingSource(as_form(X, form), y, (0, 15, 40))
    result = sm.train(
        given, solver=f"inertial-diagonal:{fields},ahead=no", tol=0.0, passes=31, kernel=kernel,
        bias=None if kernel else 0,
    )  # fmt: skip
    answer = result.model.answer
    w = answer.coef[0] @ X[answer.numbers] if kernel else result.model.coef_[0]
    assert (A @ w).min() / np.linalg.norm(w) == pytest.approx(result.certificate.margin_lower, rel=1e-9)
    assert result.certificate.margin_lower == pytest.approx(
        best, rel=0.05 if kernel else 1e-9
    )  # another start of gamma
    if kernel is None and best == (A @ last).min() / np.linalg.norm(last):
        np.testing.assert_allclose(w, last, rtol=1e-9)


def test_a_step_that_is_proven_too_long_shortens_the_ones_after_it():
    """As when the power iteration has not found the largest eigenvalue."""
    X, y = separable(40, 6)
    problem, solver = hard_problem(X), Diagonal(gamma="fixed")
    state = started(solver, problem, X, y)
    state.product[:] /= 100.0
    found = []
    for t in range(1, 41):
        one_pass(solver, problem, state, X, t)
        found.append(state.curvature[0])
    assert np.all(np.diff(found) >= 0.0) and found[-1] > found[0]
    assert found[-1] <= np.linalg.norm(X / solver.largest_norm(state), 2) ** 2 * (1 + 1e-9)


@pytest.mark.parametrize("X", [np.zeros((4, 3)), np.ones((1, 1))], ids=["rows of zeros", "one row"])
def test_the_fixed_step_of_degenerate_rows(X):
    problem, solver = hard_problem(X), Diagonal(gamma="fixed")
    state = started(solver, problem, X, np.ones(len(X)))
    one_pass(solver, problem, state, X, 1)
    assert state.curvature[0] == 1.0


def optimum(A):
    X, y = unsigned(A)
    found = solve(binary(X, y, C=np.inf), "hinge")
    return found.w, found.alpha


@pytest.mark.parametrize("decay", ["linear", "square", "sqrt", "exponential"])
@pytest.mark.parametrize("rows", ["toy", "separable"])
def test_theorem_5_2_and_proposition_5_2(decay, rows):
    """lambda_1 <= 1/||u*||; u_0 = u_1 = 0."""
    A = toy(40) if rows == "toy" else (lambda X, y: X * y[:, None])(*separable(30, 5, margin=0.5))
    w_star, u_star = optimum(A)
    alpha = 5.0
    fields = f"lambda0={0.999 / float(np.linalg.norm(u_star))!r},decay={decay},gamma=fixed,alpha=5,restarts=no"
    passes = run(f"inertial-diagonal:{fields}", A, 200)
    inverse_gamma = next(passes)
    D = lambda beta: 0.5 * np.sum((A.T @ beta) ** 2) - np.sum(beta)  # noqa: E731
    start = inverse_gamma * np.sum(u_star**2)
    C = (alpha - 1) * np.sqrt(2 * np.sum(u_star) - np.sum(w_star**2) + start)
    C_dual = (alpha - 1) * np.sqrt(-D(u_star) + start / 2)
    for t, (beta, w) in enumerate(passes, 1):
        assert np.linalg.norm(w - w_star) <= C / (t + alpha - 1) * SLACK + 1e-6
        assert D(beta) - D(u_star) <= C_dual**2 / (t + alpha - 1) ** 2 * SLACK + 1e-8


def test_lemma_5_3_the_plain_form_comes_nearer_with_every_step():
    """Eq. (5.15) at u = u*, and D_t falls."""
    A = toy(40)
    _, u_star = optimum(A)
    passes = run(f"diagonal:{1 / float(np.linalg.norm(u_star))!r},decay=linear,gamma=fixed", A, 200)
    next(passes)
    distance, value = np.linalg.norm(u_star), 0.0
    for beta, w in passes:
        now, dual = np.linalg.norm(beta - u_star), 0.5 * (w @ w) - np.sum(beta)
        assert now <= distance * (1 + 1e-7) and dual <= value + 1e-12
        distance, value = now, dual


def test_the_step_size_that_adapts_fails_seldom_and_descends_otherwise():
    X, y = separable(80, 15, seed=4)
    A = X * y[:, None]
    solver, problem = Diagonal(), hard_problem(X)
    state = started(solver, problem, X, y)
    R = solver.largest_norm(state)
    norm = np.linalg.norm(A / R, 2) ** 2
    old, value, failures, smallest = np.zeros(len(A)), 0.0, 0, np.inf
    for t in range(1, 301):
        curvature, fall = state.curvature[0], state.fall[0]
        one_pass(solver, problem, state, X, t)
        beta = state.beta[0]
        d = beta - old
        quotient = np.sum((A.T @ d / R) ** 2) / np.sum(d**2)
        dual = 0.5 * np.sum((A.T @ beta / R) ** 2) - np.sum(beta)
        if t > 1:
            failed = quotient > curvature
            assert failed == (state.fall[0] < fall)
            assert failed or dual <= value + 1e-9 * abs(value)
            failures += failed
        smallest = min(smallest, state.curvature[0])
        old, value = beta.copy(), dual
    # log(1/gamma) rises by log 1.2 at a failure, and falls by the shares in between
    assert 0 < failures <= 20
    assert smallest < norm / 3, "no step was longer than the paper's"


def test_an_interrupted_pass_leaves_the_certificate_alone():
    X, y = separable()
    solver, problem = Diagonal(), hard_problem(X)
    state = started(solver, problem, X, y)
    for t in range(1, 20):
        report = one_pass(solver, problem, state, X, t)
    known, weights = report.certificate[0], solver.certified(state).copy()
    visit_all(solver, problem, state, 20, DenseBlock(X[:7], 0.0))
    after = solver.end_pass(problem, state, np.array([0])).certificate[0]
    assert (after.margin_lower, after.margin_upper) == (known.margin_lower, known.margin_upper)
    np.testing.assert_array_equal(solver.certified(state), weights)


SOLVERS = ["diagonal", "inertial-diagonal"]


def intervals(result):
    events = [e for e in result.history if e["event"] == "certificate"]
    assert [e["pass"] for e in events] == list(range(1, result.passes + 1)), "every pass certifies itself"
    return [(e["margin_lower"], e["margin_upper"]) for e in events]


@pytest.mark.parametrize("bias", [None, 1.0])
def test_the_exact_maximum_margin(bias):
    X, y = separable()
    exact = binary(X, y, C=np.inf, bias=bias)
    w = solve(exact, "hinge").w
    margin = exact.margin(w)
    result = sm.train((X, y), solver="inertial-diagonal", tol=1e-6, bias=bias)
    assert result.converged and result.passes < 1000
    assert all(lower <= margin * (1 + 1e-7) and upper >= margin * (1 - 1e-7) for lower, upper in intervals(result))
    found = np.append(result.model.coef_[0], result.model.intercept_ / bias if bias else [])
    assert exact.margin(found) == pytest.approx(result.certificate["margin_lower"], rel=1e-12)
    assert exact.margin(found) == pytest.approx(margin, rel=1.1e-6)
    np.testing.assert_allclose(found / np.min(exact.A @ found), w, rtol=0, atol=5e-3 * np.linalg.norm(w))


@pytest.mark.parametrize("fields", ["", ":1,decay=log", ":1,decay=sqrt", ":4,decay=linear", ":1,decay=square", ":1"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_toy_set_of_the_papers(solver, fields):
    X, y = unsigned(toy(80))
    result = sm.train((X, y), solver=solver + fields, passes=1000)
    assert result.converged
    w = result.model.coef_[0]
    np.testing.assert_allclose(w / np.min(y * (X @ w)), [0.5, 0.5], atol=0.01)
    assert result.certificate["margin_lower"] <= np.sqrt(2) * (1 + 1e-12)
    assert result.certificate["margin_upper"] >= np.sqrt(2) * (1 - 1e-12)
    assert result.certificate["primal"] == pytest.approx(0.25, rel=3e-3)


def test_the_bound_falls_at_least_like_one_over_t_on_hopeless_data():
    X, y = noisy(flips=0.2)
    X, y = np.delete(X, 20, 0), np.delete(y, 20)
    uppers = [upper for _, upper in intervals(sm.train((X, y), solver="diagonal", tol=0.0, passes=640))]
    assert uppers[639] <= uppers[79] / 8 * 1.5


@pytest.mark.parametrize("solver", [*SOLVERS, "homotopic"])
def test_rows_among_the_smallest_numbers_there_are_are_refused(solver):
    X, y = separable()
    with pytest.raises(sm.DataError, match=r"largest row has the norm .*e-309"):
        sm.train((X * 1e-310, y), solver=solver, passes=20)
