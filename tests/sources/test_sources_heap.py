"""Texts of variable length: the same as h5py reads, and damage on which HDF5 itself would hang."""

import h5py
import numpy as np
import pytest
from source_checks import all_labels, write_dense

import streammargin as sm
from streammargin.errors import DataError, OutputError
from streammargin.sources.hdf5.nodes import attribute
from streammargin.sources.open import open_source
from streammargin.tables.spool import KEY, is_kept

ROWS = 60
X = np.random.default_rng(0).standard_normal((ROWS, 3))
TEXTS = [f"class {i % 3}" + "é" * (i % 2) + "x" * (i % 5 * 900) for i in range(ROWS)]


def stored(path, texts=TEXTS, **storage):
    with h5py.File(write_dense(path, X), "a") as file:
        del file["y"]
        file.create_dataset("y", data=np.array(texts, dtype=object), dtype=h5py.string_dtype(), **storage)
    return str(path)


@pytest.mark.parametrize("compression", [None, "gzip", "lzf"])
@pytest.mark.parametrize("chunks", [None, (7,), (100,)])
@pytest.mark.parametrize("piece", [1, 8, 100])
def test_the_texts_are_those_of_h5py(tmp_path, chunks, compression, piece):
    storage = {"chunks": chunks, "maxshape": (None,), "compression": compression} if chunks else {}
    with open_source(stored(tmp_path / "a.h5", ["", *TEXTS[1:]], **storage)) as source:
        assert all_labels(source, piece).tolist() == ["", *TEXTS[1:]]


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("many", [1, 4, 6])
def test_attributes_are_those_of_h5py(tmp_path, libver, many):
    with h5py.File(tmp_path / "a.h5", "w", libver=libver) as file:
        group = file.create_group("group")
        for k in range(many):  # the later ones are in another block of the header
            group.attrs[f"näme {k}"] = f"válue {k}" * 30
            group.attrs[f"number {k}"] = np.arange(k + 1)
        file.flush()
        assert attribute(group, "none") is None
        for k in range(many):
            assert attribute(group, f"number {k}").tolist() == list(range(k + 1))
            if libver == "latest" and many == 6:  # more than eight are stored apart from the header
                with pytest.raises(ValueError, match="stored in a way that cannot be checked"):
                    attribute(group, f"näme {k}")
            else:
                assert attribute(group, f"näme {k}") == f"válue {k}" * 30


def heaps(raw):
    place = raw.find(b"GCOL")
    while place >= 0:
        yield place
        place = raw.find(b"GCOL", place + 1)


# where in a collection, and what is written there
HARM = {
    "mark": (0, b"GCOK"),
    "version": (4, b"\2"),
    "short collection": (8, (8).to_bytes(8, "little")),
    "endless collection": (8, (2**63).to_bytes(8, "little")),
    "a number twice": (16, b"\2\0"),
    "no number": (16, bytes(2)),
    "no object": (16, bytes(16)),
    "empty": (24, bytes(8)),
    "longer": (24, b"\x40"),
    "beyond": (24, b"\xf2\x08"),
    "before": (24, (2**64 - 48).to_bytes(8, "little")),
    "no UTF-8": (32, b"\xff"),
}


@pytest.mark.parametrize("harm", HARM)
def test_a_damaged_heap_is_bad_data(tmp_path, harm):
    """HDF5 loops over several of these, or reads beyond the heap."""
    place, content = HARM[harm]
    path = stored(tmp_path / "a.h5")
    raw = bytearray((tmp_path / "a.h5").read_bytes())
    first = next(heaps(raw))
    raw[first + place : first + place + len(content)] = content
    (tmp_path / "a.h5").write_bytes(raw)
    with pytest.raises(DataError, match=r"a\.h5: y: the text of row \d+ (cannot be read|is not valid UTF-8) \("):
        sm.train(path, passes=1)


@pytest.mark.parametrize("place, size", [(0, 4), (4, 8), (12, 4)])
def test_a_reference_into_nothing_is_bad_data(tmp_path, place, size):
    path = stored(tmp_path / "a.h5")
    with h5py.File(path) as file:
        start = file["y"].id.get_offset() + 16 * 7 + place
    raw = bytearray((tmp_path / "a.h5").read_bytes())
    raw[start : start + size] = (int.from_bytes(raw[start : start + size], "little") + 16).to_bytes(size, "little")
    (tmp_path / "a.h5").write_bytes(raw)
    with pytest.raises(DataError, match=r"the text of row 7 cannot be read"):
        sm.train(path, passes=1)


def test_a_damaged_heap_of_an_attribute_is_bad_data(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", (2, 2)
        group["data"], group["indices"], group["indptr"] = np.ones(2), [0, 1], [0, 1, 2]
        file["y"] = [0, 1]
    raw = bytearray((tmp_path / "a.h5").read_bytes())
    (heap,) = heaps(raw)
    raw[heap + 24 : heap + 26] = b"\xf2\x08"
    (tmp_path / "a.h5").write_bytes(raw)
    with pytest.raises(DataError, match=r"a\.h5 cannot be decoded \(a collection of strings is damaged\)"):
        open_source(str(tmp_path / "a.h5"))


@pytest.mark.parametrize("harm", ["before", "beyond", "no object", "empty"])
def test_a_spool_whose_key_is_damaged_is_another_file(tmp_path, harm):
    """HDF5 does not come back from the second of these."""
    place, content = HARM[harm]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs[KEY] = "the key"
    assert is_kept("the key", str(tmp_path / "a.h5")) and not is_kept("another", str(tmp_path / "a.h5"))
    raw = bytearray((tmp_path / "a.h5").read_bytes())
    (heap,) = heaps(raw)
    raw[heap + place : heap + place + len(content)] = content
    (tmp_path / "a.h5").write_bytes(raw)
    with pytest.raises(OutputError, match=r"a\.h5 exists, and was not written from a table"):
        is_kept("the key", str(tmp_path / "a.h5"))


@pytest.mark.parametrize("place, content", [(24, bytes(7) + b"\x80"), (33, b"\xff" * 8), (42, b"x"), (60, b"\xff" * 4)])
def test_a_damaged_list_of_sources_is_not_looked_at(tmp_path, place, content):
    """HDF5 dies of the second."""
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[:] = h5py.VirtualSource("source.h5", "X", X.shape, dtype=X.dtype)
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("X", layout)
        file["y"] = np.arange(ROWS) % 2
    raw = bytearray((tmp_path / "a.h5").read_bytes())
    (heap,) = heaps(raw)
    raw[heap + place : heap + place + len(content)] = content
    (tmp_path / "a.h5").write_bytes(raw)
    with pytest.raises(DataError, match=r"a\.h5: X has its values in other files"):
        open_source(str(tmp_path / "a.h5"))


def test_texts_of_which_it_is_not_known_where_they_lie_are_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"] = X
        file.create_dataset("y", (ROWS,), h5py.string_dtype())  # never written
    with pytest.raises(DataError, match="y has strings of variable length that cannot be checked"):
        sm.train(tmp_path / "a.h5", passes=1)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["X"] = X
        file.create_dataset("y", (ROWS,), h5py.string_dtype(), chunks=(50,))[:50] = TEXTS[:50]
    with pytest.raises(DataError, match="y was not written to its end"):
        sm.train(tmp_path / "b.h5", passes=1)
