"""Several files as one data set, and fingerprints that follow the content of files."""

import os

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5
from source_checks import all_labels, assert_rows, random_sparse, two_labels, write_csr, write_dense

import streammargin as sm
from streammargin.errors import DataError
from streammargin.reading.labels import check_weights
from streammargin.reading.prefetch import read_blocks
from streammargin.sources.open import open_source
from streammargin.training.setup import make_target

SIZES = (11, 1, 20)
ENDS = np.cumsum(SIZES).tolist()
S = random_sparse(sum(SIZES), 9)
X = S.toarray()
Y = np.arange(sum(SIZES)) % 3


def parts(tmp_path, write, rows, labels=Y):
    """The rows in three files."""
    paths = []
    for number, (start, stop) in enumerate(zip([0, *ENDS], ENDS, strict=False)):
        paths.append(write(tmp_path / f"part-{number}.h5", rows[start:stop], labels[start:stop]))
    return paths


@pytest.mark.parametrize("write, rows", [(write_dense, X), (write_csr, S)])
@pytest.mark.parametrize("cuts", [ENDS, [3, 11, 12, 13, 31], [], [5], [11, 30], [12]])
def test_rows_are_numbered_through(tmp_path, write, rows, cuts):
    with open_source(parts(tmp_path, write, rows)) as source:
        assert (source.rows, source.nnz) == (32, rows.nnz if write is write_csr else rows.size)
        assert_rows(source, X, cuts)
        assert all_labels(source, 4).tolist() == Y.tolist()
        assert source.layout()["shards"] == 3


@pytest.mark.parametrize("write, rows", [(write_dense, X), (write_csr, S)])
def test_planned_blocks_stay_within_a_shard(tmp_path, write, rows):
    with open_source(parts(tmp_path, write, rows)) as source:
        for budget in (1, 300, 1000, 1 << 20):
            bounds = source.bounds(budget)
            assert set(ENDS) <= set(bounds.tolist()) and np.all(np.diff(bounds) > 0)
            assert_rows(source, X, bounds)
        assert sum(stop - start for start, stop, _ in read_blocks(source, 1 << 30)) == 32


@pytest.mark.parametrize("write, rows", [(write_dense, X), (write_csr, S)])
def test_training_is_that_of_one_file(tmp_path, write, rows):
    one = sm.train(write(tmp_path / "one.h5", rows, Y), passes=2)
    several = sm.train(parts(tmp_path, write, rows), passes=2)
    assert several.model.coef_.tolist() == one.model.coef_.tolist()
    assert sm.train(parts(tmp_path, write, rows)[:1], passes=1).model.header["rows"] == 11


def test_weights_of_some_shards(tmp_path):
    paths = parts(tmp_path, write_dense, X)
    with open_source(paths) as source:
        assert source.sample_weight() is None
    with h5py.File(paths[2], "r+") as file:
        file["sample_weight"] = np.arange(20)
    with open_source(paths) as source:
        assert source.sample_weight()[:].tolist() == [1.0] * 12 + list(range(20))


def test_shards_that_do_not_fit(tmp_path):
    first = write_dense(tmp_path / "first.h5", X)
    wide = write_dense(tmp_path / "wide.h5", np.hstack([X, X]))
    sparse = write_csr(tmp_path / "sparse.h5", S)
    single = write_dense(tmp_path / "single.h5", X.astype(np.float32))
    for other, match in (
        (wide, r"wide\.h5 has 18 columns but .*first\.h5 has 9; .* same --features"),
        (sparse, r"sparse\.h5 is sparse float64 but .*first\.h5 is dense float64; convert"),
        (single, r"single\.h5 is dense float32 but .*first\.h5 is dense float64"),
    ):
        with pytest.raises(sm.DataError, match=match):
            open_source([first, other])
        with h5py.File(first, "r+"), h5py.File(other, "r+"):  # nothing was left open
            pass
    with pytest.raises(sm.InputMissingError, match=r"gone\.h5: no such file"):
        open_source([first, tmp_path / "gone.h5"])
    for name in ("y", "sample_weight"):
        with pytest.raises(sm.UsageError, match=f"with several files, {name} must name a dataset inside each"):
            open_source([first, first], **{name: Y})


def test_one_column_for_several_shards_is_refused(tmp_path):
    """Even if its length is that of each, as it would be read again for the next one."""
    paths, one = parts(tmp_path, write_dense, X), tmp_path / "one.npy"
    np.save(one, Y)
    for column in (str(one), f"{paths[0]}:y"):
        for name in ("y", "sample_weight"):
            with pytest.raises(sm.UsageError, match=f"with several files, {name} must name a dataset inside each"):
                open_source([paths[0], paths[0]], **{name: column})
        with pytest.raises(sm.UsageError, match='loss="interpolate:NAME" must name a dataset inside each'):
            sm.train([paths[0], paths[0]], loss=f"interpolate:{column}", C=np.inf)


