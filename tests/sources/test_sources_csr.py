"""Sparse HDF5: every storage and index type yields SciPy's slices, and every fault is named."""

import shlex

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from source_checks import (
    all_labels,
    assert_plans,
    assert_rows,
    check_all,
    edit,
    random_sparse,
    two_labels,
    write_csr,
    write_group,
)

import streammargin as sm
from streammargin.data_tools.main import main as tools
from streammargin.model.linear import LinearModel
from streammargin.sources.checks import check_block
from streammargin.sources.hdf5 import file as hdf5_csr
from streammargin.sources.open import open_source

ROWS, COLUMNS = 31, 17
CUTS = [(), (1,), (15, 16), (3, 4, 5, 19), range(ROWS)]
STORAGE = {
    "contiguous": ({}, "direct"),
    "chunks": ({"chunks": (7,)}, "direct"),
    "gzip": ({"chunks": (7,), "compression": "gzip"}, "copied"),
    "lzf": ({"chunks": (29,), "compression": "lzf"}, "copied"),
}


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("index", ["<i4", "<i8", "<u4", "<u8", ">i8", "u1"])
@pytest.mark.parametrize("pointer", ["<i4", "<i8", ">u8"])
def test_blocks_are_slices(tmp_path, storage, index, pointer):
    X = random_sparse(ROWS, COLUMNS)
    options, road = STORAGE[storage]
    with open_source(write_csr(tmp_path / "s.h5", X, index=index, pointer=pointer, **options)) as source:
        assert source.layout()["read"] == (road if np.dtype(index).isnative else "copied")
        assert source.sparse and source.nnz == X.nnz and source.dtype == np.float64
        for cuts in CUTS:
            assert_rows(source, X.toarray(), cuts)
        np.testing.assert_array_equal(all_labels(source), two_labels(ROWS))


@pytest.mark.parametrize("dtype", ["<f4", "<f2", ">f4", "i1", "u1", "<i4", ">f8", "<i8", "?"])
def test_types_of_values(tmp_path, dtype):
    X = random_sparse(ROWS, COLUMNS)
    X.data = np.minimum(X.data, 1 if dtype == "?" else 99).astype(dtype)
    with open_source(write_csr(tmp_path / "s.h5", X)) as source:
        assert source.dtype == (np.float64 if X.dtype.itemsize >= 4 and X.dtype.str[1:] != "f4" else np.float32)
        expected = sp.csr_array((X.data.astype(source.dtype), X.indices, X.indptr), X.shape).toarray()
        assert_rows(source, expected, (3, 4, 19))


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("index, pointer", [("<i4", "<i8"), ("<i8", "<i4")])
@pytest.mark.parametrize("piece", [1 << 18, 7])
def test_plans_keep_to_the_budget(tmp_path, monkeypatch, storage, index, pointer, piece):
    monkeypatch.setattr(hdf5_csr, "_POINTERS_AT_ONCE", piece)
    X = random_sparse(500, COLUMNS)
    path = write_csr(tmp_path / "s.h5", X, index=index, pointer=pointer, **STORAGE[storage][0])
    with open_source(path) as source:
        least = max(2500, source.buffer_bytes(source.bounds(1)))  # HDF5 holds more of small chunks than their values
        assert_plans(source, least, one_block=piece > 500)
        assert_rows(source, X.toarray(), source.bounds(2500))


def test_one_row_of_all_the_values_and_rows_of_none(tmp_path):
    X = sp.csr_matrix(np.array([[0.0] * 3, [1, 2, 3], [0] * 3]))
    with open_source(write_csr(tmp_path / "s.h5", X)) as source:
        assert_rows(source, X.toarray(), source.bounds(1))
    with open_source(write_csr(tmp_path / "none.h5", sp.csr_matrix((4, 3)))) as source:
        assert source.nnz == 0
        for cuts in ((), (1, 2)):
            assert_rows(source, np.zeros((4, 3)), cuts)
    assert sm.train(str(tmp_path / "none.h5"), passes=1).model.coef_.tolist() == [[0.0, 0.0, 0.0]]


def test_unsorted_rows_are_sorted(tmp_path):
    X = random_sparse(ROWS, COLUMNS)
    shuffled = X.copy()
    rng = np.random.default_rng(0)
    for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        order = start + rng.permutation(stop - start)
        shuffled.indices[start:stop], shuffled.data[start:stop] = X.indices[order], X.data[order]
    assert not shuffled.has_sorted_indices
    with open_source(write_csr(tmp_path / "s.h5", shuffled)) as source:
        for cuts in CUTS:
            assert_rows(source, X.toarray(), cuts)
    with h5py.File(tmp_path / "s.h5") as file:
        np.testing.assert_array_equal(file["X/indices"], shuffled.indices)


