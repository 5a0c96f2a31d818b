"""Dense HDF5: every storage and type yields the rows that h5py yields."""

import h5py
import numpy as np
import pytest
from source_checks import assert_plans, assert_rows, check_all, two_labels, write_dense

import streammargin as sm
from streammargin.reading.plan import make_plan
from streammargin.sources.checks import check_block
from streammargin.sources.hdf5 import reader
from streammargin.sources.open import open_source

ROWS, COLUMNS = 23, 5
CUTS = [(), (1,), (4, 8, 12, 16, 20), (3, 4, 5, 19), range(ROWS)]
STORAGE = {
    "contiguous": ({}, "direct"),
    "chunks": ({"chunks": (4, COLUMNS)}, "direct"),
    "one chunk": ({"chunks": (ROWS, COLUMNS)}, "direct"),
    "narrow chunks": ({"chunks": (4, 2)}, "copied"),
    "gzip": ({"chunks": (4, COLUMNS), "compression": "gzip"}, "copied"),
    "lzf": ({"chunks": (4, COLUMNS), "compression": "lzf"}, "copied"),
    "shuffle and checksum": ({"chunks": (4, COLUMNS), "shuffle": True, "fletcher32": True}, "copied"),
}
DTYPES = ["<f4", "<f8", "<f2", ">f4", ">f8", "i1", "u1", "<i2", "<i4", ">i4", "<u8", "?"]


def numbers(dtype="<f8", rows=ROWS):
    return np.random.default_rng(1).integers(0, 2 if dtype == "?" else 120, (rows, COLUMNS)).astype(dtype)


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_blocks_are_slices(tmp_path, storage, dtype):
    X = numbers(dtype)
    options, road = STORAGE[storage]
    with open_source(write_dense(tmp_path / "d.h5", X, **options)) as source:
        assert source.layout()["read"] == (road if np.dtype(dtype).isnative else "copied")
        assert source.dtype == (
            np.float64 if X.dtype.itemsize >= 4 and dtype != "<f4" and dtype != ">f4" else np.float32
        )
        assert not source.sparse and source.nnz == X.size and source.whole() is None
        for cuts in CUTS:
            assert_rows(source, X, cuts)


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("dtype", ["<f2", "<i2", ">f4", "<i4"])
def test_values_of_other_types_are_converted_piece_by_piece(tmp_path, monkeypatch, storage, dtype):
    X = np.random.default_rng(1).integers(-999, 999, (ROWS, COLUMNS)).astype(dtype)
    with open_source(write_dense(tmp_path / "d.h5", X, **STORAGE[storage][0])) as source:
        for size in (1, 3 * X[0].nbytes, ROWS * X[0].nbytes):  # a row, some, and all
            monkeypatch.setattr(reader, "CONVERTED_BYTES", size)
            for cuts in CUTS:
                assert_rows(source, X, cuts)


@pytest.mark.parametrize("storage", [{}, {"chunks": (4096, COLUMNS)}])
def test_half_precision_takes_no_more_memory_than_float32(tmp_path, storage):
    rows, plans = np.zeros((400_000, COLUMNS), np.float16), []
    for dtype in ("<f4", "<f2"):
        with open_source(write_dense(tmp_path / f"{dtype[1:]}.h5", rows.astype(dtype), **storage)) as file:
            plans.append([make_plan(file, budget << 20, 0) for budget in (15, 17, 23)])
    for wide, half in zip(*plans, strict=True):
        assert half.resident == wide.resident and half.memory_bytes <= wide.memory_bytes
        np.testing.assert_array_equal(half.bounds, wide.bounds)
    assert [plan.resident for plan in plans[0]] == [False, False, True]


@pytest.mark.parametrize("name", ["Blosc", "Zstd"])
def test_plugin_compression(tmp_path, name):
    plugin = pytest.importorskip("hdf5plugin")
    X = numbers("<f4")
    path = write_dense(tmp_path / "d.h5", X, chunks=(4, COLUMNS), **getattr(plugin, name)())
    with open_source(path) as source:
        assert source.layout()["read"] == "copied"
        for cuts in CUTS:
            assert_rows(source, X, cuts)


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("dtype", ["<f4", "<i2"])
def test_plans_keep_to_the_budget(tmp_path, storage, dtype):
    with open_source(write_dense(tmp_path / "d.h5", numbers(dtype, 400), **STORAGE[storage][0])) as source:
        assert_plans(source, least=source.buffer_bytes(np.array([0, 1, 400])[:2]) + 1000)


def test_bounds_follow_the_chunks(tmp_path):
    with open_source(write_dense(tmp_path / "d.h5", numbers(rows=100), chunks=(8, COLUMNS))) as source:
        assert not np.any(source.bounds(21 * COLUMNS * 8)[:-1] % 8)


