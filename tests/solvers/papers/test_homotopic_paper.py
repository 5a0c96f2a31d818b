"""The steps of the homotopic method against the paper's lines, and against its bounds."""

from itertools import islice

import numpy as np
import pytest
from reference.datasets import separable
from reference.diagonal import toy, unsigned
from reference.drive import hard_problem, one_pass, problem_of, started
from reference.homotopic import constants, objective, one_row_steps, outer_iterations
from reference.optimum import solve
from reference.training import binary

import streammargin as sm
from streammargin.compiled import homotopic as kernel
from streammargin.compiled.order import permutation
from streammargin.driver.learn.validate import Midway
from streammargin.rows.blocks import DenseBlock
from streammargin.rows.labels import Labels, numbered_from
from streammargin.solvers.papers.homotopic import Homotopic
from streammargin.solvers.registry import make_solver
from streammargin.solvers.roles import new

PAPER = "s0=3,units=paper"
RATES = Homotopic(s0=3.0).schedule()


def frozen(A, passes, word):
    """(weights that a pass saw, their mass) of the first passes."""
    X, y = unsigned(A)
    solver, problem = make_solver(word), hard_problem(X)
    state = started(solver, problem, X, y)
    for t in range(1, passes + 1):
        mass = state.carried[0, kernel.ITERATE_MASS]
        w = state.w[0, :-1].copy()
        one_pass(solver, problem, state, X, t)
        yield w, mass


def rows():
    X, y = separable(14, 4, margin=0.5)
    return 2 * X * y[:, None]


@pytest.mark.parametrize("average", [True, False])
def test_iterates_are_those_of_the_paper(average):
    A = rows()
    expected = []
    for s, (_, ws, cs, _) in enumerate(islice(outer_iterations(A, 3, average), 4)):
        # the best iterate costs one more look at the last one, and its first step is known by then
        steps = slice(min(s, 1), None) if not average else slice(None, -1)
        expected += list(zip(ws[steps], cs[steps], strict=True))
    assert len(expected) == 9 + 16 + 25 + 36 + (not average)
    word = f"homotopic:{'average' if average else 'average=no'},{PAPER}"
    for (w, mass), (w_paper, c) in zip(frozen(A, len(expected), word), expected, strict=True):
        np.testing.assert_allclose(w, w_paper, rtol=1e-9, atol=1e-13)
        assert mass == pytest.approx(c.sum(), rel=1e-9, abs=1e-13)
        assert np.all(c >= 0)


@pytest.mark.parametrize(("fields", "given"), [
    ("s0=3,p=0.25,r=1.5", {"s0": 3, "p": 0.25, "r": 1.5}),
    ("s0=4,r=1.2", {"s0": 4, "r": 1.2}),
    ("s0=3,decay=log", {"s0": 3, "penalty": lambda s: 1 / np.log(s)}),
    ("s0=4,decay=exponential,base=0.7", {"s0": 4, "penalty": lambda s: 0.7 ** (s - 4)}),
    ("s0=4,decay=exponential", {"s0": 4, "penalty": lambda s: 0.9 ** (s - 4)}),
])  # fmt: skip
def test_other_rates(fields, given):
    A = rows()
    expected = []
    for _, ws, cs, _ in islice(outer_iterations(A, **given), 4):
        expected += list(zip(ws[:-1], cs[:-1], strict=True))
    found = frozen(A, len(expected), f"homotopic:{fields},units=paper")
    for (w, mass), (w_paper, c) in zip(found, expected, strict=True):
        np.testing.assert_allclose(w, w_paper, rtol=1e-9, atol=1e-13)
        assert mass == pytest.approx(c.sum(), rel=1e-9, abs=1e-13)


def test_the_bounds_of_rows_as_they_are_hold():
    """Also if they are long, so that the rounding of their sums is."""
    A = rows()
    margin = 1e6 / np.linalg.norm(solve(binary(A, np.ones(len(A)), C=np.inf), "hinge").w)
    X, y = unsigned(1e6 * A)
    result = sm.train((X, y), solver="homotopic:units=paper", passes=300, tol=1e-9)
    assert result.model.header["solver"].endswith("units=paper")
    assert result.certificate["margin_lower"] <= margin <= result.certificate["margin_upper"]
    assert 0.5 * margin < result.certificate["margin_lower"] and result.certificate["margin_upper"] < 3 * margin


