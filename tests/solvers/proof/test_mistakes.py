"""Mistakes are the rows that predict gets wrong: a score of 0 is the first class."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

import streammargin as sm


def rows_with_empty_ones():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    y = np.sign(X[:, 0] + 0.3 * rng.standard_normal(60)).astype(int)
    X[::3] = 0.0
    return X, y


@pytest.mark.parametrize("solver, C", [("sdca", 1.0), ("pegasos", 1.0), ("newton", 1.0), ("diagonal", math.inf),
                                       ("dual-momentum", math.inf), ("active-set", math.inf)])  # fmt: skip
def test_a_certificate_counts_what_evaluate_counts(solver, C):
    X, y = rows_with_empty_ones()
    zeros = np.count_nonzero(~X.any(axis=1) & (y > 0))  # their score is 0, which is the class -1
    assert 0 < zeros < 20
    result = sm.train((X, y), solver=solver, C=C, passes=20)
    if result.model.intercept_.any():  # then no score is 0
        zeros = 0
    said = [event["mistakes"] for event in result.history if event["event"] == "certificate"][-1]
    wrong = np.count_nonzero(result.model.predict(X) != y)
    assert said == wrong == result.model.evaluate((X, y))["mistakes"] and said >= zeros


@pytest.mark.parametrize("solver", ["sdca", "pegasos"])
def test_scores_that_cancel_are_counted_as_they_are_predicted(solver):
    """Whether such a sum is 0 depends on its order."""
    for seed in range(60, 90):
        rng = np.random.default_rng(seed)
        X = sp.csr_matrix(rng.choice([-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3], (40, 8)))
        y = rng.integers(0, 2, 40)
        result = sm.train((X, y), solver=solver, C=0.1, passes=1, bias=0)
        assert result.certificate["mistakes"] == result.model.evaluate((X, y))["mistakes"]
