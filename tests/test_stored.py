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
from streammargin.reading.prefetch import read_blocks
from streammargin.sources.open import open_source
from streammargin.verification.verify import verify

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


def test_values_in_other_files_are_refused_by_what_verifies_too(tmp_path, model):
    layout = h5py.VirtualLayout(X.shape, np.float64)
    layout[:] = h5py.VirtualSource("whole.h5", "X", X.shape, dtype=np.float64)
    raw = [(str(tmp_path / "raw"), 0, X.nbytes)]
    saved = model(False)
    for name in ("virtual", "raw"):
        path = tmp_path / f"{name}.h5"
        with h5py.File(path, "w") as file:
            if name == "virtual":
                file.create_virtual_dataset("X", layout)
            else:
                file.create_dataset("X", X.shape, X.dtype, external=raw)[:] = X
            file["y"], file["sample_weight"] = Y, WEIGHTS
        for reads in (lambda path=path: verify(saved, path), lambda path=path: read_all(path)):
            with pytest.raises(sm.DataError, match=rf"{name}\.h5: X has its values in other files"):
                reads()


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
        lambda: convert(path, str(tmp_path / "out.h5")),
        lambda: verify(saved, path),
        lambda: verify(saved, other, y=f"{path}:y"),
    ):
        with pytest.raises(sm.ReadWriteError, match=words):
            reads()
