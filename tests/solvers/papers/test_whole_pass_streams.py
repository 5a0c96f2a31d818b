"""Forms and precisions; classes left out; classes that have converged; passes that are interrupted."""

import numpy as np
import pytest
from conftest import slow
from reference.datasets import as_form, noisy, separable
from reference.drive import begin_pass, labels_of
from reference.sources import CountingSource
from reference.whole_pass import make_problem, signed

import streammargin as sm
from streammargin.rows.blocks import DenseBlock
from streammargin.solvers.registry import make_solver

METHODS = ("dual-momentum", "normalized-gd", "gd", "batch-perceptron")
FIGURES = ("margin_lower", "margin_upper", "mistakes", "primal")


def figures(result):
    return [result.certificate[key] for key in FIGURES]


def three_classes(rows=60):
    X, _ = noisy(rows, 6)
    X[np.all(X == 0, axis=1)] = 1
    return X, np.arange(rows) % 3


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize("form", ["dense", slow("csr")])
def test_forms_and_precisions_agree(form, solver):
    X, y = separable()
    X = X.astype(np.float32).astype(float)
    options = {"solver": solver, "passes": 15, "tol": 1e-9, "bias": 0.5}
    double = sm.train((X, y), **options)
    single = sm.train((as_form(X, form, np.float32), y), **options)
    # float32 rows are numbers of float64 too
    assert single.model.coef_ == pytest.approx(double.model.coef_, rel=1e-8, abs=1e-10)
    assert single.model.intercept_ == pytest.approx(double.model.intercept_, rel=1e-8, abs=1e-10)
    assert figures(single) == pytest.approx(figures(double), rel=1e-8)
    w = np.append(double.model.coef_[0], double.model.intercept_[0] / 0.5)
    A = signed(np.column_stack([X, np.full(len(X), 0.5)]), y)
    assert (A @ w).min() / np.linalg.norm(w) == pytest.approx(double.certificate["margin_lower"], rel=1e-9)


@pytest.mark.parametrize("multiclass", ["ovr", "joint"])
def test_classes_left_out_are_absent(multiclass):
    X, y = three_classes(80)
    y = np.where(np.arange(80) % 4 == 3, 9, y)
    options = {"solver": "dual-momentum", "multiclass": multiclass, "passes": 15}
    some = sm.train((X, y), classes=[0, 1, 2], **options)
    alone = sm.train((X[y != 9], y[y != 9]), **options)
    assert some.model.coef_ == pytest.approx(alone.model.coef_, rel=1e-8, abs=1e-10)
    assert figures(some) == pytest.approx(figures(alone), rel=1e-8)


def test_a_class_that_is_done_keeps_its_certified_weights():
    """One class is easy, one hard: the figures of the easy one stay what they were when it was done."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.standard_normal((60, 4))
    X[:, 0] += 8.0 * (y == 0)
    X[:, 1] += 6.0 * (y == 1)
    X[:, 2] += 6.0 * (y == 2)
    result = sm.train((X, y), solver="dual-momentum", tol=0.02, passes=3000)
    assert result.converged
    gaps = np.array([[c["margin_gap"] for c in e["per_class"]] for e in result.history if e["event"] == "certificate"])
    firsts = [np.flatnonzero(gaps[:, k] <= 0.02)[0] for k in range(3)]
    assert max(firsts) == len(gaps) - 1 > min(firsts)
    for k, first in enumerate(firsts):
        assert gaps[first:, k] == pytest.approx(gaps[first, k], rel=1e-9)


@pytest.mark.parametrize("solver", METHODS)
def test_a_pass_that_was_broken_off_proves_nothing(solver):
    X, y = separable()
    blocks = [(0, DenseBlock(X[:5].copy(), 0.0)), (5, DenseBlock(X[5:].copy(), 0.0))]
    method = make_solver(solver)
    problem = make_problem(X, y > 0, loss=method.default_loss)
    state, active = method.start(problem, labels_of(y)), np.arange(1)
    for first, block in blocks:
        method.prologue_block(problem, state, block, first)
    for t in range(1, 6):
        begin_pass(method, problem, state, t)
        for first, block in blocks:
            method.run_block(problem, state, active, block, first)
        report = method.end_pass(problem, state, active)
    known = method.certified(problem, state).copy()
    begin_pass(method, problem, state, 6)
    method.run_block(problem, state, active, *blocks[0][::-1])
    broken = method.end_pass(problem, state, active)
    assert broken.certificate is not None and np.isinf(broken.estimate).all()
    for name, value in vars(report.certificate[0]).items():
        assert np.array_equal(getattr(broken.certificate[0], name), value), name
    assert np.array_equal(method.certified(problem, state), known)
    assert np.linalg.norm(method.weights(problem, state)) == pytest.approx(1)


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize("after", [1, 5, 8])
def test_a_signal_ends_a_run_with_weights_but_no_figures(solver, after):
    X, y = separable()
    calls = iter(range(after))
    result = sm.train(
        CountingSource(X, y, (0, 20, 60)), solver=solver, tol=1e-9,
        should_stop=lambda: "signal" if next(calls, None) is None else None,
    )  # fmt: skip
    assert result.reason == "signal" and result.certificate["margin_lower"] is None
    # nothing is learnt before the prologue has seen all rows
    assert np.linalg.norm(result.model.coef_) == pytest.approx(float(after > 1))
