"""A finite C times the weights of a row must be finite: after an overflow a loss would be left out."""

import numpy as np
import pytest

import streammargin as sm
from streammargin.errors import UsageError

X, y = np.array([[1.0, 2.0], [-1.0, 0.5], [0.5, -1.0], [2.0, 1.0]]), np.array([0, 1, 1, 0])


@pytest.mark.parametrize("C, weight, size", [(1e100, 1e250, "large"), (1e-200, 1e-200, "small")])
def test_c_times_a_sample_weight_that_is_no_number(C, weight, size):
    with pytest.raises(
        UsageError, match=f"times the weights of classes and rows is too {size} to compute with; divide the weights"
    ):
        sm.train((X, y), C=C, sample_weight=np.array([1.0, weight, 1.0, 1.0]))


@pytest.mark.parametrize("C, weight, size", [(1e100, 1e250, "large"), (1e-200, 1e-200, "small")])
def test_c_times_a_class_weight_that_is_no_number(C, weight, size):
    with pytest.raises(UsageError, match=f"times the weights of classes and rows is too {size} "):
        sm.train((X, y), C=C, class_weight={1: weight})


def test_weights_of_the_hard_margin_and_of_absent_rows_may_be_any():
    assert sm.train((X, y), C=np.inf, sample_weight=np.array([1.0, 1e250, 1e-250, 0.0]), passes=3).model is not None
    assert sm.train((X, y), C=1.0, sample_weight=np.array([1.0, 0.0, 1.0, 0.0])).converged
