"""Batches from Python become a file that can be streamed, or nothing."""

import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5

import streammargin as sm


@pytest.fixture
def rows():
    random = np.random.default_rng(3)
    X = random.standard_normal((50, 4)) * (random.random((50, 4)) < 0.6)
    return X, np.where(X.sum(axis=1) > 0, "good", "bad"), random.random(50)


def cut(X, *columns, step=7):
    """Batches of these rows."""
    return (tuple(part[start : start + step] for part in (X, *columns)) for start in range(0, X.shape[0], step))


@pytest.mark.parametrize("form", [np.array, sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_written_is_what_was_given(tmp_path, rows, form, dtype):
    X, y, weights = rows
    X = X.astype(dtype)
    assert sm.write_hdf5(cut(form(X), y, weights), tmp_path / "out.h5") == 50
    with h5py.File(tmp_path / "out.h5") as file:
        if form is np.array:
            stored = file["X"][:]
        else:
            group = file["X"]
            assert group.attrs["encoding-type"] == "csr_matrix" and group["indices"].dtype == np.int32
            stored = sp.csr_matrix((group["data"][:], group["indices"][:], group["indptr"][:]), group.attrs["shape"])
            stored = stored.toarray()
        assert stored.dtype == dtype and np.array_equal(stored, X)
        assert file["y"].asstr()[:].tolist() == y.tolist() and np.array_equal(file["sample_weight"][:], weights)


def test_a_training_on_the_file_is_that_on_the_rows(tmp_path, blobs):
    X, y = blobs
    sm.write_hdf5(cut(X, y), tmp_path / "out.h5")
    of_file, of_rows = sm.train(str(tmp_path / "out.h5")), sm.train((X, y))
    assert of_file.converged and of_file.certificate.primal == pytest.approx(of_rows.certificate.primal, rel=1e-3)
    assert of_file.model.classes_.tolist() == [-1, 1]


def test_rows_out_of_order_are_sorted(tmp_path):
    X = sp.csr_matrix((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3])), (2, 3))
    sm.write_hdf5([(X, [0, 1])], tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["X/indices"][:].tolist() == [0, 2, 1] and file["X/data"][:].tolist() == [2.0, 1.0, 3.0]
    assert X.indices.tolist() == [2, 0, 1]  # those of the caller stay as they are


def test_names_of_frames_are_stored(tmp_path, rows):
    pandas = pytest.importorskip("pandas")
    X, y, _ = rows
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    batches = [(frame[start : start + 25], pandas.Series(y[start : start + 25])) for start in (0, 25)]
    sm.write_hdf5(batches, tmp_path / "out.h5")
    with sm.open_source(str(tmp_path / "out.h5")) as source:
        assert source.feature_names().tolist() == ["a", "b", "c", "d"]
    with pytest.raises(sm.DataError, match=r"batch 1 .*order"):
        sm.write_hdf5([batches[0], (frame[["b", "a", "c", "d"]], y)], tmp_path / "other.h5")


def test_rows_without_labels_and_batches_without_rows(tmp_path):
    X = np.eye(3)
    assert sm.write_hdf5([(X[:0], None), (X, None), (X[:0], None)], tmp_path / "out.h5") == 3
    with h5py.File(tmp_path / "out.h5") as file:
        assert "y" not in file and np.array_equal(file["X"][:], X)


def test_an_existing_file_is_an_error_unless_forced(tmp_path):
    path = write_h5(tmp_path / "out.h5", np.eye(2), [0, 1])
    before = (tmp_path / "out.h5").read_bytes()
    pulled = []
    with pytest.raises(sm.OutputError, match="force=True"):
        sm.write_hdf5((pulled.append(1) for _ in range(3)), path)
    assert (tmp_path / "out.h5").read_bytes() == before and not pulled  # it is said before a row is asked for
    assert sm.write_hdf5([(np.eye(3), [0, 1, 2])], path, force=True) == 3


GOOD = (np.eye(3), [0, 1, 0], [1.0, 2.0, 0.0])
SPARSE = (sp.csr_matrix(np.eye(3)), *GOOD[1:])


def csr(data, indices):
    return sp.csr_matrix((np.array(data, float), np.array(indices), np.array([0, len(data)])), (1, 3))


@pytest.mark.parametrize(
    "bad, words",
    [
        ((np.ones((2, 4)), [0, 1], [1, 1]), ["batch 1", "4 columns"]),
        ((np.array([[1.0, 2, 3], [1, np.nan, 3]]), [0, 1], [1, 1]), ["batch 1", "row 1", "column 1", "nan"]),
        ((np.ones((2, 3)), [0, np.nan], [1, 1]), ["batch 1", "row 1", "NaN"]),
        ((np.ones((2, 3)), [0, None], [1, 1]), ["batch 1", "row 1", "no label"]),
        ((np.ones((2, 3)), [0, 1, 2], [1, 1]), ["y", "(3,)"]),
        ((np.ones((2, 3)), [0, 1], [1, -1]), ["batch 1", "row 1", "-1"]),
        ((np.ones((2, 3)), [0, 1]), ["batch 1", "weights"]),
        ((np.ones((2, 3)), None, [1, 1]), ["batch 1", "labels"]),
        ((sp.csr_matrix(np.ones((2, 3))), [0, 1], [1, 1]), ["batch 1", "sparse", "dense"]),
        ((np.full((2, 3), "a"), [0, 1], [1, 1]), ["batch 1", "real numbers"]),
        ((np.ones((2, 3)),), ["batch 1", "(X, y)"]),
        (np.ones((2, 3)), ["batch 1", "(X, y)"]),
    ],
)
def test_a_bad_batch_is_named_and_leaves_nothing(tmp_path, bad, words):
    with pytest.raises((sm.DataError, sm.UsageError)) as error:
        sm.write_hdf5(iter([GOOD, bad]), tmp_path / "out.h5")
    assert all(word in str(error.value) for word in words), error.value
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    "bad, words",
    [
        ((csr([1, 2], [1, 1]), [0], [1]), ["batch 1", "row 0", "column 1", "twice"]),
        ((csr([np.inf], [2]), [0], [1]), ["batch 1", "row 0", "column 2", "inf"]),
        ((np.ones((2, 3)), [0, 1], [1, 1]), ["batch 1", "dense"]),
    ],
)
def test_a_bad_sparse_batch_is_named_and_leaves_nothing(tmp_path, bad, words):
    with pytest.raises(sm.DataError) as error:
        sm.write_hdf5([SPARSE, bad], tmp_path / "out.h5")
    assert all(word in str(error.value) for word in words), error.value
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("batches", [[], [(np.empty((0, 3)), [])], iter(())])
def test_no_rows_is_an_error(tmp_path, batches):
    with pytest.raises((sm.DataError, sm.UsageError)):
        sm.write_hdf5(batches, tmp_path / "out.h5")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("batches", [(np.eye(2), [0, 1]), np.eye(2), "rows.h5", 7, None])
