"""Files that are missing, of another kind, cut short or damaged: the right error, one sentence, a way out."""

import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
from source_checks import check_all, random_sparse, two_labels, write_csr, write_dense

import streammargin as sm
from streammargin.sources.open import open_source

X = np.random.default_rng(0).normal(size=(200, 30))


@pytest.mark.parametrize(
    "content, match",
    [
        (b"", r"is empty; make a data file with: streammargin-data convert"),
        (b"\x89HDF", r"not an HDF5 file"),
        (
            b"+1 1:0.5 7:2\n-1 3:1\n",
            r"not an HDF5 file, nor .* convert it with: streammargin-data convert .*bad\.h5 OUT\.h5",
        ),
        (b"PK\x03\x04" + bytes(100), r"not an HDF5 file"),
        (b"\x89HDF\r\n\x1a\n" + bytes(1000), r"bad\.h5 cannot be opened as HDF5 .*copy or convert it again"),
    ],
)
def test_other_kinds_of_file(tmp_path, content, match):
    (tmp_path / "bad.h5").write_bytes(content)
    with pytest.raises(sm.DataError, match=match) as caught:
        open_source(tmp_path / "bad.h5")
    assert caught.value.exit_code == 65


def test_files_that_are_not_there(tmp_path):
    for path, match in ((tmp_path / "gone.h5", r"gone\.h5: no such file"), (tmp_path, "is a directory; name the file")):
        with pytest.raises(sm.InputMissingError, match=match) as caught:
            open_source(path)
        assert caught.value.exit_code == 66


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_files_that_may_not_be_read(tmp_path):
    path = write_dense(tmp_path / "d.h5", X)
    os.chmod(path, 0)
    with pytest.raises(sm.InputMissingError, match="cannot be read"):
        open_source(path)


def test_files_without_rows(tmp_path):
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["features"] = X
    with pytest.raises(sm.DataError, match=r"has no dataset X of rows; it has features; name the rows with x=.NAME"):
        open_source(tmp_path / "d.h5")
    with pytest.raises(sm.DataError, match="has no dataset Z of rows"):
        open_source(tmp_path / "d.h5", x="Z")
    with h5py.File(tmp_path / "d.h5", "a") as file:
        file["layers/counts"] = X
    with pytest.raises(
        sm.DataError,
        match=r"has no dataset layers/count of rows; did you mean layers/counts\? it has layers/counts; name the rows",
    ):
        open_source(tmp_path / "d.h5", x="layers/count")
    with pytest.raises(sm.DataError, match=r"it has features, layers; name the rows with x=.layers/counts.$"):
        open_source(tmp_path / "d.h5")
    with h5py.File(tmp_path / "nothing.h5", "w"):
        pass
    with pytest.raises(sm.DataError, match="it has nothing"):
        open_source(tmp_path / "nothing.h5")
    with open_source(tmp_path / "d.h5", x="features") as source:
        assert source.rows == 200


STORAGE = [{}, {"chunks": True}, {"chunks": True, "compression": "gzip"}]


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("write", [write_dense, lambda path, X, **s: write_csr(path, random_sparse(200, 30), **s)])
def test_files_cut_at_any_place(tmp_path, write, storage):
    path = write(tmp_path / "d.h5", X, **storage)
    whole = (tmp_path / "d.h5").read_bytes()
    size = len(whole)
    for kept in (size - 1, size - 1000, size // 2, 2000, 600, 90, 9):
        (tmp_path / "d.h5").write_bytes(whole[:kept])
        with pytest.raises(sm.DataError, match=r"d\.h5 (is truncated|cannot be opened).*; copy or convert it again"):
            check_all(path)


@pytest.mark.parametrize("storage", [{}, {"chunks": (50, 30)}, {"chunks": (50, 30), "compression": "gzip"}])
def test_files_cut_while_they_are_read(tmp_path, storage):
    path = write_dense(tmp_path / "d.h5", X, **storage)
    with open_source(path) as source:
        buffer = source.allocate(np.array([0, 200]))
        os.truncate(path, 5000)
        with pytest.raises(sm.DataError, match=r"d\.h5 is truncated: X ends early|cannot read rows 0\.\.200 of X"):
            source.read(0, 200, buffer)


@pytest.mark.parametrize("damage", ["gzip", "checksum"])
def test_damaged_chunks(tmp_path, damage):
    storage = {"compression": "gzip"} if damage == "gzip" else {"fletcher32": True}
    path = write_dense(tmp_path / "d.h5", X, chunks=(50, 30), **storage)
    with h5py.File(path) as file:
        place = file["X"].id.get_chunk_info(2)
    with open(path, "r+b") as file:
        file.seek(place.byte_offset + place.size // 2)
        file.write(b"\xff" * 100)
    with open_source(path) as source:
        buffer = source.allocate(np.array([0, 100, 200]))
        source.read(0, 100, buffer)
        with pytest.raises(sm.DataError, match=r"cannot read rows 100\.\.200 of X .*; the file may be damaged$"):
            source.read(100, 200, buffer)


def test_compression_that_is_not_installed(tmp_path):
    with h5py.File(tmp_path / "d.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((200, 30))
        plist.set_filter(511, h5py.h5z.FLAG_OPTIONAL, ())  # a number kept for tests: nobody has it
        space = h5py.h5s.create_simple(X.shape)
        h5py.h5d.create(file.id, b"X", h5py.h5t.NATIVE_DOUBLE, space, plist).write_direct_chunk((0, 0), X.tobytes())
    with open_source(tmp_path / "d.h5") as source, pytest.raises(sm.DataError, match=r"511.* pip install hdf5plugin"):
        source.read(0, 200, source.allocate(np.array([0, 200])))


def test_files_that_are_being_written(tmp_path):
    path = write_dense(tmp_path / "d.h5", X)
    code = "import h5py, sys; file = h5py.File(sys.argv[1], 'r+'); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        with pytest.raises(sm.ReadWriteError, match="is being written by another program"):
            open_source(path)
        writer.communicate(b"\n")
    open_source(path).close()


def test_files_are_let_go(tmp_path):
    path = write_dense(tmp_path / "d.h5", X, y=two_labels(199))
    for _ in range(3):
        with pytest.raises(sm.DataError), open_source(path) as source:
            next(source.labels())
        with pytest.raises(sm.DataError):
            open_source(path, x="y")
    with open_source(path) as source:
        source.close()  # and closing twice is fine
    with h5py.File(path, "r+") as file:  # HDF5 refuses this while a reader has the file open
        file["y"][0] = 1


@pytest.mark.parametrize("data", [3, [], [1, 2], None, {"X": 1}])
def test_what_is_no_data(data):
    with pytest.raises(sm.UsageError, match="data must be a path, a list of paths"):
        open_source(data)
