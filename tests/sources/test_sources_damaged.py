"""Files that are damaged, or say odd things of themselves: one sentence, or the right values."""

import os
import random

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5

import streammargin as sm
from streammargin.errors import DataError, InputMissingError, StreamMarginError
from streammargin.reading.labels import check_weights
from streammargin.reading.prefetch import read_blocks
from streammargin.sources.hdf5.file import encoding_of
from streammargin.sources.labels import census
from streammargin.sources.open import open_source

X = np.random.default_rng(0).standard_normal((50, 20)).astype(np.float32)
Y = np.arange(50) % 2


def read_all(path, **names):
    """Everything that training reads, as copies: rows, classes, codes, weights."""
    with open_source(str(path), **names) as source:
        classes, codes, _ = census(source.labels(), source.rows, source.name, source.place)
        weights = source.sample_weight()
        weights = None if weights is None else check_weights(weights[:], source.place)
        source.fingerprint(), source.layout()
        rows = [(block.X if hasattr(block, "X") else block.data).copy() for _, _, block in read_blocks(source, 1 << 30)]
        return rows, classes, codes, weights


@pytest.mark.parametrize("part", ["X", "y", "sample_weight"])
@pytest.mark.parametrize(
    "link, words",
    [
        (h5py.SoftLink("/gone"), "is a link to /gone, which cannot be followed"),
        (h5py.SoftLink("/loop"), "is a link to /loop"),
        (h5py.ExternalLink("gone.h5", "/there"), "has its values in other files; give these files themselves"),
    ],
)
def test_links_that_lead_nowhere(tmp_path, part, link, words):
    columns = {"X": X, "y": Y, "sample_weight": np.ones(50), "loop": h5py.SoftLink("/loop"), part: link}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, value in columns.items():
            file[name] = value
    with pytest.raises(DataError, match=rf"a\.h5: {part} {words}"):
        read_all(tmp_path / "a.h5")


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_random_damage_is_an_error_of_ours_or_harmless(tmp_path, kind):
    rows = X if kind == "dense" else sp.random(50, 20, 0.3, "csr", np.float32, random_state=np.random.default_rng(1))
    write_h5(tmp_path / "a.h5", rows, Y, sample_weight=np.ones(50))
    whole = (tmp_path / "a.h5").read_bytes()
    chance, refused = random.Random(5), 0
    for _ in range(150):
        raw = bytearray(whole)
        for _ in range(3):
            raw[chance.randrange(8, min(len(raw), 4000))] = chance.randrange(256)
        (tmp_path / "b.h5").write_bytes(raw)
        try:
            with np.errstate(all="ignore"):
                read_all(tmp_path / "b.h5")
        except StreamMarginError as error:
            refused += 1
            assert "\n" not in str(error) and "b.h5" in str(error)
    assert refused > 20


@pytest.mark.parametrize(
    "shape", [(np.nan, 20.0), (50.0, -20.0), (50.0, 20.5), (np.inf, 20.0), (50.0, 1e30), (True, False), (50j, 20j)]
)
def test_shapes_that_are_none(tmp_path, shape):
    write_h5(tmp_path / "a.h5", sp.csr_matrix(X), Y)
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["X"].attrs["shape"] = shape
    with pytest.raises(DataError, match="two whole numbers"):
        open_source(str(tmp_path / "a.h5"))


def test_a_whole_shape_of_real_numbers_will_do(tmp_path):
    write_h5(tmp_path / "a.h5", sp.csr_matrix(X), Y)
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["X"].attrs["shape"] = (50.0, 20.0)
    with open_source(str(tmp_path / "a.h5")) as source:
        assert (source.rows, source.features) == (50, 20)


def test_long_doubles_and_enumerations_are_numbers(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"] = X.astype(np.longdouble)
        file.create_dataset("y", data=Y.astype("i1"), dtype=h5py.enum_dtype({"no": 0, "yes": 1}, basetype="i1"))
    rows, classes, codes, _ = read_all(tmp_path / "a.h5")
    assert np.array_equal(np.vstack(rows), X.astype(np.float64))
    assert classes.tolist() == [0, 1] and np.array_equal(codes, Y)


def test_infinite_labels_are_none(tmp_path):
    write_h5(tmp_path / "a.h5", X, np.where(np.arange(50) == 7, -np.inf, Y))
    with pytest.raises(DataError, match=r"a\.h5: the label of row 7 is infinite"):
        read_all(tmp_path / "a.h5")


def test_complex_weights_are_none(tmp_path):
    write_h5(tmp_path / "a.h5", X, Y, sample_weight=np.ones(50) + 1j)
    with pytest.raises(DataError, match="not numbers"):
        read_all(tmp_path / "a.h5")
    with pytest.raises(DataError, match="not numbers"):
        open_source((X, Y), sample_weight=np.ones(50) + 1j)


@pytest.mark.parametrize("what", ["rows", "labels", "model"])
def test_pipes_and_devices_are_refused_at_once(tmp_path, what):
    os.mkfifo(tmp_path / "pipe")
    write_h5(tmp_path / "a.h5", X, Y)
    use = {
        "rows": lambda path: read_all(path),
        "labels": lambda path: read_all(tmp_path / "a.h5", y=f"{path}:y"),
        "model": sm.load_model,
    }[what]
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(InputMissingError, match="a device, a pipe or a socket"):
            use(path)


def test_a_dangling_link_in_the_file_system_is_named(tmp_path):
    (tmp_path / "a.h5").symlink_to(tmp_path / "gone.h5")
    with pytest.raises(InputMissingError, match=r"a\.h5: no such file \(a link to .*gone\.h5\)"):
        read_all(tmp_path / "a.h5")
    (tmp_path / "b.h5").symlink_to(tmp_path / "b.h5")
    with pytest.raises(InputMissingError, match=r"b\.h5 cannot be read"):
        read_all(tmp_path / "b.h5")


def test_encodings(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, value in (("encoding-type", "csc_matrix"), ("encoding-type", b"csc"), ("encoding-type", "dict")):
            group = file.require_group(f"{name} {value!r}")
            group.attrs[name] = value
        file.flush()
        assert [encoding_of(file[name]) for name in sorted(file)] == ["csc", "dict", "csc"]
        assert encoding_of(file.create_group("plain")) == "csr"
