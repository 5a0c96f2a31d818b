"""Fused operations on long vectors against the plain ones, and the ranges of columns."""

import numpy as np
import pytest
from conftest import slow

from streammargin.compiled.vectors import mix, square, towards
from streammargin.driver.learn.ranges import extremes


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1001])
def test_each_in_one_read(size):
    rng = np.random.default_rng(size)
    x, y = rng.standard_normal((2, size))
    assert square(x) == pytest.approx(x @ x, rel=1e-12)
    single = x.astype(np.float32)
    assert square(single) == pytest.approx(single.astype(float) @ single.astype(float), rel=1e-12)
    along, length = towards(x, 0.7, y)
    assert along == pytest.approx(x @ (0.7 * y - x), rel=1e-12)
    assert length == pytest.approx(np.sum((0.7 * y - x) ** 2), rel=1e-12)
    expected, before = 0.3 * x - 2.0 * y, y.copy()
    assert mix(0.3, x, -2.0, y) == pytest.approx(expected @ expected, rel=1e-12)
    assert x == pytest.approx(expected, rel=1e-14, abs=1e-15)
    assert np.array_equal(y, before)


def test_numbers_that_have_no_square_are_mixed_all_the_same():
    x, y = np.array([1e200, 0.0]), np.array([0.0, 3e200])
    assert mix(1.0, x, 1.0, y) == np.inf
    assert x.tolist() == [1e200, 3e200]


@pytest.mark.parametrize(
    "largest, expected",
    [([0.0, 0.0], (-1, -1)), ([0.0, 3.0, 0.0], (1, 1)), ([2.0, 0.0, 5.0, 1.0, 5.0, 1.0], (2, 3)), ([], (-1, -1))],
)
@pytest.mark.parametrize("dtype", [slow(np.float32), np.float64])
def test_where_the_extremes_stand(largest, expected, dtype):
    assert extremes(np.array(largest, dtype)) == expected