def four_rows(path):
    """Rows with columns [0, 2], [], [1], [0, 1, 3] of 4; the fault tests spoil it."""
    X = sp.csr_matrix((np.arange(1.0, 7.0), [0, 2, 1, 0, 1, 3], [0, 2, 2, 3, 6]), (4, 4))
    return write_csr(path, X)


def narrow(*indices):
    return np.array(indices, np.int32)


def values(**changes):
    """The six values with some replaced: values(p4=nan)."""
    out = np.arange(1.0, 7.0)
    for position, value in changes.items():
        out[int(position[1:])] = value
    return out


@pytest.mark.parametrize(
    "changes, match",
    [
        ({"indices": narrow(0, 2, 1, 0, 0, 3)}, r"row 3 has column 0 twice; sum the duplicates"),
        ({"indices": narrow(0, 2, 1, 3, 0, 3)}, r"row 3 has column 3 twice"),
        ({"indices": narrow(0, 2, 4, 0, 1, 3)}, r"row 2 has the column index 4, outside 0\.\.3"),
        ({"indices": narrow(0, 2, -1, 0, 1, 3)}, r"row 2 has the column index -1, outside 0\.\.3"),
        ({"indices": np.array([0, 2, 2**32 + 1, 0, 1, 3])}, r"row 2 has the column index 4294967297, outside"),
        ({"indices": np.array([0, 2, 2**32 + 1, 0, 1, 3], ">i8")}, r"row 2 has the column index 4294967297, outside"),
        ({"indices": np.array([0, 2, 1, 0, 1, 2**63 + 3], "u8")}, r"row 3 has the column index 9223372036854775811"),
        ({"indices": np.array([0, 2, 1, 0, 1, 2**32 - 1], "u4")}, r"row 3 has the column index"),
        ({"indices": [0.0, 2, 1, 0, 1, 3]}, r"X/indices holds float64 but must hold integers"),
        ({"indptr": [0, 2, 1, 3, 6]}, r"X/indptr decreases at row 1"),
        ({"indptr": [0, 2, 7, 3, 6]}, r"X/indptr decreases at row 2"),
        ({"indptr": [0, -2, 2, 3, 6]}, r"X/indptr decreases at row 0"),
        ({"indptr": [1, 2, 2, 3, 6]}, r"runs from 1 to 6 but there are 6 values"),
        ({"indptr": [-1, 2, 2, 3, 6]}, r"runs from -1 to 6 but there are 6 values"),
        ({"indptr": [0, 2, 2, 3, 5]}, r"runs from 0 to 5 but there are 6 values"),
        ({"indptr": [0, 2, 2, 3, 9]}, r"runs from 0 to 9 but there are 6 values"),
        ({"indptr": [0.0, 2, 2, 3, 6]}, r"X/indptr holds float64 but must hold integers"),
        ({"indptr": [0, 2, 2, 6]}, r"X/indptr has 4 entries for 4 rows; it needs rows \+ 1"),
        ({"shape": (5, 4)}, r"X/indptr has 5 entries for 5 rows"),
        ({"shape": (4, 3)}, r"row 3 has the column index 3, outside 0\.\.2"),
        ({"shape": (4,)}, r"group X has no shape"),
        ({"shape": (4, 2**31)}, r"has 2147483648 columns; at most 2147483647"),
        ({"shape": (4, 0)}, r"has 4 rows and 0 columns; rows need both"),
        ({"shape": (0, 4), "indptr": [0]}, r"has 0 rows and 4 columns; rows need both"),
        ({"data": values()[:5]}, r"X/indices and X/data have different lengths"),
        ({"data": values()[:5], "indices": narrow(0, 2, 1, 0, 1)}, r"runs from 0 to 6 but there are 5 values"),
        ({"data": values(p4=np.nan)}, r"row 3, column 1 is NaN; drop the row or replace the value"),
        ({"data": values(p2=np.inf)}, r"row 2, column 1 is an infinite value"),
        ({"data": values() + 1j}, r"X/data holds values of type complex128"),
        ({"data": values()[None]}, r"no 1-dimensional dataset data"),
        ({"data": np.float64(1)}, r"no 1-dimensional dataset data"),
        ({"indices": None}, r"no 1-dimensional dataset indices"),
        ({"indptr": None}, r"no 1-dimensional dataset indptr"),
    ],
)
def test_faults_are_named(tmp_path, changes, match):
    path = edit(four_rows(tmp_path / "s.h5"), **changes)
    with pytest.raises(sm.DataError, match=match) as caught:
        check_all(path)
    assert path in str(caught.value)
    with pytest.raises(sm.DataError, match=match):
        sm.train(path)


def test_rows_are_counted_from_the_start_of_the_file(tmp_path):
    path = edit(four_rows(tmp_path / "s.h5"), indices=np.array([0, 2, 1, 0, 1, 9]))
    edit(path, data=values(p2=np.nan))
    with open_source(path) as source:
        buffer = source.allocate(np.array([0, 2, 4]))
        with pytest.raises(sm.DataError, match="row 2, column 1 is NaN"):
            check_block(source, source.read(2, 3, buffer), 2)
        with pytest.raises(sm.DataError, match="row 3 has the column index 9"):
            check_block(source, source.read(2, 4, buffer), 2)


