"""The solver splitting: dense matrices of any rank."""

import numpy as np
import pytest
from reference import matrices

import streammargin as sm


@pytest.mark.parametrize("loss", ["absolute_error", "squared_error", matrices.HINGE])
def test_a_high_rank_takes_few_steps(loss):
    i, j, values = matrices.ratings(60, 50, 1500, rank=20)
    result = sm.complete((i, j, values), loss=loss, C=3.0, tol=1e-4, solver="splitting", passes=400)
    assert result.converged and result.model.rank > 10
    other = sm.complete((i, j, values), loss=loss, C=3.0, tol=1e-3, solver="factors", passes=4000)
    assert other.certificate.dual <= result.certificate.primal * (1 + 1e-9)
    assert result.certificate.dual <= other.certificate.primal * (1 + 1e-9)


def test_factors_are_singular_vectors():
    model = sm.complete(matrices.ratings(), C=1.0, solver="splitting").model
    left, right = model.left_.T @ model.left_, model.right_.T @ model.right_
    assert np.allclose(left, np.diag(np.diag(left)), atol=1e-8) and np.allclose(left, right, atol=1e-8)
    assert np.all(np.diff(np.diag(left)) <= 1e-9)
