"""Chunks of files: the same values as h5py reads, and none that the file does not hold."""

import zlib

import h5py
import numpy as np
import pytest

import streammargin as sm
from streammargin.data.hdf5_filters import Unpacker
from streammargin.data.hdf5_reader import RowReader
from streammargin.data.open import open_source
from streammargin.errors import DataError, UsageError

X = np.random.default_rng(0).standard_normal((61, 7))


def packed(path, **storage):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, **{"chunks": (16, 3), "compression": "gzip", **storage})
        file["y"] = np.arange(61) % 2
    return path


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", ["<f4", ">f4", "<f8", "<i2", ">i8"])
@pytest.mark.parametrize("chunks", [(16, 3), (16, 7), (61, 7), (1, 1), (61, 1)])
def test_the_values_are_those_of_h5py(tmp_path, chunks, kind, shuffle):
    with h5py.File(packed(tmp_path / "a.h5", chunks=chunks, shuffle=shuffle), "a") as file:
        values = (X * 100).astype(kind)
        dense = file.create_dataset("rows", data=values, chunks=chunks, compression="gzip", shuffle=shuffle)
        flat = file.create_dataset("flat", data=values[:, 0], chunks=chunks[:1], compression="gzip", shuffle=shuffle)
        for dataset in (dense, flat):
            reader = RowReader(dataset, np.dtype(kind), "a.h5")
            assert reader._chunks is not None
            for start, stop in ((0, 61), (15, 17), (60, 61), (3, 40)):
                out = np.empty((stop - start, *dataset.shape[1:]), kind)
                reader.read(start, stop, out)
                np.testing.assert_array_equal(out, dataset[start:stop])
            reader.close()


def test_filters_that_a_chunk_was_not_packed_by_are_left_out(tmp_path):
    with h5py.File(packed(tmp_path / "a.h5", shuffle=True), "a") as file:
        file["X"].id.write_direct_chunk((16, 0), X[16:32, :3].tobytes(), filter_mask=3)
        reader = RowReader(file["X"], np.dtype(float), "a.h5")
        out = np.empty((61, 7))
        reader.read(0, 61, out)
        np.testing.assert_array_equal(out, X)
        reader.close()


@pytest.mark.parametrize("size", [0, 1, 10, 383, 385, 5000])
def test_a_chunk_that_unpacks_to_another_length_is_bad_data(tmp_path, size):
    path = packed(tmp_path / "a.h5")
    with h5py.File(path, "a") as file:
        file["X"].id.write_direct_chunk((16, 3), zlib.compress(bytes(X)[: size % 3416] + bytes(max(0, size - 3416))))
    with pytest.raises(DataError, match=r"of X .a compressed chunk unpacks to .*; the file may be damaged"):
        sm.train(path, passes=1)


@pytest.mark.parametrize("compression", ["gzip", "lzf"])
def test_labels_of_another_length_are_bad_data_too(tmp_path, compression):
    labels = np.array([f"class {k % 2}" for k in range(61)], "S7")
    with h5py.File(packed(tmp_path / "a.h5"), "a") as file:
        del file["y"]
        file.create_dataset("y", data=labels, chunks=(61,), compression=compression)
    with open_source(tmp_path / "a.h5") as source:
        assert np.concatenate(list(source.labels(7))).tolist() == labels.astype(str).tolist()
    with h5py.File(tmp_path / "a.h5", "a") as file:
        other = file.create_dataset("other", data=labels[:60], chunks=(60,), compression=compression)
        file["y"].id.write_direct_chunk((0,), other.id.read_direct_chunk((0,))[1])
    with pytest.raises(DataError, match=r"cannot read rows 0..61 of y .*unpacks to"):
        sm.train(tmp_path / "a.h5", passes=1)


@pytest.mark.parametrize("harm", [b"", b"\x78", b"no such stream", zlib.compress(bytes(384))[:-3]])
def test_a_chunk_that_is_no_stream_is_bad_data(tmp_path, harm):
    path = packed(tmp_path / "a.h5")
    with h5py.File(path, "a") as file:
        file["X"].id.write_direct_chunk((16, 3), harm or b"\0")
    with pytest.raises(DataError, match=r"of X .a compressed chunk unpacks to .*; the file may be damaged"):
        sm.train(path, passes=1)


WHOLE = X[:16, :3].copy()


