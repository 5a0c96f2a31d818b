"""Generated data keep their promises; shuffling and splitting lose, repeat and mix up nothing."""

import io
import os
import re
import sys

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from conftest import write_h5
from test_convert import stored

from streammargin import wording
from streammargin.cli import remarks
from streammargin.data_tools.generate import generate
from streammargin.data_tools.main import main
from streammargin.data_tools.shuffle import shuffle
from streammargin.data_tools.split import split
from streammargin.errors import OutputError, UsageError


@pytest.mark.parametrize("sparse", [False, True])
def test_the_seed_decides(tmp_path, sparse):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        generate(str(tmp_path / name), rows=500, features=60, sparse=sparse, nonzeros=7, seed=seed)
    (a, ya), (b, yb), (c, _) = (stored(tmp_path / name) for name in "abc")
    dense = [m.toarray() if sparse else m for m in (a, b, c)]
    assert np.array_equal(dense[0], dense[1]) and np.array_equal(ya, yb) and not np.array_equal(dense[0], dense[2])
    assert set(ya) == {-1, 1} and a.shape == (500, 60)
    if sparse:
        assert np.all(np.diff(a.indptr) == 7) and a.has_canonical_format
        assert np.allclose(sp.linalg.norm(a, axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_separable_data_have_the_margin_asked_for(tmp_path, sparse, dtype):
    generate(str(tmp_path / "a"), rows=400, features=30, sparse=sparse, nonzeros=6, separable=0.25, dtype=dtype, seed=3)
    X, y = stored(tmp_path / "a")
    w = np.random.default_rng([3, 0]).standard_normal(30)
    assert X.dtype == dtype
    assert (y * (X.astype(np.float64) @ (w / np.linalg.norm(w)))).min() >= 0.25 * (1 - 1e-7)


def test_overlapping_data_are_not_separable_and_classes_are_as_many_as_asked(tmp_path):
    generate(str(tmp_path / "a"), rows=3000, features=5, noise=0.2)
    X, y = stored(tmp_path / "a")
    w = np.random.default_rng([0, 0]).standard_normal(5)
    assert 0.07 < np.mean(y != np.sign(X @ w)) < 0.13  # half of the random labels are right by chance
    generate(str(tmp_path / "b"), rows=3000, features=5, classes=4)
    assert set(stored(tmp_path / "b")[1]) == {0, 1, 2, 3}


@pytest.mark.parametrize("sparse", [False, True])
def test_size_is_the_size_of_the_file(tmp_path, sparse):
    generate(str(tmp_path / "a"), size="20M", features=200, sparse=sparse)
    assert 0.99 < os.path.getsize(tmp_path / "a") / (20 << 20) < 1.45  # y is stored as int64; the last chunk is whole


@pytest.mark.parametrize(
    "wrong",
    [{"rows": 0}, {"rows": 5, "size": "1M"}, {"classes": 1}, {"noise": 2.0}, {"separable": -1.0}, {"features": 0}],
)
def test_generate_refuses_nonsense(tmp_path, wrong):
    with pytest.raises(UsageError):
        generate(str(tmp_path / "a"), **wrong)
    assert os.listdir(tmp_path) == []


def numbered(tmp_path, kind, rows=3000):
    """A file whose row i can be told by its values: i + 1 in one column, and by its label."""
    y = np.arange(rows) % 100
    dense = np.zeros((rows, 8), np.float32)
    dense[np.arange(rows), np.arange(rows) % 8] = np.arange(rows) + 1
    weight = np.arange(rows) / 7.0
    X = sp.csr_matrix(dense) if kind == "sparse" else dense
    if kind == "text":
        y = np.array([f"label {'x' * (i % 5)}{i % 100}" for i in range(rows)], h5py.string_dtype())
    return write_h5(tmp_path / "in.h5", X, y, sample_weight=weight)


def identities(path):
    """The numbers of the rows of a file made from `numbered`, checked against labels and weights."""
    X, y = stored(path)
    number = np.asarray(X.sum(axis=1)).ravel().astype(int) - 1
    with h5py.File(path) as file:
        assert np.allclose(file["sample_weight"][:], number / 7.0)
    told = [int(re.sub(r"\D", "", str(label))) for label in y.tolist()]
    assert np.array_equal(number % 100, told)
    return number


@pytest.mark.parametrize("kind", ["dense", "sparse", "text"])
@pytest.mark.parametrize("buckets", [1, 9])
def test_shuffle_is_a_permutation(tmp_path, monkeypatch, kind, buckets):
    import importlib

    module = importlib.import_module("streammargin.data_tools.shuffle")
    monkeypatch.setattr(module, "buckets_for", lambda *sizes: buckets)
    given = numbered(tmp_path, kind)
    orders = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        shuffle(given, str(tmp_path / name), seed=seed)
        orders.append(identities(tmp_path / name))
    assert np.array_equal(np.sort(orders[0]), np.arange(3000))
    assert np.array_equal(orders[0], orders[1]) and not np.array_equal(orders[0], orders[2])
    # a random order: places and numbers do not go together
    assert abs(np.corrcoef(orders[0], np.arange(3000))[0, 1]) < 0.1
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c", "in.h5"]


@pytest.mark.parametrize("kind", ["dense", "sparse", "text"])
def test_split_is_exact(tmp_path, kind):
    given = numbered(tmp_path, kind)
    assert split(given, str(tmp_path / "a"), str(tmp_path / "b"), test_size=0.2, seed=0) == (2400, 600)
    train, test = identities(tmp_path / "a"), identities(tmp_path / "b")
    assert len(test) == 600 and np.array_equal(np.sort(np.concatenate([train, test])), np.arange(3000))
    assert np.all(np.diff(train) > 0) and np.all(np.diff(test) > 0)
    split(given, str(tmp_path / "c"), str(tmp_path / "d"), test_size=0.2, seed=1)
    assert not np.array_equal(identities(tmp_path / "d"), test)
    # every tenth of the file gives its share, within chance
    share = np.histogram(test, 10, (0, 3000))[0] / 300
    assert share.min() > 0.08 and share.max() < 0.35


def test_split_without_labels_and_from_shards(tmp_path):
    one = write_h5(tmp_path / "1.h5", np.arange(20.0).reshape(10, 2))
    two = write_h5(tmp_path / "2.h5", np.arange(20.0, 40.0).reshape(10, 2))
    split([one, two], str(tmp_path / "a"), str(tmp_path / "b"), test_size=0.5)
    a, b = stored(tmp_path / "a"), stored(tmp_path / "b")
    assert a[1] is None and np.array_equal(np.sort(np.concatenate([a[0], b[0]]).ravel()), np.arange(40.0))


def test_split_refuses_an_empty_part_and_leaves_nothing(tmp_path, blobs_file):
    with pytest.raises(UsageError, match="between 0 and 1"):
        split(blobs_file, str(tmp_path / "a"), str(tmp_path / "b"), test_size=1.5)
    with pytest.raises(UsageError, match="leaves one file empty"):
        split(blobs_file, str(tmp_path / "a"), str(tmp_path / "b"), test_size=0.0001)
    (tmp_path / "b").touch()
    with pytest.raises(OutputError, match="exists"):
        split(blobs_file, str(tmp_path / "a"), str(tmp_path / "b"))
    assert sorted(os.listdir(tmp_path)) == ["b", "blobs.h5"]


def test_the_commands(tmp_path, here):
    for line, *arguments in (
        ["g.h5: 1000 rows, 300 columns\n", "generate", "g.h5", "--rows", "1000", "--sparse", "--features", "300"],
        ["", "shuffle", "g.h5", "s.h5", "--seed", "3", "-q"],
        ["a.h5: 750 rows, b.h5: 250 rows\n", "split", "s.h5", "a.h5", "b.h5", "--test-size", "0.25"],
    ):
        done = here(*arguments, main=main, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", line)
    assert stored(tmp_path / "a.h5")[0].shape == (750, 300) and stored(tmp_path / "b.h5")[0].shape == (250, 300)


def test_both_parts_need_a_file_of_their_own(tmp_path):
    path = write_h5(tmp_path / "in.h5", np.eye(4), [0, 1, 0, 1])
    with pytest.raises(UsageError, match="two files"):
        split(path, str(tmp_path / "a.h5"), str(tmp_path / "." / "a.h5"))
    with pytest.raises(UsageError, match="seed"):
        split(path, str(tmp_path / "a.h5"), str(tmp_path / "b.h5"), seed=-1)
    with pytest.raises(UsageError, match="seed"):
        shuffle(path, str(tmp_path / "a.h5"), seed=-1)
    assert os.listdir(tmp_path) == ["in.h5"]


def test_a_missing_label_file_is_not_the_outputs_fault(tmp_path, here):
    path = write_h5(tmp_path / "in.h5", np.eye(4))
    done = here("split", path, "a.h5", "b.h5", "--y", "none.npy", main=main, cwd=tmp_path)
    assert done.returncode == 66 and "none.npy" in done.stderr and "space" not in done.stderr


def test_large_compressed_chunks_are_split_and_shuffled(tmp_path):
    path, X = tmp_path / "in.h5", np.random.default_rng(0).random((700_000, 4)).astype(np.float32)
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, chunks=X.shape, compression="gzip", compression_opts=1)
        file["y"] = np.arange(len(X)) % 2
    split(str(path), str(tmp_path / "a.h5"), str(tmp_path / "b.h5"))
    shuffle(str(path), str(tmp_path / "c.h5"), memory="64M")
    assert len(stored(tmp_path / "c.h5")[0]) == len(X)


def test_a_terminal_shows_how_far_it_is(tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(remarks, "OFTEN", 0.0)
    path = str(tmp_path / "a.h5")
    for words, shown in (([], "\r\x1b[K10 of 10 rows written\r\x1b[K"), (["--force", "-q"], "")):
        monkeypatch.setattr(sys, "stderr", Terminal())
        assert main(["generate", path, "--rows", "10", *words]) == 0
        assert sys.stderr.getvalue() == shown + f"{path}: 10 rows, 100 columns\n" * (not words)
        assert not wording.watchers


def test_parts_of_a_layer_keep_its_name(tmp_path):
    """A model of counts that calls them X scores X of other files."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"], file["layers/counts"], file["y"] = np.zeros((10, 3)), np.eye(10, 3), np.arange(10) % 2
    shuffle(str(tmp_path / "a.h5"), str(tmp_path / "b.h5"), x="layers/counts")
    split(str(tmp_path / "a.h5"), str(tmp_path / "c.h5"), str(tmp_path / "d.h5"), x="layers/counts")
    for name in ("b.h5", "c.h5", "d.h5"):
        with h5py.File(tmp_path / name) as file:
            assert set(file) == {"layers", "y"} and file["layers/counts"].shape[1] == 3
