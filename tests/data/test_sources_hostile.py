"""Files and arrays made to mislead a reader: nothing is read past its end, hung on, or left out in silence."""

import numpy as np
import pytest
import scipy.sparse as sp
from source_checks import edit, write_csr

import streammargin as sm
from streammargin.data.open import open_source
from streammargin.driver.prefetch import read_blocks
from streammargin.errors import DataError

WRAPS = np.array([0, 2**63 - 1, -2, 5])  # the differences of its neighbours wrap, and do not fall


def read_all(path, **names):
    """Everything that a training would read."""
    with open_source(str(path), **names) as source:
        list(source.labels())
        source.sample_weight()
        return [block.rows() for _, _, block in read_blocks(source, 1 << 30)]


@pytest.mark.parametrize("indptr", [WRAPS, WRAPS.astype(np.uint64), np.array([0, 9, 2, 5]), np.array([0, -2, 2, 5])])
def test_row_ends_that_leave_the_values(tmp_path, indptr):
    X = sp.csr_matrix((np.ones(5), np.array([0, 1, 2, 0, 3]), np.array([0, 2, 3, 5])), (3, 4))
    path = write_csr(tmp_path / "a.h5", X)
    assert read_all(path) == [3]
    with pytest.raises(DataError, match=r"X/indptr falls at row [01]; convert the file again"):
        read_all(edit(path, indptr=indptr))
    for broken in (X.copy(), X.T.tocsr().T, X.tobsr()):  # CSR, CSC and BSR
        broken.indptr = np.resize(indptr, len(broken.indptr))
        with pytest.raises(DataError, match=r"indptr falls|broken"):
            open_source((broken, [0, 1, 0]))


def test_coordinates_out_of_range_are_not_sorted_into_rows():
    X = sp.coo_matrix((np.ones(2), (np.array([0, 1]), np.array([1, 0]))), (2, 2))
    X.row[1] = 2**30
    with pytest.raises(DataError, match=r"broken coo matrix .*out of range"):
        sm.train((X, [0, 1]))
