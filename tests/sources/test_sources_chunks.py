"""Chunks of files: the same values as h5py reads, and none that the file does not hold."""

import contextlib
import itertools
import zlib

import h5py
import numpy as np
import pytest

import streammargin as sm
from streammargin.errors import DataError, UsageError
from streammargin.sources.hdf5.chunks import Chunks, _user_block_counts, checked, fletcher32
from streammargin.sources.hdf5.nodes import attribute
from streammargin.sources.hdf5.reader import RowReader
from streammargin.sources.open import open_source

X = np.random.default_rng(0).standard_normal((61, 7))


def packed(path, block=0, **storage):
    with h5py.File(path, "w", userblock_size=block) as file:
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


@pytest.mark.parametrize("storage", [{"compression": "lzf"}, {"compression": None}, {"chunks": None}])
def test_a_user_block_moves_all_of_it(tmp_path, storage, monkeypatch):
    storage = {"compression": None, **storage}
    with h5py.File(packed(tmp_path / "a.h5", block=1024, **storage), "a") as file:
        text = file.create_dataset("text", data=[f"text {k}" for k in range(61)], dtype=h5py.string_dtype())
        text.attrs["näme"] = "válue"
    with h5py.File(tmp_path / "a.h5") as file:
        reader = RowReader(file["X"], np.dtype(float), "a.h5")
        out = np.empty((61, 7))
        reader.read(0, 61, out)
        np.testing.assert_array_equal(out, X)
        assert reader.located and attribute(file["text"], "näme") == "válue"
        reader.close()
        if reader._chunks is not None:  # some releases of HDF5 leave the block out of the offsets of chunks
            there, counts = reader._chunks.places(), _user_block_counts()
            monkeypatch.setattr("streammargin.sources.hdf5.chunks._user_block_counts", lambda: not counts)
            moved = Chunks(file["X"], np.dtype(float), "X").places() - there
            np.testing.assert_array_equal(moved, np.full((len(there), 2), [1024 if counts else -1024, 0]))
    with open_source(tmp_path / "a.h5", y="text") as source:
        assert np.concatenate(list(source.labels(7))).tolist() == [f"text {k}" for k in range(61)]


def odd_types():
    bfloat16 = h5py.h5t.IEEE_F32LE.copy()
    bfloat16.set_fields(15, 7, 8, 0, 7)
    bfloat16.set_size(2)
    short = h5py.h5t.STD_I32LE.copy()
    short.set_precision(20)
    cut = h5py.h5t.C_S1.copy()  # NULL-terminated
    cut.set_size(5)
    spaces = cut.copy()
    spaces.set_strpad(h5py.h5t.STR_SPACEPAD)
    return {"bfloat16": bfloat16, "short": short, "long double": h5py.h5t.NATIVE_LDOUBLE, "cut": cut, "spaces": spaces}


@pytest.mark.parametrize("filters", [(), ("gzip",), ("lzf",)])
@pytest.mark.parametrize("kind", odd_types())
def test_types_that_numpy_lacks_are_unpacked_as_others_are(tmp_path, kind, filters):
    text = kind in ("cut", "spaces")
    values = np.tile([b"a", b"bcd", b""] if text else np.round(X[:9, 0] * 30), 99)[:297]
    n = len(values)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((100,))
        for name in filters:
            plist.set_deflate(4) if name == "gzip" else plist.set_filter(h5py.h5z.FILTER_LZF, h5py.h5z.FLAG_OPTIONAL)
        made = h5py.h5d.create(file.id, b"y", odd_types()[kind], h5py.h5s.create_simple((n,)), plist)
        h5py.Dataset(made)[:] = values
    out = np.empty(n, "S5" if text else values.dtype)
    with h5py.File(tmp_path / "a.h5") as file:
        reader = RowReader(file["y"], file["y"].dtype, "a.h5", keep=True)
        for start in range(0, n, 9):
            part = np.empty(9, reader.dtype)
            reader.read(start, start + 9, part)
            out[start : start + 9] = part
        reader.close()
    np.testing.assert_array_equal(out, values)
    if filters:
        with h5py.File(tmp_path / "a.h5", "a") as file:
            file["y"].id.write_direct_chunk((100,), file["y"].id.read_direct_chunk((0,))[1][:-4])
            reader = RowReader(file["y"], file["y"].dtype, "a.h5")
            with pytest.raises(DataError, match=r"cannot read rows 0\.\.297 of y .*decompresses to"):
                reader.read(0, n, np.empty(n, reader.dtype))
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
    with pytest.raises(DataError, match=r"of X .a compressed chunk decompresses to .*; the file may be damaged"):
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
    with pytest.raises(DataError, match=r"cannot read rows 0..61 of y .*decompresses to"):
        sm.train(tmp_path / "a.h5", passes=1)


