"""Methods that step once a pass: classes left out or done, passes that are interrupted, odd rows."""

import numpy as np
import pytest
from conftest import slow
from reference.datasets import as_form, noisy, separable
from reference.drive import begin_pass, labels_of
from reference.sources import CountingSource
from reference.stopped import stop_after
from reference.whole_pass import make_problem

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
    known = method.certified(state).copy()
    begin_pass(method, problem, state, 6)
    method.run_block(problem, state, active, *blocks[0][::-1])
    broken = method.end_pass(problem, state, active)
    assert broken.certificate is not None and np.isinf(broken.estimate).all()
    for name, value in vars(report.certificate[0]).items():
        assert np.array_equal(getattr(broken.certificate[0], name), value), name
    assert np.array_equal(method.certified(state), known)
    assert np.linalg.norm(method.weights(problem, state)) == pytest.approx(1)


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize("after", [1, 5, 8])
def test_a_signal_ends_a_run_with_weights_but_no_figures(solver, after):
    X, y = separable()
    source = CountingSource(X, y, (0, 20, 60))
    result = sm.train(source, solver=solver, tol=1e-9, should_stop=stop_after(after))
    assert result.reason == "signal" and result.certificate["margin_lower"] is None
    # nothing is learnt before the prologue has seen all rows
    assert np.linalg.norm(result.model.coef_) == pytest.approx(float(after > 1))


def test_one_row_of_each_of_several_classes():
    for multiclass, margin in (("joint", np.sqrt(2)), ("ovr", 1 / np.sqrt(3))):
        result = sm.train((np.eye(3), [0, 1, 2]), solver="dual-momentum", multiclass=multiclass, tol=1e-4, passes=9000)
        assert result.converged
        # joint: U = I - 1/3 (all ones) has the differences 1 and the length sqrt 2: a margin of 1/sqrt 2
        margin = 1 / np.sqrt(2) if multiclass == "joint" else margin
        assert result.certificate["margin_lower"] == pytest.approx(margin, rel=1e-4)
        assert list(result.model.predict(np.eye(3))) == [0, 1, 2]


@pytest.mark.parametrize("size", [1e-35, 1e35])
@pytest.mark.parametrize("form", ["dense", slow("csr")])
def test_scales_at_the_end_of_float32(form, size):
    X, y = separable()
    small = sm.train((as_form(size * X, form, np.float32), y), solver="dual-momentum", passes=25, tol=1e-9)
    usual = sm.train((X, y), solver="dual-momentum", passes=25, tol=1e-9)
    assert small.certificate["margin_lower"] == pytest.approx(size * usual.certificate["margin_lower"], rel=1e-3, abs=0)


def test_rows_of_very_different_lengths():
    X, y = separable()
    X = X * np.logspace(-12, 12, len(X))[:, None]
    result = sm.train((X, y), solver="dual-momentum", passes=300)
    certificate = result.certificate
    assert np.isfinite(certificate["margin_upper"]) and certificate["margin_lower"] <= certificate["margin_upper"]


@pytest.mark.parametrize("tol", [0.0, 1e-3])
def test_a_zero_row_is_a_proof_at_any_tolerance(tol):
    X, y = separable()
    X[7] = 0
    result = sm.train((X, y), solver="dual-momentum", tol=tol)
    assert (result.reason, result.passes) == ("not_separable", 1)
