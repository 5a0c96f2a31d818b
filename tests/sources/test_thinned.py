"""Dense arrays that are mostly zeros are trained on as sparse rows, if there is room."""

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import slow
from source_checks import as_array

import streammargin as sm
from streammargin.reading.plan import make_plan
from streammargin.sources.views import FEWEST_VALUES, thinned

ROWS, COLUMNS = 2000, 40


def mostly_zero(share, dtype=np.float32, rows=ROWS, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((rows, COLUMNS)) * (random.random((rows, COLUMNS)) < share)
    return X.astype(dtype), np.where(X[:, :5].sum(axis=1) + 0.1 * random.standard_normal(rows) > 0, "yes", "no")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.bool_])
def test_the_same_rows(dtype):
    X, y = mostly_zero(0.2, dtype)
    weights = np.linspace(1.0, 2.0, ROWS)
    source = sm.open_source((X, y), sample_weight=weights)
    slim = thinned(source, X.size * 8)
    assert slim.sparse and slim.nnz == np.count_nonzero(X) < X.size / 4
    assert (slim.rows, slim.features, slim.dtype) == (ROWS, COLUMNS, source.dtype)
    block = slim.whole()
    assert np.array_equal(as_array(block), X.astype(source.dtype))
    expected = sp.csr_matrix(X)
    assert np.array_equal(block.indices, expected.indices) and np.array_equal(block.indptr, expected.indptr)
    assert np.concatenate(list(slim.labels())).tolist() == y.tolist()
    assert slim.sample_weight().tolist() == weights.tolist()


def test_others_stay_as_they_are(tmp_path):
    few, y = mostly_zero(0.2)
    dense = few.copy()
    dense[1::2] = 1.0  # the rows that are looked at first do not show it
    for X in (dense, np.ones_like(few), few[: FEWEST_VALUES // COLUMNS], sp.csr_matrix(few)):
        source = sm.open_source((X, y[: X.shape[0]]))
        assert thinned(source, 1 << 30) is source
    source = sm.open_source((few, y))
    needed = thinned(source, 1 << 30).held_bytes()
    assert needed == np.count_nonzero(few) * 8 + (ROWS + 1) * 8
    assert thinned(source, needed).sparse and thinned(source, needed - 1) is source


def test_a_copy_is_in_the_plan():
    X, y = mostly_zero(0.2)
    slim = thinned(sm.open_source((X, y)), 1 << 30)
    assert make_plan(slim, 1 << 20, 0).memory_bytes == slim.held_bytes()
    with pytest.raises(sm.UsageError, match="too small"):
        make_plan(slim, slim.held_bytes() + 99, 100)


@pytest.mark.parametrize(
    "options", [{}, {"C": 100.0}, {"solver": "sdca", "bias": 0}, {"C": np.inf}, slow({"penalty": "l1"})]
)
def test_trained_on_as_sparse_rows(options):
    X, y = mostly_zero(0.1, seed=3)
    results = [sm.train((rows, y), **options) for rows in (X, sp.csr_matrix(X))]
    assert np.array_equal(results[0].model.coef_, results[1].model.coef_)
    assert results[0].history[0]["data"]["nnz"] == np.count_nonzero(X)


def test_columns_are_centred_all_the_same():
    X, y = mostly_zero(0.2)
    result = sm.train((X, y), scale="std")
    assert result.history[0]["data"]["nnz"] == X.size
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    assert result.certificate.primal == pytest.approx(sm.train((standard, y)).certificate.primal, rel=2e-3)


def test_faults_are_named_as_in_the_array():
    X, y = mostly_zero(0.2)
    X[1234, 17] = np.nan
    with pytest.raises(sm.DataError, match="row 1234, column 17 is NaN"):
        sm.train((X, y))


def test_with_little_memory_rows_stay_dense():
    X, y = mostly_zero(0.2, rows=20_000)

    def start(memory):
        found = sm.train((X, y), memory=memory, solver="sdca", passes=1).history[0]
        return found["data"]["nnz"], found["plan"]["memory_bytes"]

    most = 8 * np.count_nonzero(X) + 8 * (len(X) + 1)
    entries, sparse = start("1G")
    assert entries == np.count_nonzero(X)
    assert start(sparse) == (entries, sparse)
    assert start(sparse - 1) == (X.size, sparse - most)
