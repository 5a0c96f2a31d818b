"""Iterates against the slow twins, and the statements of the dual acceleration paper about them."""

from functools import cache

import numpy as np
import pytest
from reference.datasets import as_form, noisy, separable
from reference.drive import begin_pass, of_codes
from reference.optimum import solve
from reference.training import Binary, binary
from reference.whole_pass import (
    make_problem,
    passes,
    perceptron_iterates,
    pseudo_rows,
    shares,
    signed,
    softmax_iterates,
    spread,
)

import streammargin as sm
from streammargin.rows.blocks import DenseBlock
from streammargin.solvers.registry import make_solver
from streammargin.sources.arrays import ArraySource

METHODS = ("dual-momentum", "normalized-gd", "normalized-gd:step=sqrt", "gd")
SOFTMAX = [(s, loss) for s in METHODS for loss in ("exponential", "logistic")]
ALL = [(s, {"loss": loss}) for s, loss in SOFTMAX] + [
    (word, {}) for word in ("batch-perceptron", "batch-perceptron:average=no")
]
CLASSES = 3


def exact_margin(A):
    """The largest min_i a_i.w over ||w|| = 1 and its direction, by an interior-point method."""
    n = len(A)
    w = solve(Binary(A, np.full(n, np.inf), binary(A, np.arange(n) % 2).loss, 2.0), "hinge").w
    return 1 / np.linalg.norm(w), w / np.linalg.norm(w)


