"""What a row counts for, against the definitions, and the numbers of rows."""

import math

import numpy as np
import pytest

from streammargin.rows.labels import Labels, RowNumbers, numbered_from


def test_numbers_are_consecutive_or_listed():
    assert [numbered_from(7).row(i) for i in range(3)] == [7, 8, 9]
    assert [RowNumbers(7, np.array([4, 0, 9])).row(i) for i in range(3)] == [4, 0, 9]


@pytest.mark.parametrize("C", [0.5, math.inf])
@pytest.mark.parametrize("weighted", [True, False])
def test_classes(C, weighted):
    codes = np.array([0, 2, -1, 1, 2], np.int16)
    factors = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 1.0]])  # the first class is absent in the second problem
    with np.errstate(invalid="ignore"):
        caps = np.where(factors > 0.0, C * factors, 0.0)
    weights = np.array([2.0, 0.0, 1.0, 1.0, 0.5]) if weighted else np.empty(0)
    labels = Labels(codes, np.array([2, 1]), caps, weights, np.empty(0))
    for row, code in enumerate(codes):
        mass = 0.0 if code < 0 else (weights[row] if weighted else 1.0)
        assert labels.weight(row) == mass
        for k, positive in enumerate([2, 1]):
            there = mass > 0.0 and factors[k, code] > 0.0
            assert labels.cap(k, row) == (C * factors[k, code] * mass if there else 0.0)
            if code >= 0:
                assert labels.own(k, row) == (code == positive)
                assert labels.sign(k, row) == (1.0 if code == positive else -1.0)
                assert labels.margin(k, row, 1.7) == labels.sign(k, row) * 1.7


def test_targets():
    y = np.array([0.5, -2.0, 0.0])
    labels = Labels(np.zeros(3, np.int16), np.zeros(1, np.int64), np.full((1, 1), math.inf), np.empty(0), y)
    for row, target in enumerate(y):
        assert labels.target(0, row) == target and labels.margin(0, row, 1.25) == 1.25 - target
