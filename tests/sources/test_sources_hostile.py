"""Files and arrays made to mislead a reader: nothing is read past its end, hung on, or left out in silence."""

import os
import shutil

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5
from source_checks import edit, write_csr, write_dense

import streammargin as sm
from streammargin.errors import DataError, UsageError
from streammargin.options.table import read_by
from streammargin.reading.prefetch import read_blocks
from streammargin.sources.labels import census
from streammargin.sources.open import files_read, open_source

WRAPS = np.array([0, 2**63 - 1, -2, 5])  # the differences of its neighbours wrap, and do not fall


def read_all(path, **names):
    """Everything that a training would read."""
    with open_source(str(path), **names) as source:
        list(source.labels())
        weights = source.sample_weight()
        assert weights is None or len(weights[:]) == source.rows
        return [block.rows() for _, _, block in read_blocks(source, 1 << 30)]


@pytest.mark.parametrize("indptr", [WRAPS, WRAPS.astype(np.uint64), np.array([0, 9, 2, 5]), np.array([0, -2, 2, 5])])
def test_row_ends_that_leave_the_values(tmp_path, indptr):
    X = sp.csr_matrix((np.ones(5), np.array([0, 1, 2, 0, 3]), np.array([0, 2, 3, 5])), (3, 4))
    path = write_csr(tmp_path / "a.h5", X)
    assert read_all(path) == [3]
    with pytest.raises(DataError, match=r"X/indptr decreases at row [01]; convert the file again"):
        read_all(edit(path, indptr=indptr))
    for broken in (X.copy(), X.T.tocsr().T, X.tobsr()):  # CSR, CSC and BSR
        broken.indptr = np.resize(indptr, len(broken.indptr))
        with pytest.raises(DataError, match=r"indptr decreases|invalid"):
            open_source((broken, [0, 1, 0]))


def test_coordinates_out_of_range_are_not_sorted_into_rows():
    X = sp.coo_matrix((np.ones(2), (np.array([0, 1]), np.array([1, 0]))), (2, 2))
    X.row[1] = 2**30
    with pytest.raises(DataError, match=r"invalid coo matrix .*out of range"):
        sm.train((X, [0, 1]))


@pytest.mark.parametrize("part", ["data", "indices", "indptr", "row", "col"])
def test_values_of_a_sparse_matrix_in_two_dimensions(tmp_path, part):
    X = sp.random(6, 4, 0.5, random_state=0)
    words = rf"{part} has the shape \(\d+, 1\); make it one-dimensional, as with {part}\.ravel\(\)"
    for broken in (X.tocsr(), X.tocsc(), X.copy(), sp.csr_array(X), sp.csc_array(X)):
        if hasattr(broken, part):
            setattr(broken, part, getattr(broken, part)[:, None])
            for reads in (
                lambda broken=broken: sm.train((broken, np.arange(6) % 2)),
                lambda broken=broken: sm.write_hdf5([(broken, np.arange(6) % 2)], tmp_path / "a.h5"),
                lambda broken=broken: sm.MarginClassifier().fit(broken, np.arange(6) % 2),
            ):
                with pytest.raises(DataError, match=words):
                    reads()


ROWS = np.arange(30, dtype=np.float32).reshape(10, 3)


ELSEWHERE = "has its values in other files; give these files themselves"


@pytest.mark.parametrize("name", ["X", "y", "sample_weight"])
@pytest.mark.parametrize("source", ["source.h5", "a.h5", ".", "ring.h5", "gone.h5", "empty.h5"])
def test_virtual_datasets_are_refused_before_hdf5_opens_them(tmp_path, source, name):
    """HDF5 dies of a dataset that is its own source, and puts zeros for values that are nowhere."""
    write_h5(tmp_path / "source.h5", ROWS, np.arange(10) % 2, sample_weight=np.ones(10))
    h5py.File(tmp_path / "empty.h5", "w").close()
    columns = {"X": ROWS, "y": np.arange(10) % 2, "sample_weight": np.ones(10)}
    for path, of in (("a.h5", source), ("ring.h5", "a.h5")):
        layout = h5py.VirtualLayout(columns[name].shape, columns[name].dtype)
        layout[:] = h5py.VirtualSource(of, name, layout.shape, dtype=layout.dtype)
        with h5py.File(tmp_path / path, "w") as file:
            file.create_virtual_dataset(name, layout)
            for other in columns.keys() - {name}:
                file[other] = columns[other]
    with pytest.raises(DataError, match=rf"a\.h5: {name} {ELSEWHERE}"):
        read_all(tmp_path / "a.h5")


