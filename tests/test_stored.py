"""Values that are stored nowhere are refused by all that reads, and by what verifies: HDF5 itself makes some up."""

import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5

import streammargin as sm
from streammargin.data_tools.convert import convert
from streammargin.driver.prefetch import read_blocks
from streammargin.sources.open import open_source
from streammargin.verification import verify

ROWS, COLUMNS = 60, 6
X = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).round(2)
Y = (X[:, 0] > 0.0).astype(np.int64)
WEIGHTS = np.arange(ROWS) % 3 + 1.0
S = sp.csr_matrix(X * (np.abs(X) > 0.7))


def create(group, name, shape, dtype, fill_time="ifset", **storage):
    """A new dataset; `create_dataset` of h5py 3.10 knows no fill_time."""
    like = group.create_dataset(name, shape, dtype, **storage).id
    plist = like.get_create_plist()
    plist.set_fill_time(getattr(h5py.h5d, f"FILL_TIME_{fill_time.upper()}"))
    del group[name]
    h5py.h5d.create(group.id, name.encode(), like.get_type(), like.get_space(), plist)
    return group[name]


def write(path, gap=None, until=40, sparse=False, group="csr", **storage):
    """Rows, labels and weights, of which the dataset `gap` was written up to entry `until` only."""
    matrix = {"csr": S, "csc": S.tocsc()}[group]
    parts = {f"X/{name}": getattr(matrix, name) for name in ("data", "indices", "indptr")} if sparse else {"X": X}
    with h5py.File(path, "w") as file:
        for name, values in {**parts, "y": Y, "sample_weight": WEIGHTS}.items():
            how = {"chunks": (8, *values.shape[1:][:1]), **storage} if name == gap else {}
            dataset = create(file, name, values.shape, values.dtype, **how)
            if name != gap:
                dataset[...] = values
            elif until:
                dataset[:until] = values[:until]
        if sparse:
            file["X"].attrs.update({"encoding-type": f"{group}_matrix", "shape": S.shape})
    return str(path)


def read_all(path):
    """Everything that a training reads."""
    with open_source(path) as source:
        list(source.labels())
        source.sample_weight()
        return [block.rows() for _, _, block in read_blocks(source, 1 << 30)]


@pytest.fixture
def model(tmp_path):
    """The path of a model of these rows: sparse ones, or dense ones."""

    def train(sparse, **options):
        data = write(tmp_path / "whole.h5", sparse=sparse)
        sm.train(data, **options).model.save(tmp_path / "model.npz")
        return str(tmp_path / "model.npz")

    return train


def row_of(entry):
    return int(np.searchsorted(S.indptr[1:], entry, side="right"))


GAPS = {  # dataset, entries that were written, storage, first row without values
    "rows": ("X", 40, {}, 40),
    "compressed rows": ("X", 40, {"compression": "gzip"}, 40),
    "columns": ("X", 40, {"chunks": (16, 4)}, 48),
    "no row": ("X", 0, {"chunks": None}, 0),
    "labels": ("y", 24, {"compression": "lzf"}, 24),
    "no label": ("y", 0, {"chunks": None}, 0),
    "weights": ("sample_weight", 8, {}, 8),
    "data": ("X/data", 64, {}, row_of(64)),
    "indices": ("X/indices", 80, {"compression": "gzip"}, row_of(80)),
    "ends of rows": ("X/indptr", 16, {}, 16),
}


@pytest.mark.parametrize("name", GAPS)
def test_rows_that_were_never_written_are_refused(tmp_path, model, name):
    part, until, storage, row = GAPS[name]
    sparse = "/" in part
    path = write(tmp_path / "gap.h5", part, until, sparse, fill_time="never", fillvalue=1, **storage)
    words = rf"gap\.h5: {part} has no values at row {row}: .*fill_time is never; write the file again"
    with pytest.raises(sm.DataError, match=words):
        read_all(path)
    with pytest.raises(sm.DataError, match=words):
        verify(model(sparse), path)
    assert read_all(write(tmp_path / "whole.h5", part, 1000, sparse, fill_time="never", **storage)) == [ROWS]


