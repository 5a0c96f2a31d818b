"""Writes small files with h5py alone, and compares what a source yields with NumPy and SciPy."""

from itertools import pairwise

import h5py
import numpy as np
import scipy.sparse as sp

from streammargin.rows.blocks import DenseBlock
from streammargin.sources.checks import check_block
from streammargin.sources.open import open_source


def random_sparse(rows, columns, seed=0, dtype=np.float64):
    """A csr_matrix with a few empty rows; its values are exact in every type."""
    rng = np.random.default_rng(seed)
    X = rng.integers(1, 100, (rows, columns)) * (rng.random((rows, columns)) < 0.3)
    X[rows // 2] = 0
    return sp.csr_matrix(X.astype(dtype))


def two_labels(rows):
    return np.arange(rows) % 2


def write_dense(path, X, y=None, **storage):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, **storage)
        file["y"] = two_labels(len(X)) if y is None else y
    return str(path)


def write_csr(path, X, y=None, index=np.int32, pointer=np.int64, **storage):
    """anndata's csr_matrix encoding; storage as for h5py's create_dataset."""
    with h5py.File(path, "w") as file:
        write_group(file.create_group("X"), X, index, pointer, **storage)
        file["y"] = two_labels(X.shape[0]) if y is None else y
    return str(path)


def write_group(group, X, index=np.int32, pointer=np.int64, **storage):
    group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": X.shape})
    group.create_dataset("data", data=X.data, **storage)
    group.create_dataset("indices", data=X.indices.astype(index), **storage)
    group.create_dataset("indptr", data=X.indptr.astype(pointer), **storage)


def edit(path, **changes):
    """Replace datasets of the group X; a value of None only deletes, `shape` is the attribute."""
    with h5py.File(path, "r+") as file:
        for name, value in changes.items():
            if name == "shape":
                file["X"].attrs["shape"] = value
                continue
            del file["X"][name]
            if value is not None:
                file["X"][name] = value
    return str(path)


def as_array(block):
    """The rows of a block as a dense array; a CSRBlock must be sorted and free of repetitions."""
    if isinstance(block, DenseBlock):
        return block.X
    X = sp.csr_array((block.data, block.indices.view(np.int32), block.indptr), (block.rows(), block.width))
    X.has_canonical_format = False
    before = X.nnz
    X.sum_duplicates()
    assert X.nnz == before
    return X.toarray()


def assert_rows(source, expected, cuts=()):
    """Every block between the cuts, read backwards through one buffer, is that slice of `expected`."""
    assert (source.rows, source.features) == expected.shape
    bounds = np.unique([0, *cuts, source.rows])
    buffer = source.allocate(bounds)
    for start, stop in reversed(list(pairwise(bounds.tolist()))):
        block = check_block(source, source.read(start, stop, buffer), start)
        found = as_array(block)
        assert found.dtype == source.dtype
        np.testing.assert_array_equal(found, np.asarray(expected[start:stop]).astype(source.dtype))
    assert buffer.nbytes <= source.buffer_bytes(bounds)


def assert_plans(source, least, one_block=True):
    """Bounds for any budget cover the rows, rise, and keep to the budget unless a block is one unit."""
    for budget in (1, least, 3 * least, 1 << 30):
        bounds = source.bounds(budget)
        assert bounds.dtype == np.int64 and bounds[0] == 0 and bounds[-1] == source.rows
        assert np.all(np.diff(bounds) > 0)
        if budget > least:
            assert source.buffer_bytes(bounds) <= budget
    assert len(bounds) == 2 or not one_block


def all_labels(source, chunk=7):
    return np.concatenate(list(source.labels(chunk)))


def read_weights(source):
    weights = source.sample_weight()
    return None if weights is None else weights[:]


def check_all(path, **names):
    """Open, and read and check everything."""
    with open_source(path, **names) as source:
        bounds = np.array([0, source.rows])
        check_block(source, source.read(0, source.rows, source.allocate(bounds)), 0)
        all_labels(source)
        read_weights(source)