@pytest.mark.parametrize(("word", "message"), [
    ("homotopic:s0=2", "above 2"), ("homotopic:p=1", "between 0 and 1"), ("homotopic:r=1", "above 2 p, which is 1"),
    ("homotopic:group=1", "write stochastic as well"), ("homotopic:s0=2.1,r=0.1,p=0.01", "raise s0"),
])  # fmt: skip
def test_what_the_paper_rules_out(word, message):
    with pytest.raises(sm.UsageError, match=message):
        make_solver(word)


def test_rows_that_no_unit_suits():
    A = 1e-120 * rows()
    with pytest.raises(sm.DataError, match=r"use solver=.homotopic"):
        sm.train(unsigned(A), solver="homotopic:units=paper", passes=3)
    assert sm.train(unsigned(A), solver="homotopic", passes=3).certificate["margin_lower"] > 0.0


@pytest.mark.parametrize("average", [True, False])
def test_stochastic_steps_of_one_row(average):
    """Each pass takes n of them, in an order of its own."""
    A = rows()
    X, y = unsigned(A)
    word = f"homotopic:{'average' if average else 'average=no'},stochastic,s0=3,units=paper,group=1"
    solver, problem = make_solver(word), hard_problem(X, seed=3)
    state = started(solver, problem, X, y)
    steps = one_row_steps(A, 3, average)
    next(steps)
    for t in range(1, 21):
        one_pass(solver, problem, state, X, t)
        for i in permutation(len(A), 3, t, 0):
            w, mass = steps.send(i)
        np.testing.assert_allclose(state.v[0, :-1], w, rtol=1e-9, atol=1e-13)
        assert state.carried[0, kernel.ITERATE_MASS] == pytest.approx(mass, rel=1e-9)
    assert state.carried[0, kernel.OUTER_DONE] >= 5


def test_the_best_iterate_is_the_best():
    A = rows()
    for lam, ws, _, start in islice(outer_iterations(A, 3, average=False), 5):
        assert objective(A, lam, start) == min(objective(A, lam, w) for w in ws[1:])


def test_a_step_for_all_rows_is_a_step_of_the_full_method():
    A = rows()  # no more rows than the smallest group has
    X, y = unsigned(A)
    solver, problem = make_solver(f"homotopic:stochastic,{PAPER}"), hard_problem(X)
    state = started(solver, problem, X, y)
    for t, (w, mass) in enumerate(frozen(A, 60, f"homotopic:{PAPER}"), 1):
        np.testing.assert_allclose(state.v[0, :-1], w, rtol=1e-9, atol=1e-13)
        assert state.carried[0, kernel.ITERATE_MASS] == pytest.approx(mass, rel=1e-9, abs=1e-13)
        one_pass(solver, problem, state, X, t)


@pytest.mark.parametrize("average", [True, False])
def test_stochastic_steps_against_plain_lines(average):
    A = rows()
    X, y = unsigned(A)
    n, width = len(A), A.shape[1] + 1
    v, kept, landed = np.zeros((1, width)), np.zeros((1, width)), np.zeros((1, width + 1))
    carried = np.zeros((1, kernel.CARRIED))
    carried[0, kernel.BEST_OBJECTIVE] = np.inf
    weights = np.ones(n)
    weights[3] = 0.0
    labels = Labels((y > 0).astype(np.int16), np.array([1]), np.full((1, 2), np.inf), weights, np.empty(0))
    rng = np.random.default_rng(0)
    w, mass, done, s, total, total_mass, best = np.zeros(width - 1), 0.0, 0, 0, 0.0, 0.0, (np.inf, None, None)
    for _ in range(12):
        order = rng.permutation(5)
        kernel.stochastic_block(
            DenseBlock(X, 0.0), numbered_from(0), labels, order, 3, np.array([0]), RATES, average, 0.5, v, kept, landed,
            carried,
        )  # fmt: skip
        for group in order:
            here = [i for i in range(3 * group, min(3 * group + 3, n)) if i != 3]
            lam, t = (3 + s) ** -0.5, (3 + s) ** 2
            _, alpha, C = constants(3)
            eta = C * (2 + s) ** -alpha / np.sqrt(t)
            B = A[here] / 2
            if done:
                best = min(best, (objective(B, lam, w), w, mass), key=lambda seen: seen[0])
            inside = B @ w <= 1
            w = (1 - lam * eta) * w + eta / len(B) * (inside @ B)
            mass = (1 - lam * eta) * mass + eta * inside.mean()
            total, total_mass, done = total + w, total_mass + mass, done + 1
            if done == t:
                w, mass = (total / t, total_mass / t) if average else best[1:]
                end = np.append(w, [0.0, mass])
                total, total_mass, done, s, best = 0.0, 0.0, 0, s + 1, (np.inf, None, None)
        np.testing.assert_allclose(v[0, :-1], w, rtol=1e-9, atol=1e-13)
        assert carried[0, kernel.ITERATE_MASS] == pytest.approx(mass, rel=1e-9)
    assert s >= 2
    np.testing.assert_allclose(landed[0], end, rtol=1e-9, atol=1e-13)