@pytest.mark.parametrize("fill_time", ["alloc", "ifset"])
@pytest.mark.parametrize("part", ["X", "y", "sample_weight"])
def test_other_rows_have_the_fill_value_as_h5py_has_it(tmp_path, part, fill_time):
    path = write(tmp_path / "a.h5", part, fill_time=fill_time, fillvalue=1)
    with h5py.File(path) as file:
        assert np.all(file[part][40:] == 1)
    trained = sm.train(path).model
    trained.save(tmp_path / "model.npz")
    assert all(check.agrees is not False for check in verify(tmp_path / "model.npz", path))
    with h5py.File(path) as file:
        values = [file[name][()] for name in ("X", "y", "sample_weight")]
    again = sm.train(write_h5(tmp_path / "b.h5", values[0], values[1], sample_weight=values[2])).model
    np.testing.assert_array_equal(trained.coef_, again.coef_)


def test_a_gap_before_rows_and_one_between_chunks(tmp_path):
    for hole in (0, 3):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            dataset = create(file, "X", (ROWS, COLUMNS), "f8", chunks=(8, 3), fill_time="never")
            for line in range(8):
                if line != hole:
                    dataset[line * 8 : line * 8 + 8] = X[line * 8 : line * 8 + 8]
            dataset[hole * 8 : hole * 8 + 8, 3:] = 1.0  # one of its two chunks
            file["y"] = Y
        with pytest.raises(sm.DataError, match=f"no values at row {8 * hole}:"):
            open_source(tmp_path / "a.h5")


def test_columns_of_a_matrix_that_were_never_written(tmp_path):
    path = write(tmp_path / "a.h5", "X/data", 64, True, "csc", fill_time="never")
    with pytest.raises(sm.DataError, match=r"X/data has no values at entry 64"):
        convert(path, str(tmp_path / "out.h5"))
    assert not os.path.exists(tmp_path / "out.h5")


def test_a_table_that_was_never_written(tmp_path):
    path = write_h5(tmp_path / "a.h5", X)
    with h5py.File(path, "a") as file:
        create(file, "obs", (ROWS,), np.dtype([("kind", "i4"), ("size", "f4")]), fill_time="never")
    with pytest.raises(sm.DataError, match="no values at row 0"):
        list(open_source(path, y="obs/kind").labels())


def virtual(path, sources, part="X", shape=X.shape, **columns):
    """A file whose X is virtual: equal pieces of the sources."""
    layout, rows = h5py.VirtualLayout(shape, np.float64), shape[0] // len(sources)
    for k, source in enumerate(sources):
        layout[k * rows : (k + 1) * rows] = h5py.VirtualSource(source, part, (rows, shape[1]), dtype=np.float64)
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("X", layout)
        for name, values in {"y": Y[: shape[0]], **columns}.items():
            file[name] = values
    return str(path)


def test_sources_of_virtual_rows_are_there_in_what_verifies_too(tmp_path, model):
    path, saved = virtual(tmp_path / "a.h5", ["source.h5"]), model(False)
    with h5py.File(path, "a") as file:
        file["sample_weight"] = WEIGHTS
    with pytest.raises(sm.DataError, match=r"X is virtual, and its source source\.h5 is missing; put it where it was"):
        verify(saved, path)
    write(tmp_path / "source.h5")
    assert all(check.agrees is not False for check in verify(saved, path))
    write(tmp_path / "source.h5", "X", 40, fill_time="never")
    for reads in (lambda: verify(saved, path), lambda: read_all(path)):
        with pytest.raises(sm.DataError, match=r"source\.h5: X has no values at row 40"):
            reads()
    h5py.File(tmp_path / "source.h5", "w").close()
    with pytest.raises(sm.DataError, match=r"source .*source\.h5 does not store X"):
        verify(saved, path)
    with pytest.raises(sm.DataError, match="does not store X"):  # HDF5 dies of a source that is its own
        verify(saved, virtual(tmp_path / "b.h5", ["b.h5"], sample_weight=WEIGHTS))
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout(X.shape, np.float64)
        layout[:30] = h5py.VirtualSource("whole.h5", "X", X.shape, dtype=np.float64)[:30]
        file.create_virtual_dataset("X", layout)
        file["y"], file["sample_weight"] = Y, WEIGHTS
    with pytest.raises(sm.DataError, match="fill 180 of its 360 values"):
        verify(saved, path)