def test_labels_missing_in_one_shard(tmp_path):
    paths = parts(tmp_path, write_dense, X)
    with h5py.File(paths[1], "r+") as file:
        del file["y"]
    with open_source(paths) as source:
        assert not source.has_labels()
        with pytest.raises(sm.DataError, match=r"part-1\.h5 has no labels under the name y"):
            all_labels(source)


def fingerprint(data, **names):
    with open_source(data, **names) as source:
        return source.fingerprint()


def test_fingerprint_follows_files(tmp_path):
    paths = parts(tmp_path, write_dense, X)
    np.save(tmp_path / "y.npy", Y[:11])
    seen = {fingerprint(paths), fingerprint(paths[::-1]), fingerprint(paths[:2]), fingerprint(paths[0])}
    assert fingerprint(paths) in seen and fingerprint(paths[0]) in seen
    status = os.stat(paths[0])
    with h5py.File(paths[0], "r+") as file:
        file["X"][3, 3] += 1
    os.utime(paths[0], ns=(status.st_atime_ns, status.st_mtime_ns))
    seen |= {fingerprint(paths), fingerprint(paths[0])}
    os.utime(paths[0], ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))
    seen |= {fingerprint(paths), fingerprint(paths[0])}
    labels = {"y": f"{tmp_path}/y.npy"}
    seen.add(fingerprint(paths[0], **labels))
    np.save(tmp_path / "y.npy", two_labels(11))
    seen |= {fingerprint(paths[0], **labels), fingerprint(paths[0], y=Y[:11]), fingerprint(paths[0], y=1 - Y[:11])}
    seen.add(fingerprint(paths[0], y=f"{paths[0]}:y"))
    assert len(seen) == 13
    with pytest.raises(sm.DataError):
        fingerprint(write_csr(tmp_path / "wide.h5", sp.csr_matrix((2, 2**31))))


def shards_of(tmp_path, rows, kind="dense"):
    """Files with these numbers of rows, as one source, and all rows."""
    random = np.random.default_rng(3)
    parts = [random.standard_normal((n, 40)).astype(np.float32) for n in rows]
    if kind == "sparse":  # some shards have many rows of few values, others the reverse
        parts = [p * (random.random(p.shape) < 1.0 / (1 + 30 * (k % 2))) for k, p in enumerate(parts)]
    paths = [
        write_h5(tmp_path / f"{k}.h5", p if kind == "dense" else sp.csr_matrix(p), np.arange(len(p)) % 2)
        for k, p in enumerate(parts)
    ]
    return open_source(paths), np.vstack(parts)


def test_messages_name_the_shard_and_its_own_row(tmp_path):
    first = write_h5(tmp_path / "1.h5", np.ones((30, 2)), np.zeros(30))
    second = write_h5(tmp_path / "2.h5", np.where(np.arange(40).reshape(20, 2) == 11, np.nan, 1.0), np.ones(20))
    with open_source([first, second]) as source:
        assert source.place(29) == (first, 29) and source.place(30) == (second, 0) and source.place(49) == (second, 19)
        assert source.label_place(49) == source.place(49)
        with pytest.raises(DataError, match=r"2\.h5: row 5, column 1 is NaN"):
            list(read_blocks(source, 1 << 30))
    third = write_h5(tmp_path / "3.h5", np.ones((9, 2)), np.where(np.arange(9) == 4, np.nan, 1.0))
    with open_source([first, third]) as source, pytest.raises(DataError, match=r"3\.h5: the label of row 4 is NaN"):
        make_target(source)
    fourth = write_h5(tmp_path / "4.h5", np.ones((9, 2)), np.ones(9), sample_weight=np.where(np.arange(9) == 8, -1, 1))
    with (
        open_source([first, fourth]) as source,
        pytest.raises(DataError, match=r"4\.h5: the sample weight of row 8 is -1"),
    ):
        check_weights(source.sample_weight()[:], source.place)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_one_buffer_serves_all_shards_in_any_order(tmp_path, kind):
    source, X = shards_of(tmp_path, [90, 200, 60, 150], kind)
    with source:
        bounds = source.bounds(4000)
        counted = source.buffer_bytes(bounds)
        made = []
        for shard in source.sources:

            def allocate(own, real=shard.allocate):
                made.append(real(own))
                return made[-1]

            shard.allocate = allocate
        buffer = source.allocate(bounds)
        order = np.random.default_rng(4).permutation(len(bounds) - 1)
        for _ in range(3):
            for index in order:
                start, stop = int(bounds[index]), int(bounds[index + 1])
                block = source.read(start, stop, buffer)
                rows = block.X if kind == "dense" else sp.csr_matrix(
                    (block.data, block.indices, block.indptr), (stop - start, 40)
                ).toarray()  # fmt: skip
                assert np.array_equal(rows, X[start:stop])
                beside = 0 if kind == "dense" else 16 * (stop - start + 1)
                assert buffer.nbytes + beside <= counted
        assert len(bounds) > 20 and len(made) == len(source.sources)