def test_csc_is_refused_with_the_way_out(tmp_path):
    path = four_rows(tmp_path / "s.h5")
    for name, value in (("encoding-type", "csc_matrix"), ("encoding-type", np.bytes_("csc_matrix"))):
        with h5py.File(path, "r+") as file:
            file["X"].attrs[name] = value
        with pytest.raises(sm.DataError, match=r"X is a csc_matrix.*streammargin-data convert .*s\.h5 OUT\.h5"):
            open_source(path)


def test_the_way_out_of_csc_makes_the_rows_and_labels_that_were_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = random_sparse(ROWS, COLUMNS), np.arange(ROWS) % 2
    with h5py.File("two.h5", "w") as file:
        file["X"], file["obs/kind of cell"] = np.zeros((ROWS, COLUMNS)), y
        group = file.create_group("layers/counts")
        group.attrs.update({"encoding-type": "csc_matrix", "shape": X.shape})
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(X.tocsc(), name)
    with pytest.raises(sm.DataError, match="convert it with: ") as caught:
        open_source("two.h5", x="layers/counts", y="obs/kind of cell")
    command = shlex.split(str(caught.value).partition("convert it with: ")[2])
    assert command[0] == "streammargin-data" and tools(command[1:]) == 0
    with open_source("OUT.h5") as source:
        assert (source.rows, source.features, source.nnz) == (*X.shape, X.nnz)
        assert np.array_equal(all_labels(source), y)
    names = {"names": {"x": "layers/counts", "y": "obs/kind of cell"}}
    model = LinearModel(np.ones((1, COLUMNS)), np.zeros(1), np.arange(2), {"loss": "hinge", "problem": names})
    with pytest.raises(sm.DataError, match="--x layers/counts --y 'obs/kind of cell'"):  # it remembers them
        model.evaluate("two.h5")


def test_other_groups_are_refused(tmp_path):
    path = four_rows(tmp_path / "s.h5")
    with h5py.File(path, "r+") as file:
        file["X"].attrs["encoding-type"] = "dataframe"
        file["type"] = np.dtype("f8")
    with pytest.raises(sm.DataError, match=r"X is a group of encoding 'dataframe'; .* x=.NAME"):
        open_source(path)
    with pytest.raises(sm.DataError, match=r"type is a named type"):
        open_source(path, x="type")


@pytest.mark.parametrize("named", [None, "matrix"])
def test_10x_columns_of_features_are_rows_of_cells(tmp_path, named):
    cells = random_sparse(ROWS, COLUMNS, dtype=np.int32)
    by_feature = sp.csc_matrix(cells.T)  # the file's own view: features x barcodes, by column
    path = tmp_path / "10x.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("matrix")
        group["data"], group["indices"] = by_feature.data, by_feature.indices.astype(np.int64)
        group["indptr"], group["shape"] = by_feature.indptr.astype(np.int64), np.array(by_feature.shape, np.int32)
        group["barcodes"] = [f"cell-{k}".encode() for k in range(ROWS)]
        group.create_group("features")["id"] = [f"gene-{k}".encode() for k in range(COLUMNS)]
    with h5py.File(tmp_path / "labels.h5", "w") as file:
        file["kind"] = [b"T", b"B", b"B"] * 10 + [b"T"]
    with open_source(path, x=named, y=f"{tmp_path}/labels.h5:kind") as source:
        assert_rows(source, cells.toarray(), (3, 4, 19))
        assert all_labels(source).tolist() == ["T", "B", "B"] * 10 + ["T"]
    with pytest.raises(sm.DataError, match=r"10x\.h5 has no labels under the name y; .*y=.FILE:NAME"):
        sm.train(path)


def test_groups_elsewhere_in_the_file(tmp_path):
    X = random_sparse(ROWS, COLUMNS)
    with h5py.File(tmp_path / "s.h5", "w") as file:
        write_group(file.create_group("layers/counts"), X)
    with open_source(tmp_path / "s.h5", x="layers/counts") as source:
        assert_rows(source, X.toarray(), (3,))


@pytest.mark.parametrize("scale", ["maxabs", "std"])
def test_scaled_held_out_data_are_checked_before_they_are_scaled(tmp_path, scale):
    good = four_rows(tmp_path / "good.h5")
    bad = edit(four_rows(tmp_path / "bad.h5"), indices=narrow(0, 2, 10**9, 0, 1, 3))
    with pytest.raises(sm.DataError, match=r"bad\.h5: row 2 has the column index 1000000000"):
        sm.train(good, scale=scale, valid=bad, passes=1)
