"""Labels that are numbers: amounts are refused, classes are not."""

import numpy as np
import pytest

import streammargin as sm
from streammargin.sources.arrays import ArraySource
from streammargin.training.setup import make_target


def target(y, **options):
    y = np.asarray(y)
    return make_target(ArraySource(np.ones((len(y), 1)), y, None, "a.h5"), **options)[0]


TOTALS = np.random.default_rng(0).choice(9000, 1600, replace=False)


@pytest.mark.parametrize(
    "y",
    [
        np.repeat(TOTALS, 3),
        np.repeat(TOTALS, 100),  # rows enough, but no classes would be numbered with such gaps
        np.repeat(TOTALS, 3).astype(float),
        np.tile(np.arange(1600), 12),  # without a gap, but few rows each
        np.repeat(TOTALS, 3) + 0.5,
    ],
)
def test_amounts_are_refused(y):
    words = r"1600 different (whole|real) numbers, which look like amounts.*interpolate; for classes list the labels"
    with pytest.raises(sm.DataError, match=words):
        target(y)
    assert len(target(y.astype(str)).classes) == 1600
    assert len(target(y, only=np.unique(y)).classes) == 1600
    assert target(y, positive=y[0]).rest == y[0]


@pytest.mark.parametrize(
    "y",
    [
        np.tile(np.arange(300), 50),
        np.tile(np.arange(1, 301), 50).astype(float),
        np.arange(200) // 2 * 7,  # a hundred
        np.repeat(TOTALS, 1).astype(str),
    ],
)
def test_classes_are_not(y):
    assert len(target(y).classes) == len(np.unique(y))
