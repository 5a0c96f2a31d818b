"""Passes of a solver over rows in memory without the driver, so that a test sees its state between them."""

import numpy as np

from streammargin.losses import make_loss
from streammargin.penalties.mirror_maps import make_norm
from streammargin.rows.blocks import DenseBlock
from streammargin.solvers.problem import Problem


def hard_problem(X, y, seed=0, **options):
    """The hard-margin problem of labels -1 and 1."""
    rows, features = X.shape
    return Problem(
        rows=rows, features=features, dtype=X.dtype, loss=make_loss("hinge", 1.0), norm=make_norm(2.0), p=2.0,
        codes=(y > 0).astype(np.int16), positive=np.array([1]), caps=np.full((1, 2), np.inf), weights=np.empty(0),
        trials=1, tol=1e-3, seed=seed, present=rows, options=options,
    )  # fmt: skip


def started(solver, problem, X):
    """The state before the first pass, after the prologue."""
    solver.check(problem)
    state = solver.start(problem)
    for index in range(solver.prologue_passes(problem)):
        solver.prologue_block(problem, state, index, DenseBlock(X, 0.0), 0)
    return state


def one_pass(solver, problem, state, X, number):
    """The report of a pass over all rows in one block."""
    solver.begin_pass(problem, state, number)
    solver.run_block(problem, state, np.array([0]), DenseBlock(X, 0.0), 0)
    return solver.end_pass(problem, state, np.array([0]))