@pytest.mark.parametrize("harm", [b"", b"\x78", b"no such stream", zlib.compress(bytes(384))[:-3]])
def test_a_chunk_that_is_no_stream_is_bad_data(tmp_path, harm):
    path = packed(tmp_path / "a.h5")
    with h5py.File(path, "a") as file:
        file["X"].id.write_direct_chunk((16, 3), harm or b"\0")
    with pytest.raises(DataError, match=r"of X .a compressed chunk decompresses to .*; the file may be damaged"):
        sm.train(path, passes=1)


PLUGINS = ("Blosc", "Blosc2", "Zstd")


def lengths(path, name, block=0):
    """A file whose chunk at (16, 3) holds other numbers of values than 48, as its filters pack them."""
    options = {"lzf": {"compression": "lzf"}, "shuffled lzf": {"compression": "lzf", "shuffle": True},
               "szip": {"compression": "szip"}, "checksum": {"compression": "gzip", "fletcher32": True}}  # fmt: skip
    if name in PLUGINS:
        options[name] = dict(getattr(pytest.importorskip("hdf5plugin"), name)())
    storage = {"compression": None, **options[name]}
    for rows in (4, 15, 17, 1000):
        with h5py.File(path.with_name("other.h5"), "w") as other:
            zeros = np.zeros((rows, 3))  # which every filter makes smaller
            other.create_dataset("X", data=zeros, chunks=zeros.shape, **{**storage, "shuffle": False})
            raw = other["X"].id.read_direct_chunk((0, 0))[1]
        with h5py.File(packed(path, block, **storage), "a") as file:
            file["X"].id.write_direct_chunk((16, 3), raw)
        yield path


@pytest.mark.parametrize("name", ["lzf", "shuffled lzf", "szip", "checksum", *PLUGINS])
@pytest.mark.parametrize("block", [0, 512])
def test_no_filter_may_unpack_a_chunk_to_another_length(tmp_path, name, block):
    """Nor in a file with a user block."""
    for path in lengths(tmp_path / "a.h5", name, block):
        with pytest.raises(DataError, match=r"cannot read rows .* of X .*a compressed chunk decompresses to"):
            sm.train(path, passes=1)


# places in a packed chunk that these plugins believe: Blosc dies of them
HARM = {
    "Blosc": [
        (4, b"\xff\xff\xff\x7f"),
        (4, bytes(4)),
        (8, bytes(4)),
        (8, b"\xff\xff\xff\x7f"),
        (12, b"\xff\xff\xff\x7f"),
    ],
    "Zstd": [(0, b"\0"), (4, b"\xff"), (5, b"\xff\xff")],
}


