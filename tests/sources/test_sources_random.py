"""Whatever the rows, their storage and the blocks: what is read is the slice that was written."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from source_checks import as_array, assert_rows, two_labels, write_csr, write_dense

from streammargin.reading.plan import make_plan
from streammargin.reading.prefetch import BlockReader, read_blocks
from streammargin.sources.open import open_source

quick = settings(
    max_examples=60, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
FILTERS = [{}, {"compression": "gzip"}, {"compression": "lzf", "shuffle": True}, {"fletcher32": True}]
INTEGERS = ["<i4", "<i8", "<u4", ">i4", ">i8", "<u8"]


@st.composite
def tables(draw):
    """A small dense array with many zeros, of any type of number."""
    rows, columns = draw(st.integers(1, 40)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density = draw(st.sampled_from([0.0, 0.05, 0.5, 1.0]))
    X = rng.integers(1, 100, (rows, columns)) * (rng.random((rows, columns)) < density)
    return X.astype(draw(st.sampled_from(["<f4", "<f8", "<f2", ">f4", ">f8", "i1", "<i4", "<u2", "<i8"])))


def cuts(draw, rows):
    return draw(st.lists(st.integers(1, max(1, rows - 1)), max_size=6)) if rows > 1 else []


def storage(draw, *limits):
    """Contiguous, or chunks up to one beyond the shape, filtered or not."""
    if draw(st.booleans()):
        return {}
    return {"chunks": tuple(draw(st.integers(1, max(1, n))) for n in limits), **draw(st.sampled_from(FILTERS))}


def assert_streams(source, expected, budget):
    """The reader thread hands over the same rows, in any order of the blocks."""
    bounds = source.bounds(budget)
    order = np.arange(len(bounds) - 1)[::-1]
    seen = 0
    for start, stop, block in BlockReader(source, bounds, 2).stream(order):
        np.testing.assert_array_equal(as_array(block), expected[start:stop].astype(source.dtype))
        seen += stop - start
    assert seen == source.rows


@quick
@given(X=tables(), data=st.data())
def test_dense_files(tmp_path, X, data):
    path = write_dense(tmp_path / "d.h5", X, **storage(data.draw, *X.shape))
    with open_source(path) as source:
        assert_rows(source, X, cuts(data.draw, len(X)))
        assert_streams(source, X, data.draw(st.integers(1, 4000)))


@quick
@given(X=tables(), data=st.data())
def test_sparse_files(tmp_path, X, data):
    S = shuffled(X, data.draw(st.booleans()), data.draw(st.integers(0, 99)))
    index, pointer = (data.draw(st.sampled_from(INTEGERS)) for _ in range(2))
    options = storage(data.draw, min(S.nnz, len(X) + 1)) if S.nnz else {}
    with open_source(write_csr(tmp_path / "s.h5", S, index=index, pointer=pointer, **options)) as source:
        assert source.nnz == S.nnz
        assert_rows(source, X, cuts(data.draw, len(X)))
        assert_streams(source, X, data.draw(st.integers(1, 4000)))


def shuffled(X, unsorted, seed):
    """X as a csr_matrix of its own type, with each row in any order of columns."""
    rows, columns = np.nonzero(X)
    keys = np.random.default_rng(seed).random(len(rows)) if unsorted else columns
    order = np.lexsort((keys, rows))
    indptr = np.append(0, np.cumsum(np.bincount(rows, minlength=len(X))))
    out = sp.csr_matrix(X.shape, dtype=np.float64)
    out.data, out.indices, out.indptr = X[rows, columns][order], columns[order].astype(np.int32), indptr
    return out


@quick
@given(X=tables(), data=st.data())
def test_sparse_arrays(X, data):
    S = shuffled(X, data.draw(st.booleans()), data.draw(st.integers(0, 99)))
    index = data.draw(st.sampled_from([np.int32, np.int64]))
    S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
    kept = S.data.copy(), S.indices.copy(), S.indptr.copy()
    source = open_source((S, two_labels(len(X))))
    assert_rows(source, X, cuts(data.draw, len(X)))
    ((_, _, block),) = read_blocks(source, 1 << 30)
    np.testing.assert_array_equal(as_array(block), X.astype(source.dtype))
    for part, before in zip((S.data, S.indices, S.indptr), kept, strict=True):
        np.testing.assert_array_equal(part, before)


@quick
@given(X=tables(), data=st.data())
def test_dense_arrays(X, data):
    X = np.asarray(X, order=data.draw(st.sampled_from("CF")))
    step = data.draw(st.integers(1, 3))
    given_rows = X[::step]
    assert_rows(open_source(given_rows), given_rows, cuts(data.draw, len(given_rows)))


@pytest.mark.parametrize("sparse", [False, True])
def test_plans_of_larger_files(tmp_path, sparse):
    """Blocks, the thread and reused buffers at a size if they matter."""
    rng = np.random.default_rng(3)
    X = (rng.integers(1, 9, (30_000, 40)) * (rng.random((30_000, 40)) < 0.5)).astype(np.float32)
    path = write_csr(tmp_path / "s.h5", sp.csr_matrix(X)) if sparse else write_dense(tmp_path / "d.h5", X)
    with open_source(path) as source:
        plan = make_plan(source, 16 << 20, 0)
        assert not plan.resident and plan.blocks > 3 and plan.memory_bytes <= 16 << 20
        total = np.zeros(40)
        for start, stop, block in read_blocks(source, 16 << 20):
            assert block.rows() == stop - start
            total += as_array(block).sum(axis=0)
        np.testing.assert_array_equal(total, X.sum(axis=0, dtype=np.float64))