@cache
def easy(rows=40, features=6, margin=1.0):
    """X, labels, codes, signed rows and the largest margin."""
    X, y = separable(rows, features, margin=margin)
    codes = ((y + 1) // 2).astype(np.int16)
    A = signed(X, codes)
    return X, y, codes, A, exact_margin(A)[0]


@cache
def several():
    """X, codes of three classes that are separable one from the rest and jointly."""
    rng = np.random.default_rng(4)
    codes = np.arange(45, dtype=np.int16) % CLASSES
    X = rng.standard_normal((45, 5))
    X[:, :3] += 4 * np.eye(3)[codes]
    return X, codes


def direction(w):
    return w / np.linalg.norm(w)


@pytest.mark.parametrize("method, loss", SOFTMAX)
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_iterates_of_one_problem(method, loss, form):
    X, _, codes, A, _ = easy()
    problem = make_problem(X, codes, loss=loss)
    twins = softmax_iterates(A, 60, name=loss, method=method)
    parts = [(a, ArraySource(as_form(X[a:b], form)).whole()) for a, b in ((0, 15), (15, 40))]
    for (t, _, w, report), twin in zip(passes(make_solver(method), problem, codes, parts, 60), twins, strict=True):
        assert w[0, :-1] == pytest.approx(direction(twin), abs=1e-9), t
        assert report.mistakes == np.sum(A @ twin <= 0)


@pytest.mark.parametrize("method, loss", SOFTMAX)
def test_iterates_of_a_joint_margin(method, loss):
    X, codes = several()
    A = pseudo_rows(X, codes, CLASSES)
    problem = make_problem(X, codes, loss=loss, classes=CLASSES, joint=True)
    # ||A||^2 of the pseudo-rows is K / 2 times that of the rows
    factor = CLASSES / 2 * len(X) / len(A)
    curvature = spread(X / np.linalg.norm(X, axis=1).max(), factor=factor)
    twins = softmax_iterates(A, 40, name=loss, method=method, L=curvature)
    largest, _ = exact_margin(A)
    for (t, _, w, report), twin in zip(
        passes(make_solver(method), problem, codes, [(0, DenseBlock(X, 0.0))], 40), twins, strict=True
    ):
        assert w[:, :-1].ravel() == pytest.approx(direction(twin), abs=1e-9), t
        [figures] = report.certificate
        assert figures.margin_lower == pytest.approx(np.sqrt(2) * (A @ direction(twin)).min(), abs=1e-9)
        assert figures.margin_upper >= np.sqrt(2) * largest * (1 - 1e-9)
        assert figures.primal == pytest.approx(0.5 / figures.margin_lower**2) or figures.margin_lower <= 0
        assert report.wrong[0] == np.sum(np.argmax(X @ w[:, :-1].T, axis=1) != codes)


@pytest.mark.parametrize("method, loss", SOFTMAX)
def test_iterates_of_one_class_against_the_rest(method, loss):
    X, codes = several()
    problem = make_problem(X, codes, loss=loss, classes=CLASSES)
    twins = zip(*(softmax_iterates(signed(X, codes, k), 25, name=loss, method=method) for k in range(3)), strict=True)
    for (t, _, w, report), twin in zip(
        passes(make_solver(method), problem, codes, [(0, DenseBlock(X, 0.0))], 25), twins, strict=True
    ):
        for k in range(CLASSES):
            assert w[k, :-1] == pytest.approx(direction(twin[k]), abs=1e-9), t
            margins = signed(X, codes, k) @ direction(twin[k])
            assert report.certificate[k].margin_lower == pytest.approx(margins.min(), abs=1e-9)
            assert report.certificate[k].mistakes == np.sum(margins <= 0)
        assert report.wrong[0] == np.sum(np.argmax(X @ w[:, :-1].T, axis=1) != codes)


@pytest.mark.parametrize("average", [True, False])
def test_iterates_of_the_batch_perceptron(average):
    X, _, codes, A, _ = easy()
    problem = make_problem(X, codes, loss="hinge")
    twins = list(perceptron_iterates(A, 80))
    solver = sm.solvers.BatchPerceptron(average)
    for t, _, w, _ in passes(solver, problem, codes, [(0, DenseBlock(X, 0.0))], 80):
        expected = twins[t - 1] if average is False else np.mean(twins[:t], axis=0)
        assert w[0, :-1] == pytest.approx(direction(expected), abs=1e-12), t


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_iterates_of_the_batch_perceptron_of_all_classes(average, form):
    X, codes = several()
    A = pseudo_rows(X, codes, CLASSES)
    problem = make_problem(X, codes, loss="hinge", classes=CLASSES, joint=True)
    twins, (largest, _) = list(perceptron_iterates(A, 60)), exact_margin(A)
    parts = [(a, ArraySource(as_form(X[a:b], form)).whole()) for a, b in ((0, 20), (20, 45))]
    for t, _, w, report in passes(sm.solvers.BatchPerceptron(average), problem, codes, parts, 60):
        expected = direction(np.mean(twins[:t], axis=0) if average else twins[t - 1])
        assert w[:, :-1].ravel() == pytest.approx(expected, abs=1e-10), t
        [figures] = report.certificate
        assert figures.margin_upper >= np.sqrt(2) * largest * (1 - 1e-9)
        assert report.wrong[0] == np.sum(np.argmax(X @ w[:, :-1].T, axis=1) != codes)
    assert figures.margin_lower > 0.6 * np.sqrt(2) * largest and figures.margin_upper < 1.5 * np.sqrt(2) * largest


@pytest.mark.parametrize("method, options", ALL)
@pytest.mark.parametrize("data", ["separable", "noisy"])
def test_bounds_contain_the_largest_margin_and_are_of_a_point_of_the_simplex(method, options, data):
    X, y = separable(40, 6) if data == "separable" else noisy(40, 6, flips=0.2)
    X[np.all(X == 0, axis=1)] = 1
    codes = ((y + 1) // 2).astype(np.int16)
    A = signed(X, codes)
    largest = exact_margin(A)[0] if data == "separable" else 0.0
    problem = make_problem(X, codes, loss=options.get("loss", "hinge"))
    best, before, solver = -np.inf, np.inf, make_solver(method)
    for _, state, w, report in passes(solver, problem, codes, [(0, DenseBlock(X, 0.0))], 300):
        figures, proven = report.certificate[0], solver.certified(state)[0]
        best = max(best, (A @ w[0, :-1]).min())
        assert figures.margin_lower == pytest.approx(best, abs=1e-12)
        assert (A @ proven[:-1]).min() / np.linalg.norm(proven) == pytest.approx(best, abs=1e-12)
        assert figures.mistakes == np.sum((X @ proven[:-1] > 0) != (codes == 1))  # a score of 0 is the first class
        assert figures.margin_lower <= largest * (1 + 1e-12)
        assert largest * (1 - 1e-9) <= figures.margin_upper <= before
        before = figures.margin_upper
    # far below the first bound, the length of the mean row
    share = 0.8 if method.endswith("sqrt") else 0.7  # steps that become shorter are slower
    assert figures.margin_upper - largest < share * (np.linalg.norm(A.mean(axis=0)) - largest)


def momentum(X, codes, count, loss="exponential"):
    """(t, w_t, g_t, upper bound) for rows of norm at most 1; g_t is known once pass t is over."""
    problem = make_problem(X, codes, loss=loss)
    solver = make_solver("dual-momentum")
    R = np.linalg.norm(X, axis=1).max()
    block = DenseBlock(X, 0.0)
    state, active = solver.start(problem, of_codes(codes)), np.arange(1)
    solver.prologue_block(problem, state, block, 0)
    for t in range(1, count + 1):
        begin_pass(solver, problem, state, t)
        w = R * state.w[0, :-1]
        solver.run_block(problem, state, active, block, 0)
        report = solver.end_pass(problem, state, active)
        yield t, w, state.velocity[0, :-1].copy(), report.certificate[0].margin_upper / R


def test_margin_rate():
    """Theorem 3.1, part 1, and the length of w_t that its proof uses."""
    for margin in (0.1, 1.0):
        X, _, codes, A, largest = easy(margin=margin)
        R = np.linalg.norm(X, axis=1).max()
        A, largest, n = A / R, largest / R, len(A)
        for t, w, _, _ in momentum(X, codes, 400):
            lower = (A @ w).min() / np.linalg.norm(w)
            assert lower <= largest * (1 + 1e-12)
            rate = 4 * (1 + np.log(n)) * (1 + 2 * np.log(t + 1)) / (largest * (t + 1) ** 2)
            assert lower >= largest - rate, t
            assert np.linalg.norm(w) >= largest * (t**2 + 3 * t) / 4 * (1 - 1e-12)
    assert rate < 0.5 * largest  # the bound said something


@pytest.mark.parametrize("data", ["separable", "noisy"])
def test_interval_of_the_squared_margin(data):
    """Theorem 3.1, part 2, and Lemma 3.1 with mu_t of the dual Nesterov method (section 3.2)."""
    if data == "separable":
        X, _, codes, A, largest = easy()
    else:
        X, y = noisy(40, 6, flips=0.2)
        codes, largest = ((y + 1) // 2).astype(np.int16), 0.0
        A = signed(X, codes)
    R = np.linalg.norm(X, axis=1).max()
    A, largest, n = A / R, largest / R, len(A)
    mu = np.full(n, 1 / n)
    for t, w, g, _ in momentum(X, codes, 300):
        weight = 2 / (t - 1 + 2)
        mu = (1 - weight) * mu + weight * shares("exponential", -A @ w)
        assert A.T @ mu == pytest.approx(2 * g / t, abs=1e-10)
        squared = 4 * (g @ g) / t**2
        assert squared - 8 * np.log(n) / (t + 1) ** 2 <= largest**2 * (1 + 1e-9)
        assert largest**2 <= squared * (1 + 1e-9)
        assert np.sum((A.T @ mu) ** 2) / 2 - largest**2 / 2 <= 4 * np.log(n) / (t + 1) ** 2 + 1e-12


@pytest.mark.parametrize("method, loss", SOFTMAX)
def test_the_upper_bound_is_the_smallest_of_the_points_that_the_steps_pass(method, loss):
    """||A^T q|| of every q_t, and of the mean of them that the steps make; section 5.1: the mass may be above 1."""
    X, _, codes, A, largest = easy()
    problem = make_problem(X, codes, loss=loss)
    R = np.linalg.norm(X, axis=1).max()
    A, best = A / R, np.inf
    total, mass = np.zeros(A.shape[1]), 0.0
    before = [np.zeros(A.shape[1]), *softmax_iterates(A, 150, name=loss, method=method)]
    found = {t: r.certificate[0].margin_upper for t, _, _, r in
             passes(make_solver(method), problem, codes, [(0, DenseBlock(X, 0.0))], 150)}  # fmt: skip
    for t, w in enumerate(before):
        share = shares(loss, -A @ w)
        assert share.sum() >= 1 - 1e-12
        best = min(best, np.linalg.norm(A.T @ share) / share.sum())
        if method == "gd":
            share = np.exp(-A @ w) if loss == "exponential" else 1 / (1 + np.exp(A @ w))
        decay = t / (t + 1) if method == "dual-momentum" else 1
        total, mass = decay * (total + A.T @ share), decay * (mass + share.sum())
        if mass > 0:
            best = min(best, np.linalg.norm(total) / mass)
        if t > 0:
            assert found[t] == pytest.approx(R * best, rel=1e-9), t
            assert found[t] >= largest * (1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("rows, features, margin, passes", [(20, 3, 3.0, 6000), (60, 12, 0.3, 60_000)])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_the_exact_margin_to_six_digits(form, rows, features, margin, passes):
    X, y, _, A, largest = easy(rows, features, margin)
    result = sm.train((as_form(X, form), y), solver="dual-momentum", tol=1e-6, passes=passes)
    assert result.reason == "tolerance" and result.converged
    certificate = result.certificate
    assert certificate["margin_gap"] <= 1e-6
    assert certificate["margin_lower"] == pytest.approx(largest, rel=1e-6)
    assert certificate["margin_upper"] == pytest.approx(largest, rel=1e-6)
    w = result.model.coef_[0]
    assert (A @ w).min() / np.linalg.norm(w) == pytest.approx(largest, rel=1e-6)


@pytest.mark.parametrize("bias", [None, 1.0])
def test_the_joint_margin_is_that_of_the_pseudo_rows(bias):
    X, codes = several()
    rows = X if bias is None else np.column_stack([X, np.full(len(X), bias)])
    largest, w = exact_margin(np.sqrt(2) * pseudo_rows(rows, codes, CLASSES))
    result = sm.train((X, codes), solver="dual-momentum", multiclass="joint", bias=bias, tol=1e-4, passes=20000)
    assert result.converged
    certificate = result.certificate
    assert certificate["margin_lower"] <= largest * (1 + 1e-9) <= certificate["margin_upper"] * (1 + 2e-9)
    assert certificate["margin_lower"] == pytest.approx(largest, rel=1e-4)
    assert certificate["margin_upper"] == pytest.approx(largest, rel=1e-4)
    assert certificate["primal"] == pytest.approx(0.5 / largest**2, rel=3e-4)
    assert certificate["mistakes"] == 0
    U = result.model.coef_ if bias is None else np.column_stack([result.model.coef_, result.model.intercept_ / bias])
    scores = rows @ U.T
    own = scores[np.arange(len(X)), codes]
    scores[np.arange(len(X)), codes] = -np.inf
    assert np.min(own - scores.max(axis=1)) / np.linalg.norm(U) == pytest.approx(certificate["margin_lower"], rel=1e-9)
    # a relative margin gap of e leaves an angle of at most sqrt(2 e)
    assert direction(U.ravel()) == pytest.approx(w, abs=2e-2)


def test_a_joint_margin_has_one_figure_and_a_pass_counts_each_wrong_row_once():
    X, codes = several()
    codes = np.append((codes[:4] + 1) % CLASSES, codes[4:])
    result = sm.train((X, codes), solver="normalized-gd", multiclass="joint", passes=6)
    passes = [event["mistakes"] for event in result.history if event["event"] == "pass_end"]
    certificates = [event for event in result.history if event["event"] == "certificate"]
    assert passes == [event["mistakes"] for event in certificates] and passes[-1] >= 4
    for event in certificates:
        [only] = event["per_class"]
        assert only == {name: event[name] for name in only}


@pytest.mark.parametrize("method", ["dual-momentum", "normalized-gd", "batch-perceptron"])
def test_each_class_against_the_rest(method):
    X, codes = several()
    result = sm.train((X, codes), solver=method, tol=0.05, passes=3000)
    assert result.converged
    for k, figures in enumerate(result.certificate["per_class"]):
        A = signed(X, codes, k)
        largest, _ = exact_margin(A)
        assert figures["margin_lower"] <= largest * (1 + 1e-9) <= figures["margin_upper"] * (1 + 2e-9)
        assert figures["margin_gap"] <= 0.05
        w = result.model.coef_[k]
        assert (A @ w).min() / np.linalg.norm(w) == pytest.approx(figures["margin_lower"], rel=1e-10)
    assert result.certificate["mistakes"] == np.sum(result.model.predict(X) != codes)


def test_the_largest_margin_of_the_paper_comes_first():
    """Figure 1: after as many reads, dual momentum > batch perceptron, normalised descent > descent."""
    X, y, _, _, largest = easy(margin=0.3)
    reached = {
        s: sm.train((X, y), solver=s, passes=300, tol=1e-9).certificate["margin_lower"] / largest
        for s in ("dual-momentum", "batch-perceptron", "normalized-gd", "gd")
    }
    assert reached["dual-momentum"] > max(reached["batch-perceptron"], reached["normalized-gd"])
    assert min(reached["batch-perceptron"], reached["normalized-gd"]) > reached["gd"] > 0
