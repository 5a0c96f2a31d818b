"""Rows are compared with what they were when they were read first, however they are read."""

import os

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5
from reference.datasets import as_form, noisy

import streammargin as sm
from streammargin.compiled.row_hashes import row_hashes
from streammargin.reading.prefetch import BlockReader
from streammargin.sources.open import open_source
from streammargin.sources.views import WatchedSource

FORMS = ("dense", "csr")
MASK = 2**64 - 1
STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def mixed(z):
    z &= MASK
    z = (z ^ z >> 30) * FIRST & MASK
    z = (z ^ z >> 27) * SECOND & MASK
    return z ^ z >> 31


def of_row(places, values, row):
    """The hash of one row, in Python's integers."""
    words = zip(places, values.view(f"u{values.itemsize}").tolist(), strict=True)
    return mixed(sum(mixed(word + (int(place) + 1) * STEP) for place, word in words) + row * STEP)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS)
def test_the_sum_is_that_of_the_rows_one_by_one(form, dtype):
    n = 30
    rows = as_form(np.random.default_rng(1).standard_normal((n, 6)), form, dtype)
    block = open_source((rows, np.ones(n))).whole()
    if form == "dense":
        found = [of_row(range(rows.shape[1]), rows[i], 7 + i) for i in range(n)]
    else:
        found = [of_row(rows[i].indices, rows[i].data, 7 + i) for i in range(n)]
    for low, high in ((0, n), (3, 11), (5, 5)):
        assert row_hashes(block, low, high, 7) & MASK == sum(found[low:high]) & MASK


@pytest.mark.parametrize("form", FORMS)
def test_every_value_place_and_order_of_rows_counts(form):
    X = np.random.default_rng(0).standard_normal((20, 6))
    n, d = X.shape

    def of(rows):
        return row_hashes(open_source((as_form(rows, form), np.ones(n))).whole(), 0, n, 0)

    seen = {of(X)}
    for i in range(n):
        for j in range(d):
            for value in (np.nextafter(X[i, j], 9.0), -X[i, j], 0.5):
                other = X.copy()
                other[i, j] = value
                seen.add(of(other))
        other = X.copy()
        other[[i, (i + 1) % n]] = other[[(i + 1) % n, i]]
        seen.add(of(other))
        other = X.copy()
        other[i, [0, 1]] = other[i, [1, 0]]
        seen.add(of(other))
    assert len(seen) == 1 + n * (3 * d + 2)


def test_a_zero_that_is_stored_and_the_order_of_the_values_in_a_row():
    def of(values, columns):
        block = open_source((sp.csr_matrix((values, columns, [0, len(values)]), (1, 4)), np.ones(1))).whole()
        return row_hashes(block, 0, 1, 0)

    assert of([1.0, 2.0], [3, 1]) == of([2.0, 1.0], [1, 3])
    assert len({of([1.0], [1]), of([0.0, 1.0], [0, 1]), of([1.0, 0.0], [1, 3]), of([1.0], [2])}) == 4


@pytest.fixture
def watched(tmp_path):
    X, y = noisy(400)
    path = write_h5(tmp_path / "data.h5", X, y)
    with open_source(path) as source:
        yield WatchedSource(source), path, X


def read(source, bounds, order=None):
    order = np.arange(len(bounds) - 1) if order is None else np.array(order)
    for _ in BlockReader(source, np.array(bounds), 2).stream(order):
        pass


def alter(path, row):
    with h5py.File(path, "r") as file:
        place = file["X"].id.get_offset() + 8 * row * file["X"].shape[1]
    before = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(np.float64(0.125).tobytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # so that nothing else tells of it


def test_a_stretch_that_is_read_again_must_be_the_same_in_any_cut(watched):
    source, path, _ = watched
    source.cut(np.array([0, 100, 250, 400]))
    source.cut(np.array([0, 50, 250, 400]))  # another reader's blocks
    read(source, [0, 100, 250, 400], [2, 0])
    assert source.seen.tolist() == [True, True, False, True]
    read(source, [0, 50, 250, 400], [1])
    assert source.seen.all()
    alter(path, 70)
    read(source, [0, 50, 250, 400], [2, 0])
    with pytest.raises(sm.DataError, match=rf"{path}: some of the rows 50 to 99 changed since this training read"):
        read(source, [0, 50, 250, 400])


def test_what_another_process_knew_is_compared_in_its_own_cut(watched):
    source, path, _ = watched
    source.cut(np.array([0, 200, 400]))
    read(source, [0, 200, 400], [0])
    files, kept = list(source.files_then), source.arrays()
    with open_source(path) as same:
        again = WatchedSource(same)
        again.cut(np.array([0, 200, 400]))
        assert not again.restore(files, kept)  # the same file
        assert again.restore([[0] * 5], kept)
        read(again, [0, 200, 400])
        again.settle()
        finer = WatchedSource(same)
        finer.cut(np.array([0, 150, 400]))
        assert finer.restore(files, kept)
        read(finer, [0, 150, 400])
        finer.settle()
    for row, noticed in ((399, False), (199, True)):  # the second half had not been read
        alter(path, row)
        with open_source(path) as other:
            finer = WatchedSource(other)
            finer.cut(np.array([0, 150, 400]))
            assert finer.restore(files, kept)
            read(finer, [0, 150, 400])
            if not noticed:
                finer.settle()
                continue
            with pytest.raises(sm.DataError, match="some of the rows 0 to 199"):
                finer.settle()


@pytest.mark.parametrize("change", [
    {"ends": np.array([0, 200])}, {"ends": np.array([0, 200, 200, 400])}, {"ends": np.array([0.0, 400.0])},
    {"seen": np.ones(1, bool)}, {"sums": np.ones(1, np.int64)}, {"sums": np.ones(2)},
])  # fmt: skip
def test_what_no_source_keeps_is_refused(watched, change):
    source = watched[0]
    source.cut(np.array([0, 200, 400]))
    with pytest.raises(ValueError, match="its hashes"):
        source.restore([], source.arrays() | change)