def test_constants_of_corollary_3_2():
    eps, alpha, C = constants(10)
    assert eps < 0.046 and C < 4.9
    for s in range(30):
        penalty, steps, eta = kernel.rates(float(s), Homotopic().schedule())
        assert (penalty, steps) == (pytest.approx((10 + s) ** -0.5), (10 + s) ** 2)
        assert eta == pytest.approx(C * (9 + s) ** -alpha / (10 + s), rel=1e-14)
        assert eta * penalty < 1


@pytest.mark.parametrize("average", [True, False])
def test_lemma_2_2_and_theorem_3_1(average):
    """On 16 rows lambda' = 8/16: ||w|| <= sum ||x_j|| / (lambda n), and eq. (8) at the end of every outer iteration."""
    A = toy(16)
    X, y = unsigned(A)
    lengths = np.linalg.norm(A, axis=1).mean()
    eps, alpha, C = constants(10)
    L = 2 * lengths
    solver, problem = Homotopic(average, units="paper"), hard_problem(X)
    state = started(solver, problem, X, y)
    outer, ends, errors = 0, 0, []
    for t in range(1, 1600):
        one_pass(solver, problem, state, X, t)
        s = state.carried[0, kernel.OUTER_DONE]
        penalty = kernel.rates(s, solver.schedule())[0]
        v = state.v[0, :-1]
        assert np.linalg.norm(v) <= lengths / penalty * (1 + 1e-12)
        if s > outer and average:  # the theorem is one of the averages
            k = sum((10 + i) ** 2 for i in range(int(s)))
            error = np.linalg.norm(v - 0.5)
            first = C * L * (3 * k) ** (-alpha * (1 - eps) / 3)
            assert error <= first + L / (2 * 0.5**2) * (3 * k) ** (-0.5 / 3)
            errors.append(error)
            ends += 1
        outer = s
    assert ends == (8 if average else 0) and outer == 8
    assert not average or errors[-1] < errors[0]


def test_the_bias_midway_between_the_classes():
    """Eq. (15), and |b - b*| <= max ||x_i|| ||w - w*|| (homotopic paper, section 6.5)."""
    rng = np.random.default_rng(2)
    X = np.vstack([toy(30), -toy(30, 1)]) + np.array([3.0, -1.0])
    y = np.repeat([1, -1], 30)

    def centred_bias(scores, y):
        found = new(Midway, problem_of(X), labels=None)
        for rows in (slice(0, 40), slice(40, 60)):
            found.add(scores[rows, None], y[rows, None] > 0)
        return found.bias()[0]

    w_star, b_star = np.array([0.5, 0.5]), -1.0  # the toy set moved by (3, -1)
    assert centred_bias(X @ w_star, y) == pytest.approx(b_star, abs=1e-12)
    for size in (1e-3, 0.1, 1.0):
        w = w_star + size * rng.standard_normal(2)
        b = centred_bias(X @ w, y)
        assert np.min(X[y > 0] @ w + b) == pytest.approx(-np.max(X[y < 0] @ w + b), abs=1e-12)
        assert abs(b - b_star) <= np.linalg.norm(X, axis=1).max() * np.linalg.norm(w - w_star)


def test_stochastic_steps_depend_on_the_seed_alone():
    data = separable(200, 6)
    coefs = [sm.train(data, solver="homotopic:stochastic", passes=3, seed=s).model.coef_ for s in (1, 1, 2)]
    assert np.array_equal(coefs[0], coefs[1]) and not np.array_equal(coefs[0], coefs[2])