@pytest.mark.parametrize("part", ["X", "y", "sample_weight"])
def test_a_link_to_another_file_is_refused_before_it_is_opened(tmp_path, part):
    os.mkfifo(tmp_path / "pipe")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, values in (("X", ROWS), ("y", np.arange(10) % 2), ("sample_weight", np.ones(10))):
            file[name] = h5py.ExternalLink("pipe", "/X") if name == part else values
    with pytest.raises(DataError, match=rf"a\.h5: {part} {ELSEWHERE}"):
        read_all(tmp_path / "a.h5")


def test_raw_values_in_another_file(tmp_path):
    (tmp_path / "raw").write_bytes(ROWS.tobytes())
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", ROWS.shape, ROWS.dtype, external=[(str(tmp_path / "raw"), 0, ROWS.nbytes)])
        file["y"] = np.arange(10) % 2
    with pytest.raises(DataError, match=rf"a\.h5: X {ELSEWHERE}"):
        read_all(tmp_path / "a.h5")


def test_every_file_that_is_read_is_known(tmp_path):
    write_h5(tmp_path / "labels.h5", ROWS, np.arange(10) % 2)
    np.save(tmp_path / "w.npy", np.ones(10))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["rows"] = ROWS
        file["X"] = h5py.SoftLink("/rows")
    write_h5(tmp_path / "tissues.h5", ROWS, np.arange(10) % 2)
    named = read_by(
        {"y": f"{tmp_path}/labels.h5:y", "sample_weight": f"{tmp_path}/w.npy", "mask": f"{tmp_path}/tissues.h5:y=1"}
    )
    found = files_read([str(tmp_path / "a.h5")], **named)
    assert {os.path.basename(path) for path in found} == {"a.h5", "labels.h5", "w.npy", "tissues.h5"}


def test_labels_cut_short_during_a_run_are_bad_data(tmp_path):
    path = write_h5(tmp_path / "a.h5", np.ones((100000, 2), np.float32))
    np.save(tmp_path / "y.npy", np.arange(100000) % 2)
    with open_source(path, y=str(tmp_path / "y.npy")) as source:
        labels = source.labels()
        next(labels)
        os.truncate(tmp_path / "y.npy", 1000)
        with pytest.raises(DataError, match="became shorter"):
            list(labels)
    with pytest.raises(DataError, match=r"y\.npy is truncated"):
        read_all(path, y=str(tmp_path / "y.npy"))


@pytest.mark.parametrize("how", ["overwritten", "replaced", "removed", "labels"])
def test_data_that_change_during_a_run(tmp_path, how, blobs):
    X, y = blobs
    path, labels = tmp_path / "a.h5", tmp_path / "y.npy"
    write_h5(path, np.repeat(np.tile(X, 10), 200, axis=0))
    np.save(labels, np.repeat(y, 200))
    passes = []

    def meddle(event):
        if event["event"] == "pass_end":
            passes.append(event["pass"])
        if passes == [1, 2]:
            passes.append(0)
            if how == "overwritten":
                with open(path, "r+b") as file:
                    file.seek(5000)
                    file.write(np.ones(1000, np.float32).tobytes())
            elif how == "replaced":
                shutil.copy(path, tmp_path / "b.h5")
                os.replace(tmp_path / "b.h5", path)
            elif how == "removed":
                os.unlink(path)
            else:
                os.truncate(labels, 2000)

    changed = r"y\.npy" if how == "labels" else r"a\.h5"
    with pytest.raises(DataError, match=rf"{changed} was changed during the run; start again"):
        sm.train(path, y=str(labels), memory="16M", tol=1e-12, passes=30, C=100.0, listeners=[meddle])
    assert passes[:3] == [1, 2, 0]


