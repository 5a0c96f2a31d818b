"""Orders are those of NumPy's generator, whether they are remembered or drawn anew."""

import numpy as np
import pytest

from streammargin.kernels.order import SMALL, permutation


@pytest.mark.parametrize("size", [2, SMALL, SMALL + 1])
def test_the_order_of_a_seed(size):
    expected = np.random.default_rng((3, 1, 4)).permutation(size)
    for _ in range(2):
        order = permutation(size, 3, 1, 4)
        assert order.dtype == np.int64 and np.array_equal(order, expected)
        order[:] = 0  # it is the caller's own
    assert not np.array_equal(permutation(size, 3, 1, 5), expected) or size == 2


def test_one_block_needs_no_generator():
    assert permutation(1, 3, 1, 4).tolist() == [0]