@pytest.mark.parametrize("storage", [{"chunks": (4, 3)}, {"chunks": (4, 2), "compression": "gzip"}])
def test_chunks_and_rows_never_written_are_fill_values(tmp_path, storage):
    with h5py.File(tmp_path / "d.h5", "w") as file:
        late = file.create_dataset("late", (20, 3), "f4", fillvalue=7, **storage)
        late[4:8] = 1
        file.create_dataset("never", (20, 3), "f4", fillvalue=2)
    expected = np.full((20, 3), 7.0)
    expected[4:8] = 1
    with open_source(tmp_path / "d.h5", x="late") as source:
        assert_rows(source, expected, (3, 9))
    with open_source(tmp_path / "d.h5", x="never") as source:
        assert_rows(source, np.full((20, 3), 2.0), (3, 9))


def test_resized_and_partly_filled_last_chunk(tmp_path):
    X = numbers()
    with h5py.File(tmp_path / "d.h5", "w") as file:
        grown = file.create_dataset("X", (3, COLUMNS), X.dtype, chunks=(4, COLUMNS), maxshape=(None, COLUMNS))
        for stop in (10, ROWS):
            start = 0 if stop == 10 else 10
            grown.resize(stop, axis=0)
            grown[start:stop] = X[start:stop]
    with open_source(tmp_path / "d.h5") as source:
        assert source.layout()["read"] == "direct"
        assert_rows(source, X, (2, 11, 21))


def test_compact_and_user_block(tmp_path):
    X = numbers()
    y = two_labels(ROWS)
    with h5py.File(tmp_path / "compact.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple(X.shape)
        h5py.Dataset(h5py.h5d.create(file.id, b"X", h5py.h5t.NATIVE_DOUBLE, space, plist))[:] = X
    with h5py.File(tmp_path / "block.h5", "w", userblock_size=512) as file:
        file["X"], file["y"] = X, y
    for name in ("compact", "block"):
        with open_source(tmp_path / f"{name}.h5") as source:
            assert_rows(source, X, (5, 6))


def test_types_that_numpy_lacks(tmp_path):
    X = numbers("<f4")
    bfloat16 = h5py.h5t.IEEE_F32LE.copy()
    bfloat16.set_fields(15, 7, 8, 0, 7)
    bfloat16.set_size(2)
    three_bytes = h5py.h5t.STD_I32LE.copy()
    three_bytes.set_precision(24)
    three_bytes.set_size(3)
    with h5py.File(tmp_path / "d.h5", "w") as file:
        space = h5py.h5s.create_simple(X.shape)
        h5py.Dataset(h5py.h5d.create(file.id, b"X", bfloat16, space))[:] = X
        h5py.h5d.create(file.id, b"odd", three_bytes, space)
    with open_source(tmp_path / "d.h5") as source:
        assert_rows(source, X, (5, 6))
    with pytest.raises(sm.DataError, match="odd has a type that NumPy does not have"):
        open_source(tmp_path / "d.h5", x="odd")


@pytest.mark.parametrize("bad, what", [(np.nan, "NaN"), (np.inf, "an infinite value"), (-np.inf, "an infinite value")])
@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
def test_values_that_are_not_finite_are_named_by_global_row(tmp_path, bad, what, dtype):
    X = numbers(dtype)
    X[17, 3] = bad
    with open_source(write_dense(tmp_path / "d.h5", X)) as source:
        block = source.read(10, ROWS, source.allocate(np.array([0, 10, ROWS])))
        with pytest.raises(sm.DataError, match=rf"d\.h5: row 17, column 3 is {what}; drop the row"):
            check_block(source, block, 10)


@pytest.mark.parametrize(
    "X, match",
    [
        (np.zeros(7), r"X has the shape \(7,\); rows must be a 2-dimensional"),
        (np.zeros((2, 2, 2)), "rows must be a 2-dimensional"),
        (np.zeros((0, 3)), "has 0 rows and 3 columns"),
        (np.zeros((3, 0)), "has 3 rows and 0 columns"),
        (np.zeros((3, 2), complex), "X holds values of type complex128; rows must be real numbers"),
        (np.full((3, 2), b"a"), r"X holds values of type \|S1"),
        (h5py.Empty("f8"), "X has the shape None"),
        (np.float64(3.0), r"X has the shape \(\)"),
    ],
)
def test_datasets_that_are_no_rows(tmp_path, X, match):
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["X"] = X
    with pytest.raises(sm.DataError, match=match):
        check_all(tmp_path / "d.h5")


def test_chunks_wider_than_the_rows(tmp_path):
    path, rows = tmp_path / "wide.h5", np.arange(250.0).reshape(50, 5)
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=rows, maxshape=(None, None), chunks=(16, 8))
        file["y"] = two_labels(50)
    with open_source(path) as source:
        block = source.read(3, 40, source.allocate(np.array([0, 50])))
        np.testing.assert_array_equal(block.X, rows[3:40])
