"""Checks of blocks, orders, scores and column statistics."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from reference.datasets import as_form, noisy

from streammargin.compiled import block_checks, columns, gram
from streammargin.compiled.order import permutation
from streammargin.compiled.predict import decide_block
from streammargin.sources.arrays import ArraySource
from streammargin.sources.checks import STRETCH, first_not_finite

DTYPES = (np.float32, np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_value_that_is_not_finite_is_found(dtype, bad):
    for size in (1, 7, STRETCH, 150_000):
        for place in {0, size // 2, min(STRETCH, size - 1), size - 1}:
            values = np.full(size, np.finfo(dtype).max, dtype)  # their sum would overflow
            assert first_not_finite(values) == -1
            values[place:] = bad
            assert first_not_finite(values) == place
    assert first_not_finite(np.empty(0, dtype)) == -1


@pytest.mark.parametrize(
    "indices, indptr, expected",
    [
        ([0, 4, 1], [0, 2, 2, 3], (block_checks.FINE, 0, 0)),
        ([], [0, 0], (block_checks.FINE, 0, 0)),
        ([0, 5, 1], [0, 1, 3], (block_checks.OUT_OF_RANGE, 1, 5)),
        ([0, 2**32 - 1], [0, 1, 2], (block_checks.OUT_OF_RANGE, 1, 2**32 - 1)),
        ([1, 3, 3], [0, 3], (block_checks.TWICE, 0, 3)),
        ([1, 3, 2], [0, 1, 3], (block_checks.UNSORTED, 1, 0)),
        ([3, 2, 9], [0, 2, 3], (block_checks.OUT_OF_RANGE, 1, 9)),  # worse than unsorted
        ([3, 2, 4, 4], [0, 2, 4], (block_checks.TWICE, 1, 4)),
        ([2, 1, 3, 0], [0, 1, 2, 4], (block_checks.UNSORTED, 2, 0)),  # one fall between rows, one within
        ([1, 2, 4, 3], [0, 2, 2, 2, 4, 4], (block_checks.UNSORTED, 3, 0)),  # rows begin there three times
        ([2, 1], [0, 0, 2, 2], (block_checks.UNSORTED, 1, 0)),
    ],
)
def test_sparse_rows_are_judged(indices, indptr, expected):
    assert block_checks.check_sparse(np.array(indices, np.uint32), np.array(indptr, np.int64), 5) == expected


def judged(indices, indptr, width):
    """What `check_sparse` says, row by row."""
    codes = []
    for row, (start, stop) in enumerate(pairwise(indptr)):
        own = indices[start:stop].astype(np.int64)
        for before, j in pairwise([-1, *own]):
            if j >= width:
                return block_checks.OUT_OF_RANGE, row, j
            if j == before:
                return block_checks.TWICE, row, j
            if j < before:
                codes.append((block_checks.UNSORTED, row, 0))
    return codes[0] if codes else (block_checks.FINE, 0, 0)


def test_sparse_rows_are_judged_as_one_by_one():
    rng, seen = np.random.default_rng(0), set()
    for _ in range(3000):
        lengths = rng.integers(0, 4, rng.integers(1, 6))
        indptr = np.append(0, np.cumsum(lengths))
        rows = [np.sort(rng.choice(8, m, replace=False)) for m in lengths]
        indices = np.concatenate(rows).astype(np.uint32)
        for _ in range(rng.integers(0, 2) if indices.size else 0):
            indices[rng.integers(indices.size)] = rng.integers(0, 9)
        expected = judged(indices, indptr, 8)
        assert block_checks.check_sparse(indices, indptr, 8) == expected
        seen.add(expected[0])
    assert seen == {block_checks.FINE, block_checks.OUT_OF_RANGE, block_checks.TWICE, block_checks.UNSORTED}


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_sorted_with_their_values(dtype):
    rng = np.random.default_rng(0)
    lengths = [0, 1, 2, 3, 40, 500, 0]
    indptr = np.append(0, np.cumsum(lengths))
    indices = np.concatenate([rng.permutation(600)[:m] for m in lengths]).astype(np.uint32)
    data = rng.standard_normal(len(indices)).astype(dtype)
    dense = sp.csr_matrix((data, indices.astype(np.int32), indptr), (7, 600)).toarray()
    block_checks.sort_rows(data, indices, indptr)
    assert block_checks.check_sparse(indices, indptr, 600)[0] == block_checks.FINE
    np.testing.assert_array_equal(sp.csr_matrix((data, indices.astype(np.int32), indptr), (7, 600)).toarray(), dense)


def test_orders_are_permutations_of_their_seed():
    one = permutation(1000, 3, 1)
    assert sorted(one) == list(range(1000))
    assert one.dtype == np.int64
    np.testing.assert_array_equal(one, permutation(1000, 3, 1))
    for other in ((4, 1), (3, 2), (3, 1, 1)):
        assert not np.array_equal(one, permutation(1000, *other))
    assert permutation(0, 1).size == 0
    long = [permutation(1000, word) for word in (0, 5, 1 << 64, 5 + (1 << 64), 1 << 128)]
    assert len({order.tobytes() for order in long}) == len(long)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_scores(form, dtype):
    X, _ = noisy(30, 6)
    rows = as_form(X, form, dtype)
    block = ArraySource(rows).whole()._replace(bias=1.0)
    coef = np.random.default_rng(1).standard_normal((3, 7))
    out = np.full((20, 3), np.nan)
    decide_block(block, coef, 10, out)
    expected = X.astype(dtype).astype(float) @ coef[:, :6].T + coef[:, 6]
    np.testing.assert_allclose(out, expected[10:], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_column_statistics(form, dtype, weighted):
    """Of present rows alone, and without a digit lost to a column that is far from 0."""
    X, _ = noisy(40, 5)
    X[:, 4] += 1e3 if dtype is np.float32 else 1e8
    X[X[:, 1] < 0.0, 1] = 0.0
    X = X.astype(dtype)
    rng = np.random.default_rng(2)
    codes = rng.integers(-1, 2, 40).astype(np.int16)
    codes[0] = -1  # what the first row holds is none of the present ones' business
    weights = rng.choice([0.0, 1.0, 2.5], 40) if weighted else np.empty(0)
    share = (weights if weighted else np.ones(40)) * (codes >= 0)
    stored = share[:, None] * ((X != 0.0) if form == "csr" else np.ones(X.shape))
    block = ArraySource(as_form(X, form, dtype)).whole()
    squares, largest, mean, spread = np.zeros((4, 5))
    mass = np.zeros(6)
    columns.add_squares(block, codes, weights, squares)
    columns.add_moments(block, codes, weights, largest, mean, spread, mass)
    rows = X.astype(float)
    np.testing.assert_array_equal(largest, np.abs(rows[share > 0]).max(axis=0))
    np.testing.assert_allclose(squares, share @ rows**2, rtol=1e-12)
    expected = (stored * rows).sum(axis=0) / stored.sum(axis=0)
    np.testing.assert_allclose(mean, expected, rtol=1e-12)
    np.testing.assert_allclose(spread, (stored * (rows - mean) ** 2).sum(axis=0), rtol=1e-8)
    np.testing.assert_allclose(mass, [*(stored.sum(axis=0) if form == "csr" else np.zeros(5)), share.sum()], rtol=1e-12)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_of_all_values(form, dtype, weighted):
    """Of present rows alone, each with its weight, to the same bits in any blocks."""
    rng = np.random.default_rng(5)
    X = (rng.standard_normal((40, 5)) * (rng.random((40, 5)) < 0.7)).astype(dtype)
    codes, weights = rng.integers(-1, 2, 40).astype(np.int16), rng.choice([0.0, 1.0, 2.5], 40)
    share = (weights if weighted else np.ones(40)) * (codes >= 0)
    X[share == 0.0] *= 1e3
    found = []
    for bounds in ([0, 40], [0, 7, 8, 40]):
        moments = np.zeros(gram.MOMENTS)
        for low, high in pairwise(bounds):
            block = ArraySource(as_form(X[low:high], form, dtype)).whole()
            gram.add_moments(block, codes[low:high], weights[low:high] if weighted else np.empty(0), moments)
        found.append(moments)
    np.testing.assert_array_equal(*found)
    rows = X.astype(float)
    squares = (rows**2).sum(axis=1)
    wanted = [share.sum(), share @ rows.sum(axis=1), share @ squares, squares[share > 0.0].max()]
    np.testing.assert_allclose(found[0], wanted, rtol=1e-10)
    mean = np.average(rows, axis=0, weights=share).mean()
    variance = np.average((rows - mean) ** 2, axis=0, weights=share).mean()
    np.testing.assert_allclose(gram.variance_of(found[0], 5), variance, rtol=1e-10)
    assert gram.variance_of(np.zeros(gram.MOMENTS), 5) == 0.0


@pytest.mark.parametrize("place", ["apart", "last half", "itself"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_are_scaled_to_float64(dtype, place):
    """Also from the last half of the memory that the scaled values go to."""
    X, _ = noisy(10, 5)
    factor, center = np.array([1.0, 2.0, 0.5, 3.0, 0.1]), np.arange(5.0)
    rows, sparse = X.astype(dtype), as_form(X, "csr", dtype)
    for values, scale, wanted in (
        (rows, lambda x, out: columns.scale_dense(x, center, factor, out), (rows.astype(float) - center) * factor),
        (sparse.data, lambda x, out: columns.scale_sparse(x, sparse.indices.view(np.uint32), factor, out),
         sparse.data.astype(float) * factor[sparse.indices]),
    ):  # fmt: skip
        out = np.empty(values.shape)
        if place == "apart" or (place == "itself" and dtype is np.float32):
            there = values
        else:
            ends = out.reshape(-1).view(dtype)
            there = (ends[-values.size :] if place == "last half" else ends).reshape(values.shape)
            there[...] = values
        scale(there, out)
        np.testing.assert_array_equal(out, wanted)
