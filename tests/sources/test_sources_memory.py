"""Arrays in memory: used in place, never written, and checked like files."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from source_checks import all_labels, as_array, assert_plans, assert_rows, random_sparse, two_labels

import streammargin as sm
from streammargin.reading.prefetch import BlockReader
from streammargin.sources.open import open_source

ROWS, COLUMNS = 30, 6
CUTS = (3, 4, 19)
X = np.random.default_rng(0).integers(-50, 50, (ROWS, COLUMNS)).astype(np.float64)
Y = two_labels(ROWS)
S = random_sparse(ROWS, COLUMNS)


def handed_over(source):
    """The one block that a run gets."""
    reader = BlockReader(source, np.array([0, source.rows]), 0)
    ((start, stop, block),) = reader.stream(np.array([0]))
    assert (start, stop) == (0, source.rows)
    return block


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


DENSE = {
    "C order": (X, True),
    "float32": (X.astype(np.float32), True),
    "read-only": (read_only(X), True),
    "first rows": (np.vstack([X, X])[:ROWS], True),
    "Fortran order": (np.asfortranarray(X), False),
    "every other row": (np.repeat(X, 2, axis=0)[::2], False),
    "some columns": (np.hstack([X, X])[:, :COLUMNS], False),
    "float16": (X.astype(np.float16), False),
    "big-endian": (X.astype(">f8"), False),
    "int8": (X.astype(np.int8), False),
    "int64": (X.astype(np.int64), False),
    "bool": (X > 0, False),
    "list": (X.tolist(), False),
    "matrix": (X.view(np.matrix), True),
}


@pytest.mark.parametrize("kind", DENSE)
def test_dense(kind):
    given, in_place = DENSE[kind]
    source = open_source((given, Y))
    expected = np.asarray(given)
    block = handed_over(source)
    np.testing.assert_array_equal(block.X, expected)
    assert block.X.flags.c_contiguous and block.X.flags.writeable
    assert np.shares_memory(block.X, expected) == (in_place and kind != "list")
    assert_rows(source, expected, CUTS)
    assert_plans(source, least=COLUMNS * 8)
    np.testing.assert_array_equal(all_labels(source), Y)
    assert source.has_labels() and not source.sparse and source.nnz == X.size


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_memory_mapped(tmp_path, mode):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode=mode)
    source = open_source((mapped, Y))
    assert np.shares_memory(source.whole().X, mapped)
    assert_rows(source, X, CUTS)
    assert sm.train((mapped, Y), passes=1).model.coef_.tolist() == sm.train((X, Y), passes=1).model.coef_.tolist()


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int64, bool])
@pytest.mark.parametrize("frozen", [False, True])
def test_sparse(container, index, dtype, frozen):
    given = container(S.astype(dtype))
    given.indices, given.indptr = given.indices.astype(index), given.indptr.astype(index)
    for part in (given.data, given.indices, given.indptr):
        part.flags.writeable = not frozen
    source = open_source((given, Y))
    block = handed_over(source)
    np.testing.assert_array_equal(as_array(block), S.astype(dtype).toarray())
    assert np.shares_memory(block.data, given.data) == (dtype in (np.float32, np.float64))
    assert np.shares_memory(block.indices, given.indices) == (index == np.int32)
    assert np.shares_memory(block.indptr, given.indptr) == (index == np.int64)
    assert_rows(source, given.toarray(), CUTS)
    assert_plans(source, least=200)


@pytest.mark.parametrize("container", [sp.csc_matrix, sp.coo_array, sp.lil_matrix, sp.dia_array])
def test_other_sparse_kinds_are_converted(container):
    assert_rows(open_source((container(S), Y)), S.toarray(), CUTS)


def test_spare_room_behind_the_values_is_not_read():
    roomy = S.copy()
    roomy.data = np.append(roomy.data, np.nan)
    roomy.indices = np.append(roomy.indices, np.int32(10**6))
    source = open_source((roomy, Y))
    np.testing.assert_array_equal(as_array(handed_over(source)), S.toarray())
    assert source.nnz == S.nnz


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("frozen", [False, True])
def test_unsorted_rows_are_sorted_in_a_copy(index, frozen):
    unsorted = S.copy()
    for start, stop in zip(S.indptr[:-1], S.indptr[1:], strict=True):
        unsorted.data[start:stop] = S.data[start:stop][::-1]
        unsorted.indices[start:stop] = S.indices[start:stop][::-1]
    unsorted.indices, unsorted.indptr = unsorted.indices.astype(index), unsorted.indptr.astype(index)
    kept = [part.copy() for part in (unsorted.data, unsorted.indices, unsorted.indptr)]
    for part in (unsorted.data, unsorted.indices, unsorted.indptr):
        part.flags.writeable = not frozen
    np.testing.assert_array_equal(as_array(handed_over(open_source((unsorted, Y)))), S.toarray())
    found, expected = sm.train((unsorted, Y), passes=3), sm.train((S, Y), passes=3)
    assert found.model.coef_.tolist() == expected.model.coef_.tolist()
    np.testing.assert_array_equal(found.model.decision_function(unsorted), expected.model.decision_function(S))
    for part, before in zip((unsorted.data, unsorted.indices, unsorted.indptr), kept, strict=True):
        np.testing.assert_array_equal(part, before)


def spoilt(part, position, value, index=np.int32):
    """A copy of S with one entry of data, indices or indptr replaced."""
    out = S.copy()
    out.indices, out.indptr = out.indices.astype(index), out.indptr.astype(index)
    getattr(out, part)[position] = value
    return out


PLACE = int(S.indptr[20])  # the first value of row 20
assert S.indptr[21] - PLACE >= 2
FAULTS = [
    (spoilt("data", PLACE, np.nan), rf"X: row 20, column {S.indices[PLACE]} is NaN; drop the row"),
    (spoilt("data", PLACE, -np.inf), rf"X: row 20, column {S.indices[PLACE]} is an infinite value"),
    (spoilt("indices", PLACE, S.indices[PLACE + 1]), rf"X: row 20 has column {S.indices[PLACE + 1]} twice; sum the"),
    (spoilt("indices", PLACE, COLUMNS), rf"X: row 20 has the column index {COLUMNS}, outside 0\.\.{COLUMNS - 1}"),
    (spoilt("indices", PLACE, -1), r"X: row 20 has the column index -1, outside"),
    (spoilt("indices", PLACE, 2**32, np.int64), r"X: row 20 has the column index 4294967296, outside"),
    (spoilt("indptr", 20, S.nnz + 1), r"X: indptr decreases at row 20; build the matrix again"),
    (spoilt("indptr", 0, 1), r"X: indptr must have 31 entries, from 0 to at most \d+ stored values"),
    (spoilt("indptr", ROWS, S.nnz + 1), r"X: indptr must have 31 entries"),
]


@pytest.mark.parametrize("given, match", FAULTS)
def test_faults_of_sparse_rows_are_named(given, match):
    with pytest.raises(sm.DataError, match=match):
        sm.train((given, Y), passes=1)
    model = sm.train((S, Y), passes=1).model
    with pytest.raises(sm.DataError, match=match):
        model.predict(given)
    with pytest.raises(sm.DataError, match=match):
        sm.train((S, Y), valid=(given, Y), passes=1)
    with pytest.raises(sm.DataError, match=match):
        sm.train((given, Y), scale="maxabs", passes=1)


@pytest.mark.parametrize("kind", ["C order", "float32", "Fortran order", "read-only", "float16"])
@pytest.mark.parametrize("value, what", [(np.nan, "NaN"), (np.inf, "an infinite value")])
def test_values_of_dense_rows_that_are_not_finite(kind, value, what):
    given = DENSE[kind][0].copy(order="K")
    given[17, 3] = value
    given.flags.writeable = kind != "read-only"
    match = rf"X: row 17, column 3 is {what}; drop the row"
    with pytest.raises(sm.DataError, match=match):
        sm.train((given, Y), passes=1)
    with pytest.raises(sm.DataError, match=match):
        sm.train((X, Y), valid=(given, Y), passes=1)
    with pytest.raises(sm.DataError, match=match):
        sm.train((X, Y), passes=1).model.predict(given)


@pytest.mark.parametrize(
    "data, names, match",
    [
        ((X[0], Y), {}, r"X has 1 dimension\(s\); rows must be a 2-dimensional array"),
        ((X[None], Y), {}, "X has 3 dimension"),
        ((X[:0], Y[:0]), {}, "X has 0 rows and 6 columns; rows need both"),
        ((X[:, :0], Y), {}, "X has 30 rows and 0 columns"),
        ((X.astype(complex), Y), {}, "X holds values of type complex128; rows must be real numbers"),
        ((X.astype(str), Y), {}, "X holds values of type <U"),
        ((np.ma.masked_equal(X, X[3, 3]), Y), {}, "X: row 1 is masked; fill its values"),
        ((X, Y[:-1]), {}, r"y has shape \(29,\) but X has 30 rows"),
        ((X, Y[:, None, None]), {}, r"y has shape \(30, 1, 1\) but X has 30 rows"),
        ((X, np.ones((29, 2))), {}, r"y has shape \(29, 2\) but X has 30 rows"),
        ((X, np.ones((30, 0))), {}, r"y has no columns; give a label for each row"),
        ((X, Y), {"sample_weight": np.ones(29)}, r"sample_weight has shape \(29,\) but X has 30 rows"),
        ((X, Y), {"sample_weight": 1.5}, "sample_weight is 1.5, one number for all 30 rows of X; give one for each"),
        ((X, Y), {"sample_weight": ["a"] * ROWS}, "the sample weights of X are not numbers"),
        ((sp.csr_matrix((3, 2**31)), Y[:3]), {}, "X has 2147483648 columns; at most 2147483647"),
        ((X, None), {}, "X has no labels; give them as y"),
    ],
)
def test_arrays_that_do_not_fit(data, names, match):
    with pytest.raises(sm.DataError, match=match):
        sm.train(data, **names)


def test_pairs_of_another_size():
    with pytest.raises(sm.UsageError, match=r"given as the pair \(X, y\), not as 3 values"):
        open_source((X, Y, Y))


def test_weights_and_labels_may_be_named_apart():
    source = open_source(X, y=Y, sample_weight=Y)
    assert source.sample_weight().dtype == np.float64
    np.testing.assert_array_equal(source.sample_weight(), Y)
    np.testing.assert_array_equal(all_labels(source), Y)
    assert open_source((X, Y)).sample_weight() is None


@pytest.mark.parametrize("given", [X, S])
def test_fingerprint_follows_the_content(given):
    def fingerprint(X, y=Y, weight=None):
        return open_source((X, y), sample_weight=weight).fingerprint()

    first = fingerprint(given)
    assert fingerprint(given.copy()) == first
    other = given.copy()
    (other if given is X else other.data)[0] += 1
    seen = {first, fingerprint(other), fingerprint(given, 1 - Y), fingerprint(given, Y.astype(str).astype(object))}
    seen |= {fingerprint(given, weight=Y + 1), fingerprint(given[:-1], Y[:-1])}
    if given is S:
        moved = S.copy()
        moved.indices[:] = moved.indices[::-1]
        seen.add(fingerprint(moved))
    assert len(seen) == (7 if given is S else 6)


def test_rows_outlive_the_names_they_had():
    code = """
import gc, numpy as np
from streammargin.sources.open import open_source
X = np.arange(8_000_000.0).reshape(-1, 8)
X.flags.writeable = False
source = open_source((X, np.zeros(len(X))))
del X
gc.collect()
other = np.ones(8_000_000)
print(source.whole().X[-1, -1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) == 7_999_999.0