def test_names_of_sources_with_percent_signs(tmp_path, model):
    """HDF5 stores % as %%, and only %b, with sources without end, means a number."""
    names = ["run 50%.h5", "%b.h5", "%%.h5"]
    for k, name in enumerate(names):
        write_h5(tmp_path / name, X[20 * k : 20 * k + 20])
        with h5py.File(tmp_path / name, "a") as file:
            file["100%"] = file["X"]
    stored = [name.replace("%", "%%") for name in names]
    for part in ("X", "100%%"):
        path = virtual(tmp_path / "a.h5", stored, part, sample_weight=WEIGHTS)
        assert read_all(path) == [ROWS]
        with open_source(path) as source:
            block = next(iter(read_blocks(source, 1 << 30)))[2]
            np.testing.assert_array_equal(block.X, X)
            assert [str(tmp_path / name) for name in names] == source.files()[1:]
        assert all(check.agrees is not False for check in verify(model(False), path))
        os.unlink(tmp_path / "model.npz")
    with pytest.raises(sm.DataError, match=r"its source gone%\.h5 is missing"):
        read_all(virtual(tmp_path / "a.h5", ["gone%%.h5"]))


def test_virtual_rows_that_grow(tmp_path):
    endless = (h5py.h5s.UNLIMITED, COLUMNS)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        space = h5py.h5s.create_simple((ROWS, COLUMNS), endless)
        space.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), (20, COLUMNS), (20, COLUMNS))
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_virtual(space, b"%b.h5", b"X", h5py.h5s.create_simple((20, COLUMNS)))
        whole = h5py.h5s.create_simple((ROWS, COLUMNS), endless)
        h5py.h5d.create(file.id, b"X", h5py.h5t.NATIVE_DOUBLE, whole, plist)
        file["y"] = Y
    with pytest.raises(sm.DataError, match="X is virtual, and grows with its sources; copy the rows into one dataset"):
        open_source(tmp_path / "a.h5")


CRASH = """
import h5py, os, sys
file = h5py.File(sys.argv[1], "a", libver="latest")
if sys.argv[2:]:
    file.swmr_mode = True
file.flush()
print(flush=True)
input()
os._exit(1)
"""


@pytest.mark.parametrize("swmr", [[], ["swmr"]])
def test_a_file_whose_writer_crashed_or_writes_on_another_machine(tmp_path, model, swmr):
    saved = model(False)
    path, other = write(tmp_path / "a.h5"), write(tmp_path / "b.h5")
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout(X.shape, np.float64)
        layout[:] = h5py.VirtualSource("a.h5", "X", X.shape, dtype=np.float64)
        file.create_virtual_dataset("X", layout)
    with h5py.File(path, "w", libver="latest") as file:
        file["X"], file["y"] = X, Y
    words = r"a\.h5 is open in a program that writes it, or that crashed; .* with: h5clear -s .*a\.h5"
    with subprocess.Popen([sys.executable, "-c", CRASH, path, *swmr], stdin=-1, stdout=-1) as writer:
        writer.stdout.readline()
        env = {**os.environ, "HDF5_USE_FILE_LOCKING": "FALSE"}  # no machine sees the locks of another
        done = subprocess.run([sys.executable, "-m", "streammargin", "info", path], env=env, capture_output=True)
        assert done.returncode == 74 and b"h5clear -s" in done.stderr
        writer.communicate(b"\n")
    for reads in (
        lambda: open_source(path),
        lambda: list(open_source(other, y=f"{path}:y").labels()),
        lambda: open_source(tmp_path / "virtual.h5"),
        lambda: convert(path, str(tmp_path / "out.h5")),
        lambda: verify(saved, path),
        lambda: verify(saved, other, y=f"{path}:y"),
    ):
        with pytest.raises(sm.ReadWriteError, match=words):
            reads()