@pytest.mark.parametrize("part", ["y", "sample_weight"])
def test_columns_of_a_type_that_numpy_lacks(tmp_path, part):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"] = ROWS
        kind = h5py.h5t.STD_I32LE.copy()
        kind.set_size(3)
        kind.set_precision(24)
        if part != "y":
            file["y"] = np.arange(10) % 2
        h5py.h5d.create(file.id, part.encode(), kind, h5py.h5s.create_simple((10,)))
    with pytest.raises(DataError, match=f"{part} has a type that NumPy does not have"):
        read_all(tmp_path / "a.h5")


@pytest.mark.parametrize("codes", [np.arange(10) % 2 == 1, np.arange(10) % 2 + 0.5])
def test_codes_of_categories_are_whole_numbers(tmp_path, codes):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"], file["y/codes"], file["y/categories"] = ROWS, codes, ["a", "b"]
    with pytest.raises(DataError, match=r"its codes are .*, not whole numbers"):
        read_all(tmp_path / "a.h5")


NO_TEXT = {
    "bytes": np.array([b"\xff\xfe", b"a"]),
    "surrogate": np.array(["a\ud800", "b"]),
    "nul": np.array(["a\0b", "b"]),
    "nul in bytes": np.array([b"a\0b", b"b"]),
    "no code point": np.frombuffer(b"\xff\xff\xff\x7fa\0\0\0", "<U1"),
    "big-endian": np.frombuffer(b"\x7f\xff\xff\xff\0\0\0a", ">U1"),
}


@pytest.mark.parametrize("labels", NO_TEXT.values(), ids=NO_TEXT)
def test_labels_that_are_no_text(tmp_path, labels):
    path = write_h5(tmp_path / "a.h5", ROWS)
    np.save(tmp_path / "y.npy", np.tile(labels, 5))
    with pytest.raises(DataError, match=r"/y\.npy: the label of row 0 is not valid UTF-8"):
        sm.train(path, y=str(tmp_path / "y.npy"))


def test_an_archive_is_no_array_of_labels(tmp_path):
    path = write_h5(tmp_path / "a.h5", ROWS)
    np.savez(tmp_path / "y.npz", np.arange(10))
    os.rename(tmp_path / "y.npz", tmp_path / "y.npy")
    with pytest.raises(DataError, match=r"y\.npy is not an array of labels"):
        read_all(path, y=str(tmp_path / "y.npy"))


