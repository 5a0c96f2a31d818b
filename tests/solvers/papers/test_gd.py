"""Gradient descent takes the step that the curvature of the data allows."""

import numpy as np
import pytest
from reference.sources import CountingSource

import streammargin as sm


def random_labels(seed):
    random = np.random.default_rng(seed)
    return random.standard_normal((80, 60)), random.choice([-1, 1], 80)


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_the_step_of_their_curvature_separates(seed):
    """300 iterations at 4 n / ||A||^2 do; at 4 / R^2, the worst case for any rows, they leave about ten mistakes."""
    X, y = random_labels(seed)
    A, w = y[:, None] * X, np.zeros(60)
    step = 4 * len(A) / np.linalg.norm(A, 2) ** 2
    for _ in range(300):
        w += step * np.mean(A / (1 + np.exp(A @ w))[:, None], axis=0)
    assert np.all(A @ w > 0)
    result = sm.train((X, y), solver="gd", loss="logistic", C=np.inf, passes=300)
    assert result.certificate.mistakes == 0 and result.certificate.margin_lower > 0


def test_several_blocks_make_the_same_step_at_eight_more_reads():
    X, y = random_labels(0)
    source = CountingSource(X, y, (0, 30, 80))
    cut = sm.train(source, solver="gd", loss="logistic", C=np.inf, passes=40)
    whole = sm.train((X, y), solver="gd", loss="logistic", C=np.inf, passes=40)
    assert cut.model.coef_ == pytest.approx(whole.model.coef_, rel=1e-9, abs=1e-12)
    assert set(source.reads.values()) == {40 + 1 + 8}


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_the_step_is_that_of_rows_in_any_unit(scale):
    X, y = random_labels(1)
    result = sm.train((X * scale, y), solver="gd", loss="logistic", C=np.inf, passes=300)
    assert result.certificate.mistakes == 0