def test_what_is_no_iterable_of_batches_is_refused(tmp_path, batches):
    with pytest.raises(sm.UsageError, match="batch"):
        sm.write_hdf5(batches, tmp_path / "out.h5")


@pytest.mark.parametrize("kind", [OSError, RuntimeError, ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("good", [0, 1])
def test_the_errors_of_the_iterable_pass_unchanged(tmp_path, kind, good):
    def batches():
        for _ in range(good):
            yield GOOD
        raise kind("of the user's own")

    with pytest.raises(kind, match="of the user's own"):
        sm.write_hdf5(batches(), tmp_path / "out.h5")
    assert not os.listdir(tmp_path)


def test_the_type_is_that_of_the_first_batch_or_the_one_asked_for(tmp_path):
    narrow, wide = (np.eye(2, dtype=np.float32), [0, 1]), (np.eye(2) / 3, [0, 1])
    with pytest.raises(sm.DataError, match=r'batch 1 .*dtype="float64"'):
        sm.write_hdf5([narrow, wide], tmp_path / "out.h5")
    for dtype in ("float32", "float64"):
        sm.write_hdf5([narrow, wide], tmp_path / f"{dtype}.h5", dtype=dtype)
        with h5py.File(tmp_path / f"{dtype}.h5") as file:
            assert file["X"].dtype == dtype and np.array_equal(file["X"][2:], wide[0].astype(dtype))
    with pytest.raises(sm.DataError, match="too large"):
        sm.write_hdf5([narrow, (np.eye(2) * 1e300, [0, 1])], tmp_path / "out.h5", dtype="float32")
    with pytest.raises(sm.UsageError, match="dtype"):
        sm.write_hdf5([narrow], tmp_path / "out.h5", dtype="int8")
    assert sorted(os.listdir(tmp_path)) == ["float32.h5", "float64.h5"]


def test_labels_widen_as_they_come(tmp_path):
    X = np.eye(2)
    sm.write_hdf5([(X, [0, 1]), (X, [0.5, 2.0])], tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["y"][:].tolist() == [0.0, 1.0, 0.5, 2.0]


def test_writing_loads_no_compiler(tmp_path):
    code = (
        "import sys, numpy as np, streammargin as sm\n"
        "sm.write_hdf5([(np.eye(2), [0, 1])], sys.argv[1])\n"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "out.h5"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