def test_rows_that_are_declared_and_not_stored(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", (2**40, 7), np.float32, chunks=(1000, 7))
        file["y"] = np.arange(10) % 2
    with pytest.raises(DataError, match="X declares 30786325577728 bytes and stores 0"):
        open_source(tmp_path / "a.h5")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_dataset("X", (2**40, 7), np.int8, chunks=(1 << 20, 7), compression="gzip")[:10] = 1
    with pytest.raises(DataError, match="declares"):
        open_source(tmp_path / "b.h5")


def test_labels_that_pass_the_budget_are_not_read(tmp_path, monkeypatch):
    rows = 20_000_000  # two bytes each, of text
    with h5py.File(tmp_path / "a.h5", "w") as file:
        X = file.create_dataset("X", (rows, 1), np.int8, chunks=(rows // 10, 1), compression="gzip")
        X[:] = np.zeros((rows, 1), np.int8)
        file["y"] = np.zeros(rows, "S1")
    assert os.path.getsize(tmp_path / "a.h5") < 1.1 * rows
    monkeypatch.setattr("streammargin.sources.hdf5.file.HDF5Source.labels", None)
    with pytest.raises(UsageError, match=r"budget of 32M is too small .* needs \d+M"):
        sm.train(str(tmp_path / "a.h5"), memory="32M")


@pytest.mark.parametrize("sparse", [False, True])
def test_blocks_are_not_far_smaller_than_compressed_chunks(tmp_path, sparse):
    X = np.random.default_rng(0).integers(1, 9, (20000, 50)).astype(np.float32)
    if sparse:
        path = write_csr(tmp_path / "a.h5", sp.csr_matrix(X))
        with h5py.File(path, "a") as file:
            for part in ("data", "indices"):
                values = file["X"][part][:]
                del file["X"][part]
                file["X"].create_dataset(part, data=values, chunks=values.shape, compression="gzip")
    else:
        path = write_dense(tmp_path / "a.h5", X, chunks=X.shape, compression="gzip")
    with open_source(path) as source:
        assert len(source.bounds(1 << 20)) <= 6  # each block unpacks all of the chunk
        with pytest.raises(UsageError, match="too small"):
            list(read_blocks(source, 14 << 20))


@pytest.mark.parametrize("block", [0, 512])
def test_hdf5_holds_nothing_of_small_chunks(tmp_path, block, monkeypatch):
    """It would take 6 KiB of each chunk that a read meets."""
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w", userblock_size=block) as file:
        file.create_dataset("X", data=np.ones((20000, 4), np.float32), chunks=(4, 1))
        file["y"] = np.arange(20000) % 2
    monkeypatch.setattr("h5py.Dataset.read_direct", None)
    with open_source(path) as source:
        assert source.held_bytes() >= 16 * 20000  # where each chunk lies
        assert sum(block.rows() for _, _, block in read_blocks(source, 32 << 20)) == 20000


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("first", [2001, 1000])
def test_a_chunk_that_lies_where_none_can_be(tmp_path, packed, first):
    """Between two places, or where another one is."""
    storage = {"compression": "gzip"} if packed else {}
    path = write_dense(tmp_path / "a.h5", np.ones((4096, 3), np.float32), chunks=(1000, 3), **storage)
    assert read_all(path) == [4096]
    raw = bytearray((tmp_path / "a.h5").read_bytes())
    key = (2000).to_bytes(8, "little") + bytes(8)  # the first row and column of the third chunk, in the index
    place = raw.index(key)
    raw[place : place + 8] = first.to_bytes(8, "little")
    (tmp_path / "a.h5").write_bytes(raw)
    with pytest.raises(DataError, match=r"a chunk of X has an impossible position|bad coordinate offset"):
        read_all(path)


def test_a_large_chunk_of_labels_counts(tmp_path, monkeypatch):
    rows = 5_000_000
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=np.zeros((rows, 1), np.int8), chunks=(rows // 50, 1), compression="gzip")
        file.create_dataset("y", data=np.arange(rows) % 2, chunks=(rows,), compression="gzip")
    with open_source(path) as source:
        # packed, unpacked, in order, and kept for the next piece
        assert 4 * 8 * rows <= source.column_bytes() <= 33 * rows
        counts = census(source.labels(), rows, coded=False)
        assert not len(counts[1]) and counts[2].tolist() == [rows // 2, rows // 2]
    monkeypatch.setattr("streammargin.sources.hdf5.file.HDF5Source.labels", None)
    with pytest.raises(UsageError, match=r"budget of 96M is too small .* needs \d+M"):
        sm.train(path, memory="96M")
    monkeypatch.setattr("streammargin.sources.hdf5.file.HDF5Source.sample_weight", None)
    with h5py.File(path, "a") as file:
        del file["y"]
        file["y"] = np.arange(rows) % 2
        file.create_dataset("sample_weight", data=np.ones(rows, np.int8), chunks=(rows,), compression="gzip")
    with pytest.raises(UsageError, match=r"budget of 15M is too small .* needs \d+M"):
        sm.train(path, memory="15M")


def test_two_chunks_in_one_place(tmp_path):
    path = write_dense(tmp_path / "a.h5", np.ones((4096, 3), np.float32), chunks=(1000, 3), compression="gzip")
    with h5py.File(path) as file:
        second, third = (file["X"].id.get_chunk_info(k).byte_offset.to_bytes(8, "little") for k in (1, 2))
    raw = (tmp_path / "a.h5").read_bytes()
    assert raw.count(third) == 1
    (tmp_path / "a.h5").write_bytes(raw.replace(third, second))
    with pytest.raises(DataError, match="a chunk of X has an impossible position"):
        read_all(path)
