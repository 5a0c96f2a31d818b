"""A read by three holders of some rows each, cut off and merged by the roles of the fields, is the read of one."""

from dataclasses import replace

import numpy as np
import pytest
from reference.datasets import separable
from reference.drive import begin_pass, labels_of, of_codes, prologue, visit_all
from reference.whole_pass import make_problem

from streammargin.rows.blocks import DenseBlock
from streammargin.solvers.registry import make_solver
from streammargin.solvers.roles import cut, merge

X, Y = separable(60, seed=3)
ALONE, THREE = [(0, 60)], [(0, 11), (11, 45), (45, 60)]


def visit(state, holders, work, part=None):
    """work(holder, block) of each holder; then the part of the state that is at work is merged, None: all of it."""
    for first, stop in holders:
        holder = cut(state, first, stop)
        if part is not None and hasattr(state, "row_norms"):
            holder.row_norms = state.row_norms  # those of all rows: they are known by now
        work(holder, DenseBlock(X[first:stop], 0.0))
        merge(*((state, holder) if part is None else (getattr(state, part), getattr(holder, part))))


def after(passes, solver, problem, labels, holders):
    """The state and the last report."""
    state, active, report = solver.start(problem, labels), np.arange(problem.groups), None
    if solver.prologue:
        visit(state, holders, lambda holder, block: solver.prologue_block(problem, holder, block, 0))
    for number in range(1, passes + 1):
        begin_pass(solver, problem, state, number)
        visit(state, holders, lambda holder, block: solver.run_block(problem, holder, active, block, 0), "sums")
        report = solver.end_pass(problem, state, active)
    return state, report


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    ("name", "loss"),
    [(name, "exponential") for name in ("dual-momentum", "normalized-gd", "gd")]
    + [(name, "hinge") for name in ("diagonal", "inertial-diagonal", "homotopic")],
)
def test_passes_of_three_holders_are_those_of_one(name, loss, classes):
    codes = (Y > 0).astype(int) if classes == 2 else np.arange(60) % 3
    problem = make_problem(X, codes, classes=classes, loss=loss)
    (one, expected), (three, report) = (
        after(15, make_solver(name), problem, of_codes(codes), holders) for holders in (ALONE, THREE)
    )
    np.testing.assert_allclose(three.w, one.w, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(report.estimate, expected.estimate, rtol=1e-9)
    assert [one.mistakes for one in report.certificate] == [one.mistakes for one in expected.certificate]
    assert three.sums.seen == 60 and np.array_equal(three.sums.wrong, one.sums.wrong)
    assert np.abs(one.w).max() > 0.0


@pytest.mark.parametrize("name", ["batch-perceptron", "gd"])
def test_one_margin_of_all_classes(name):
    """The row that is nearest to the other classes is one of all holders' rows, for all classes."""
    codes = np.arange(60) % 3
    problem = make_problem(X, codes, classes=3, joint=True)
    (one, expected), (three, report) = (
        after(15, make_solver(name), problem, of_codes(codes), holders) for holders in (ALONE, THREE)
    )
    np.testing.assert_allclose(three.w, one.w, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(report.estimate, expected.estimate, rtol=1e-9)


@pytest.mark.parametrize("name", ["pegasos", "mirror", "perceptron"])
def test_a_sweep_of_three_holders_is_that_of_one(name):
    problem = make_problem(X, Y > 0, loss="hinge")
    if name == "pegasos":
        problem = replace(problem, outputs=problem.outputs._replace(caps=np.ones((1, 2))))
    solver, active, found = make_solver(name), np.arange(1), []
    for holders in (ALONE, THREE):
        state, block = solver.start(problem, labels_of(Y)), DenseBlock(X, 0.0)
        prologue(solver, problem, state, [(0, block)])
        visit_all(solver, problem, state, 1, block)
        solver.begin_certificate(problem, state, active)
        visit(state, holders, lambda holder, block: solver.certify_block(problem, holder, block, 0), "sweep")
        figures = solver.end_certificate(problem, state)[0][0]
        found.append((figures, solver.certified(problem, state)))
    (one, expected), (three, w) = found
    np.testing.assert_allclose(w, expected)
    assert three.primal == pytest.approx(one.primal, rel=1e-12) and three.mistakes == one.mistakes
    if problem.hard:
        assert three.margin_lower == pytest.approx(one.margin_lower, rel=1e-12)
