"""The row operations as compiled: loops over unsigned positions, and overloads."""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from streammargin.compiled.jit import kernel
from streammargin.compiled.overloads import expose
from streammargin.losses import terms
from streammargin.losses.base import distance_of
from streammargin.sources.arrays import ArraySource


@kernel
def rows_of(block, w, out):
    for i in range(block.rows()):
        out[i, 0] = block.dot(i, w)
        out[i, 1] = block.exact_dot(i, w)
        out[i, 2], out[i, 3] = block.dot_and_square(i, w)
        block.add(i, -0.7, w)


@pytest.mark.parametrize("form", ["csr", "dense"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_every_length(form, dtype):
    """The score beside a square has the bits of the score by which `predict` tells the classes apart."""
    rng = np.random.default_rng(0)
    X = np.zeros((60, 24), dtype)
    for i in range(60):  # 0 to 19 values, of which many sums cancel
        X[i, rng.permutation(24)[: i % 20]] = rng.choice([-0.3, -0.2, -0.1, 0.1, 0.2, 0.3], i % 20)
    rows = sp.csr_matrix(X) if form == "csr" else X
    block = ArraySource(rows).whole()._replace(bias=0.1)
    w, out = rng.choice([-0.3, 0.1, 0.2], 25), np.empty((60, 4))
    full, moved = np.column_stack([X.astype(float), np.full(60, 0.1)]), w.copy()
    rows_of(block, moved, out)
    for i, row in enumerate(full):
        assert out[i, 1] == pytest.approx(row @ w, rel=1e-12, abs=1e-12)
        assert out[i, 3] == pytest.approx(row @ row, rel=1e-12)
        w -= 0.7 * row
    np.testing.assert_allclose(moved, w, atol=1e-12)
    np.testing.assert_array_equal(out[:, 1], out[:, 0])
    np.testing.assert_array_equal(out[:, 2], out[:, 0])


class Own(NamedTuple):
    """A loss of the user's, with a number of that name."""

    distance: float


@kernel
def far_from(loss, u):
    return distance_of(loss, u) > 0.5


def test_margins_far_from_where_a_loss_bends():
    expose(Own)
    assert [far_from(terms("hinge"), u) for u in (-1.0, 0.6, 1.4, 1.6)] == [True, False, False, True]
    assert not far_from(terms("absolute_error"), 9.0)
    assert not far_from(Own(9.0), 9.0) and not distance_of(Own(9.0), 9.0)