def lengths(path, name):
    """A file whose chunk at (16, 3) holds other numbers of values than 48, as its filters pack them."""
    options = {"lzf": {"compression": "lzf"}, "shuffled lzf": {"compression": "lzf", "shuffle": True},
               "szip": {"compression": "szip"}, "checksum": {"compression": "gzip", "fletcher32": True}}  # fmt: skip
    if name in ("Zstd", "LZ4"):
        options[name] = dict(getattr(pytest.importorskip("hdf5plugin"), name)())
    storage = {"compression": None, **options[name]}
    for rows in (4, 15, 17, 1000):
        with h5py.File(path.with_name("other.h5"), "w") as other:
            zeros = np.zeros((rows, 3))  # which every filter makes smaller
            other.create_dataset("X", data=zeros, chunks=zeros.shape, **{**storage, "shuffle": False})
            raw = other["X"].id.read_direct_chunk((0, 0))[1]
        with h5py.File(packed(path, **storage), "a") as file:
            file["X"].id.write_direct_chunk((16, 3), raw)
        yield path


@pytest.mark.parametrize("name", ["lzf", "shuffled lzf", "szip", "checksum", "Zstd", "LZ4"])
def test_no_filter_may_unpack_a_chunk_to_another_length(tmp_path, name):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"] = X
    for path in lengths(tmp_path / "a.h5", name):
        with pytest.raises(DataError, match=r"cannot read rows .* of X .*a compressed chunk unpacks to"):
            sm.train(path, passes=1)


def test_numbers_of_a_filter_that_are_not_those_of_its_chunks_are_bad_data(tmp_path):
    """SZIP would write past the end of its memory."""
    path = packed(tmp_path / "a.h5", compression="szip", chunks=(16, 7))
    with h5py.File(path) as file:
        values = file["X"].id.get_create_plist().get_filter(0)[2]
    raw = bytearray(path.read_bytes())
    place = raw.index(np.array(values, "<u4").tobytes())
    raw[place + 12 : place + 16] = (values[3] + 64).to_bytes(4, "little")
    path.write_bytes(raw)
    with pytest.raises(DataError, match="its filters are not those of its type and chunks"):
        sm.train(path, passes=1)


@pytest.mark.parametrize("rows", [16, 2500, 7])
def test_blocks_of_bitshuffle_lie_in_their_chunk(tmp_path, rows):
    """The plugin reads where the lengths of its blocks lead."""
    plugin = pytest.importorskip("hdf5plugin")
    values = np.round(np.random.default_rng(0).standard_normal((rows, 3)) * 9)
    options = dict(plugin.Bitshuffle(cname="lz4"))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("X", data=values, chunks=(rows, 3), **options)
        raw = bytearray(dataset.id.read_direct_chunk((0, 0))[1])
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        dataset = file["X"]
        unpack = Unpacker(dataset, dataset.dtype)
        np.testing.assert_array_equal(unpack(raw, 0), values)
        for place in (3, 7, 11, 12, 13):
            broken = bytearray(raw)
            broken[place] ^= 0x70
            with pytest.raises(OSError, match="unpacks to"):
                unpack(broken, 0)
        for broken in (raw[:-1], raw + b"\0", raw[:10], b""):
            with pytest.raises(OSError, match="unpacks to"):
                unpack(broken, 0)
        unpack.close()


def test_chunks_are_counted_before_they_are_looked_up(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", (4_000_000, 1), "f4", chunks=(4, 1))[:4] = 1
        file["y"] = np.arange(4_000_000) % 2
    monkeypatch.setattr("streammargin.data.hdf5_chunks.Chunks.places", None)
    with pytest.raises(UsageError, match=r"budget of 32M is too small .* needs \d+M"):
        sm.train(str(tmp_path / "a.h5"), memory="32M")


def test_what_was_never_written_reads_as_fill_values(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("X", (61, 7), "f8", chunks=(16, 3), compression="gzip", fillvalue=2.5)
        dataset[:16] = X[:16]
        reader = RowReader(dataset, np.dtype(float), "a.h5")
        out = np.empty((61, 7))
        reader.read(0, 61, out)
        np.testing.assert_array_equal(out, dataset[:])
        reader.close()


def test_a_chunk_that_says_to_be_huge_gets_no_memory(tmp_path):
    path = packed(tmp_path / "a.h5", chunks=(61, 7))
    with h5py.File(path) as file:
        place, size = file["X"].id.get_chunk_info(0).byte_offset, file["X"].id.get_chunk_info(0).size
    raw = bytearray(path.read_bytes())
    entry = raw.index(size.to_bytes(4, "little") + bytes(4))  # its key in the index: bytes, filters left out, offsets
    assert raw.index(place.to_bytes(8, "little"), entry) - entry == 32
    raw[entry : entry + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(raw)
    with pytest.raises(DataError, match="a chunk of X lies where none can be"):
        sm.train(path, passes=1)