@pytest.mark.parametrize("name", HARM)
@pytest.mark.parametrize("more", [{}, {"fletcher32": True}])
def test_plugins_do_not_read_where_damage_leads(tmp_path, name, more):
    plugin = pytest.importorskip("hdf5plugin")
    values = np.round(np.random.default_rng(0).standard_normal((200, 7)) * 9)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", data=values, chunks=(200, 7), **getattr(plugin, name)(), **more)
    with h5py.File(tmp_path / "a.h5") as file:
        chunks, raw = Chunks(file["X"], values.dtype, "X"), file["X"].id.read_direct_chunk((0, 0))[1]
        assert chunks.faithful
        np.testing.assert_array_equal(chunks._unpacked(raw, 0), values)
        broken = [raw[:at] + what + raw[at + len(what) :] for at, what in HARM[name]]
        for one in (*broken, raw[: len(raw) // 2], raw[:10], raw[:1], b""):
            with pytest.raises(OSError, match="a compressed chunk decompresses to"):
                chunks._unpacked(one, 0)
        chunks.close()


ORDERS = [order for length in range(4) for order in itertools.permutations(["shuffle", "fletcher32", "packed"], length)]


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
@pytest.mark.parametrize("kind", ["f8", "i2", "u1"])
def test_checksums_stand_before_and_behind_what_packs(tmp_path, order, kind):
    values = np.round(np.random.default_rng(0).standard_normal((61, 7)) * 9).astype(kind)
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((21, 5))  # of an odd number of bytes, if a value is one
    for one in order:
        packs = h5py.h5z.FILTER_DEFLATE, 1, (4,)
        shuffles = (h5py.h5z.FILTER_SHUFFLE, 1, (values.itemsize,))
        plist.set_filter(*{"shuffle": shuffles, "fletcher32": (h5py.h5z.FILTER_FLETCHER32, 0), "packed": packs}[one])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        space, stored = h5py.h5s.create_simple(values.shape), h5py.h5t.py_create(values.dtype)
        h5py.h5d.create(file.id, b"X", stored, space, plist)
        file["X"][...] = values
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        with contextlib.closing(RowReader(file["X"], values.dtype, str(tmp_path / "a.h5"))) as reader:
            found = np.empty_like(values)
            reader.read(0, 61, found)
            np.testing.assert_array_equal(found, values)
        if "fletcher32" in order:
            raw = bytearray(file["X"].id.read_direct_chunk((21, 5))[1])
            raw[-7] ^= 1
            file["X"].id.write_direct_chunk((21, 5), bytes(raw))
            file.flush()
            reader = RowReader(file["X"], values.dtype, str(tmp_path / "a.h5"))
            with contextlib.closing(reader), pytest.raises(DataError, match="a compressed chunk decompresses to"):
                reader.read(0, 61, found)


@pytest.mark.parametrize("size", [1, 2, 3, 720, 2047, 2048, 2049, 300_001])
def test_checksums_are_those_of_hdf5(tmp_path, size):
    random = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    for values in (random, np.zeros(size, np.uint8), np.full(size, 255, np.uint8)):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            dataset = file.create_dataset("X", data=values, chunks=(size,), fletcher32=True)
            file.flush()
            raw = dataset.id.read_direct_chunk((0,))[1]
        assert fletcher32(values) == int.from_bytes(raw[-4:], "little")
        np.testing.assert_array_equal(checked(raw), values)
        old = raw[:-4] + bytes([raw[-3], raw[-4], raw[-1], raw[-2]])  # HDF5 1.6.2 on some machines
        np.testing.assert_array_equal(checked(old), values)


@pytest.mark.parametrize(
    "name, options", [("Zfp", {"reversible": True}), ("LZ4", {}), ("Bitshuffle", {"cname": "lz4"}), ("BZip2", {})]
)
def test_a_filter_that_cannot_be_looked_into_is_refused_by_name(tmp_path, name, options):
    """ZFP reads on where its chunk ends, LZ4 where the lengths of its blocks lead; BZip2 does not come back."""
    plugin = pytest.importorskip("hdf5plugin")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", data=np.tile(X, (2, 2)), chunks=(40, 7), **getattr(plugin, name)(**options))
        file["y"] = np.arange(122) % 2
    words = rf"(?i)of X .*; replace its compression, .*{name}.*: h5repack -f GZIP=4 IN OUT$"
    with pytest.raises(DataError, match=words):
        sm.train(tmp_path / "a.h5", passes=1)


def test_numbers_of_a_filter_that_are_not_those_of_its_chunks_are_bad_data(tmp_path):
    """SZIP would write past the end of its memory."""
    path = packed(tmp_path / "a.h5", compression="szip", chunks=(16, 7))
    with h5py.File(path) as file:
        values = file["X"].id.get_create_plist().get_filter(0)[2]
    raw = bytearray(path.read_bytes())
    place = raw.index(np.array(values, "<u4").tobytes())
    raw[place + 12 : place + 16] = (values[3] + 64).to_bytes(4, "little")
    path.write_bytes(raw)
    with pytest.raises(DataError, match="its filters do not fit its type and chunks"):
        sm.train(path, passes=1)


def test_chunks_are_counted_before_they_are_looked_up(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", (4_000_000, 1), "f4", chunks=(4, 1))[:4] = 1
        file["y"] = np.arange(4_000_000) % 2
    monkeypatch.setattr("streammargin.sources.hdf5.chunks.Chunks.places", None)
    with pytest.raises(UsageError, match=r"budget of 32M is too small .* needs \d+M"):
        sm.train(str(tmp_path / "a.h5"), memory="32M")


def test_a_chunk_that_says_to_be_huge_gets_no_memory(tmp_path):
    path = packed(tmp_path / "a.h5", chunks=(61, 7))
    with h5py.File(path) as file:
        place, size = file["X"].id.get_chunk_info(0).byte_offset, file["X"].id.get_chunk_info(0).size
    raw = bytearray(path.read_bytes())
    entry = raw.index(size.to_bytes(4, "little") + bytes(4))  # its key in the index: bytes, filters left out, offsets
    assert raw.index(place.to_bytes(8, "little"), entry) - entry == 32
    raw[entry : entry + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(raw)
    with pytest.raises(DataError, match="a chunk of X has an impossible position"):
        sm.train(path, passes=1)
