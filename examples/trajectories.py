"""The weights of a solver after every pass, for curves of single iterates: the driver's loop without certificates.

`streammargin.train` reports the best weights so far, as a user wants them; a paper's figure shows every iterate.
"""

import math

import numpy as np

from streammargin.losses import terms
from streammargin.penalties.lp import Lp
from streammargin.penalties.mirror_maps import resolve_p
from streammargin.rows.blocks import DenseBlock
from streammargin.rows.labels import RowLabels
from streammargin.solvers import leaves
from streammargin.solvers.base import solvers_of
from streammargin.solvers.problem import Outputs, Problem
from streammargin.solvers.registry import make_solver


def problem_of(X, C=math.inf, loss="hinge", norm=2, seed=0):
    """The Problem for solvers, of rows X (n, d) of two classes."""
    p = resolve_p(norm, X.shape[1])
    return Problem(
        rows=len(X), features=X.shape[1], dtype=X.dtype, loss=terms(loss), penalty=Lp(p),
        outputs=Outputs(np.ones(1, np.int64), np.full((1, 2), C)), trials=1, tol=0.0, seed=seed, present=len(X),
    )  # fmt: skip


def labels_of(y):
    """The RowLabels for a solver, of labels y (n,) of -1 and 1."""
    return RowLabels((y > 0).astype(np.int16), np.empty(0), np.empty(0))


def states(solver, X, y, passes, **problem):
    """Yields (method, problem, state, report) after every pass. solver: a word, or an instance of a solver's class."""
    method = make_solver(solver) if isinstance(solver, str) else solver
    told = problem_of(X, **{"loss": method.default_loss, **problem})
    method.check(told)
    method = solvers_of(method, told)[0]
    state, active, block = method.start(told, labels_of(y)), np.arange(1), DenseBlock(np.ascontiguousarray(X), 0.0)
    for index in range(method.prologue):
        visit = method.prologue_visit(told, state, index)
        visit.begin(told, state, *visit.arguments)
        leaves.carry_out(told, state, visit, [(0, block)])
    for state.number in range(1, passes + 1):
        visit = method.visit(told, state, active)
        visit.begin(told, state, active)
        while visit.prepare is not None and visit.prepare(told, state, active, block) is not None:
            pass  # a unit of the work
        while leaves.carry_out(told, state, visit, [(0, block)]) is not None:
            pass  # a part of the rows
        yield method, told, state, method.end_pass(told, state, active)


def trajectory(solver, X, y, passes, **problem):
    """Yields (w, report) after every pass: the solver's weights (d,) float64 and its PassReport."""
    for method, told, state, report in states(solver, X, y, passes, **problem):
        yield method.weights(told, state)[0, :-1], report


def margin(A, w):
    """The margin min_i a_i.w / ||w|| of the signed rows A (n, d); -inf for w = 0."""
    size = np.linalg.norm(w)
    return float((A @ w).min() / size) if size > 0.0 else -math.inf
