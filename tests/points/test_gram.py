"""Values of a kernel between a block's rows and a few of them."""

import numpy as np
import pytest
import scipy.sparse as sp

from streammargin.kernels import known_kernel
from streammargin.points.gram import FULL_ROW_SHARE, GRAM_TILE_ROWS, RightRows
from streammargin.rows.blocks import CSRBlock, taken


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "share", [FULL_ROW_SHARE / 4.0, 2.0 * FULL_ROW_SHARE]
)  # rows are multiplied as sparse and as dense ones
def test_products_of_sparse_rows_are_those_of_numpy(share, dtype):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((GRAM_TILE_ROWS + 90, 40)) < share, rng.normal(size=(GRAM_TILE_ROWS + 90, 40)), 0.0).astype(
        np.float32
    )
    X[:60, 20:23] = 0.0  # these rows have no value in three columns of the others
    S = sp.csr_array(X)
    block = CSRBlock(S.data, S.indices.astype(np.uint32), S.indptr.astype(np.int64), 40, 0.0)
    some, out = np.arange(60), np.empty((GRAM_TILE_ROWS + 60, 60), dtype)
    RightRows(known_kernel("linear"), some, taken(block, some), dtype).values(block, 30, GRAM_TILE_ROWS + 90, out)
    asked = X[30:].astype(np.float64) @ X[:60].astype(np.float64).T
    np.testing.assert_allclose(out, asked, rtol=0, atol=1e-5 if dtype is np.float32 else 1e-13)
