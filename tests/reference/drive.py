"""Passes of a solver over rows in memory without the driver, so that a test sees its state between them."""

import numpy as np

from streammargin.losses import terms
from streammargin.penalties.lp import Lp
from streammargin.rows.blocks import DenseBlock
from streammargin.rows.labels import RowLabels
from streammargin.solvers import leaves
from streammargin.solvers.problem import Outputs, Problem


def hard_problem(X, seed=0):
    """The hard-margin problem of two classes."""
    rows, features = X.shape
    return Problem(
        rows=rows, features=features, dtype=X.dtype, loss=terms("hinge"),
        outputs=Outputs(np.array([1]), np.full((1, 2), np.inf)), trials=1, tol=1e-3, seed=seed, present=rows,
    )  # fmt: skip


def problem_of(X, dtype=np.float64, p=2.0, K=1, tol=1e-3, C=1.0):
    """The problem of the hinge loss, of K classes each against the rest."""
    return Problem(
        rows=len(X), features=X.shape[1], dtype=np.dtype(dtype), loss=terms("hinge"), penalty=Lp(p),
        outputs=Outputs(np.ones(K, np.int64), np.full((K, 2), C)), trials=K, tol=tol, seed=0, present=len(X),
    )  # fmt: skip


def labels_of(y):
    """Of labels -1 and 1."""
    return of_codes(y > 0)


def of_codes(codes):
    """Of the classes 0, 1, ..., -1 for absent rows."""
    return RowLabels(np.asarray(codes, np.int16), np.empty(0), np.empty(0))


def started(solver, problem, X, y):
    """The state before the first pass, after the prologue."""
    solver.check(problem)
    state = solver.start(problem, labels_of(y))
    prologue(solver, problem, state, [(0, DenseBlock(X, 0.0))])
    return state


def prologue(solver, problem, state, blocks):
    """All prologue passes over these blocks."""
    for index in range(solver.prologue_passes(problem)):
        visit = solver.prologue_visit(problem, state, index)
        visit.begin(problem, state, *visit.arguments)
        leaves.carry_out(problem, state, visit, blocks)


def begin_pass(solver, problem, state, number):
    """Begin pass `number` of all groups; returns its visit."""
    state.number = number
    visit = solver.visit(problem, state, np.arange(problem.groups))
    visit.begin(problem, state, *visit.arguments)
    return visit


def visit_all(solver, problem, state, number, block):
    """A pass over the rows of this block, but for its end."""
    leaves.carry_out(problem, state, begin_pass(solver, problem, state, number), [(0, block)])


def certify(solver, problem, state, block):
    """The figures, and the wrong rows, of a certificate of all groups by the rows of this block."""
    visit = solver.certificate(problem, state, np.arange(problem.groups))
    visit.begin(problem, state, *visit.arguments)
    leaves.carry_out(problem, state, visit, [(0, block)])
    return visit.end(problem, state, *visit.arguments)


def one_pass(solver, problem, state, X, number):
    """The report of a pass over all rows in one block."""
    visit_all(solver, problem, state, number, DenseBlock(X, 0.0))
    return solver.end_pass(problem, state, np.array([0]))
