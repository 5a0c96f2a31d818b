"""The hard margin under l1 and groups: the hinge at a C above the largest dual of the separator."""

import numpy as np
import pytest
from reference.conic import Program

import streammargin as sm


def separator(X, y, groups):
    """(value, w) of the least sum of sqrt(size) ||w_g|| with y x.w >= 1 for all rows."""
    program = Program()
    w, lengths = program.variables(X.shape[1]), program.variables(groups.max() + 1, cost=np.sqrt(np.bincount(groups)))
    program.inside("nonnegative", -np.ones(len(y)), [(w, y[:, None] * X)])
    for g in range(groups.max() + 1):
        picked = np.eye(X.shape[1])[groups == g]
        top = np.zeros((1 + len(picked), 1))
        top[0] = 1.0
        program.inside("second order", np.zeros(1 + len(picked)), [
            (lengths[[g]], top), (w, np.vstack([np.zeros((1, X.shape[1])), picked]))
        ])  # fmt: skip
    value, found = program.solve()
    return value, found[: X.shape[1]]


@pytest.mark.parametrize("size", [1, 4])
def test_a_large_cost_gives_the_separator_of_the_least_norm(size):
    random = np.random.default_rng(0)
    X = random.standard_normal((60, 20))
    scores = X[:, :3] @ [2.0, -1.0, 1.5]
    X, y = X[np.abs(scores) > 0.8], np.sign(scores[np.abs(scores) > 0.8])
    groups = np.arange(20) // size
    best, w = separator(X, y, groups)
    penalty = "l1" if size == 1 else sm.penalties.Group(groups=groups)
    for C in (10.0, 100.0):
        result = sm.train((X, y), penalty=penalty, C=C, bias=0, tol=1e-6)
        assert result.converged and result.certificate.primal == pytest.approx(best, rel=2e-6)
        assert np.min(y * (X @ result.model.coef_[0])) > 1.0 - 1e-5
        np.testing.assert_allclose(result.model.coef_[0], w, atol=2e-4)
    with pytest.raises(sm.errors.UsageError, match="give a finite C"):
        sm.train((X, y), penalty=penalty, C=np.inf)
