"""Losses of several targets with penalties over all lines of weights, against an interior-point method."""

from itertools import cycle

import numpy as np
import pytest
from conftest import slow

import streammargin as sm

conic = pytest.importorskip(
    "reference.conic_outputs", reason="the interior-point method is clarabel's", exc_type=ImportError
)

N, D, K, C, EPSILON = 30, 4, 3, 0.6, 0.2
LOSSES = ["squared_error", "absolute_error", f"epsilon_insensitive:{EPSILON}", "l2_error"]
PENALTIES = ["l1", "l21", "l1inf", "trace", "elasticnet:0.5", "l21:0.5", "l1inf:0.4", "trace:0.6"]
WAYS = cycle([(True, True), (False, False), (True, False), (False, True), (True, True)])  # free, weighted
PAIRS = [(loss, penalty, *next(WAYS)) for loss in LOSSES for penalty in PENALTIES]
QUICK = {("squared_error", "l21"), ("l2_error", "trace")}  # by kernels that others compile
SOLVED = [
    (solver, *pair) if pair[:2] in QUICK else slow(solver, *pair) for solver in ("newton", "pdprox") for pair in PAIRS
]


def rows(weighted):
    """X (n, d) with a column of 0, targets (n, K) that share two columns, weights of rows with some 0."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, D))
    X[:, 3] = 0.0
    Y = X[:, :2] @ rng.standard_normal((2, K)) + 0.5 * rng.standard_t(3, (N, K)) + [0.0, 1.0, -4.0]
    return X, Y, rng.choice([0.5, 1.0, 2.0, 0.0], N) if weighted else np.ones(N)


def optimum(loss, penalty, X, Y, weights, free):
    """The optimum of the definition, with the constants that the model names for targets that are not shifted."""
    there = weights > 0.0
    X, Y, caps = X[there], Y[there], C * weights[there]
    program, each = conic.Outputs(X, K, 1.0, free), np.repeat(caps[:, None], K, axis=1)
    if loss == "l2_error":
        program.lengths(Y, caps)
    elif loss == "squared_error":
        program.squared(Y, each)
    else:
        program.absolute(Y, each, 0.0 if loss == "absolute_error" else EPSILON)
    name, _, ratio = penalty.partition(":")
    program.penalise("l1" if name == "elasticnet" else name, float(ratio or 1.0))
    return program.solve()[0]


@pytest.mark.parametrize("solver, loss, penalty, free, weighted", SOLVED)
def test_every_pair_is_solved_to_what_the_interior_point_method_finds(solver, loss, penalty, free, weighted):
    X, Y, weights = rows(weighted)
    result = sm.train(
        (X, Y), solver=solver, loss=loss, penalty=penalty, C=C, tol=1e-6, bias="free" if free else 1,
        sample_weight=weights, passes=10_000,
    )  # fmt: skip
    shift = 0.0 if free else result.model.header["problem"]["shift"]  # a penalised constant is that beyond the shift
    best, figures = optimum(loss, penalty, X, Y - shift, weights, free), result.certificate
    assert result.converged and figures.dual <= best * (1 + 1e-6)
    assert figures.primal == pytest.approx(best, rel=2e-6)
    assert len(figures.per_class) == (K if penalty in ("l1", "elasticnet:0.5") and loss != "l2_error" else 1)
