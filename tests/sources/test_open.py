"""What a user may name as data: streams of batches, and files of other kinds."""

import numpy as np
import pytest
import scipy.sparse as sp

import streammargin as sm
from streammargin.errors import DataError, UsageError
from streammargin.sources.open import is_stream, open_source

X = np.random.default_rng(0).standard_normal((20, 3))
Y = np.where(X[:, 0] > 0.0, 1, -1)
BATCHES = [(X[:10], Y[:10]), (X[10:], Y[10:])]


class Loader:
    """Iterated over, but no iterator: what loaders of batches are."""

    def __iter__(self):
        return iter(BATCHES)


STREAMS = {
    "list": lambda: BATCHES,
    "list of lists": lambda: [list(batch) for batch in BATCHES],
    "one batch": lambda: BATCHES[:1],
    "sparse": lambda: [(sp.csr_matrix(rows), labels, np.ones(10)) for rows, labels in BATCHES],
    "loader": Loader,
    "generator": lambda: (batch for batch in BATCHES),
    "iterator": lambda: iter(BATCHES),
}


@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS)
def test_iterables_of_batches_are_streams(make):
    assert is_stream(make())
    expected = sm.train(iter(BATCHES), solver="perceptron").model.coef_
    found = sm.train(make(), solver="perceptron")
    if make is not STREAMS["one batch"]:
        assert np.array_equal(found.model.coef_, expected) and np.any(expected != 0.0)
    with pytest.raises(UsageError, match="a stream of batches can be read once"):
        open_source(make())


@pytest.mark.parametrize("data", [X, sp.csr_matrix(X), (X, Y), "a.h5", ["a.h5", "b.h5"], [], [1, 2], {"X": 1}, b"a", 3])
def test_what_is_no_stream(data):
    assert not is_stream(data)


@pytest.mark.parametrize(
    "data, words",
    [
        (tuple(BATCHES), "a tuple is the pair"),
        ([BATCHES[0], X], "item 1 of the list is not a batch"),
        ([X, Y], r"give \(X, y\) as a tuple"),
    ],
)
def test_what_could_be_either_is_an_error_that_says_what_to_give(data, words):
    with pytest.raises(UsageError, match=words):
        sm.train(data, solver="perceptron")


def test_batches_that_are_mappings_are_an_error_that_says_how_to_give_pairs(tmp_path):
    batches = [{"emb": part, "label": labels} for part, labels in BATCHES]
    with pytest.raises(
        UsageError, match=r"of emb, label; .* x='emb', y='label', or .* \(\(batch\['emb'\], batch\['label'\]\) for"
    ):
        sm.train(iter(batches), solver="perceptron")
    pairs = ((batch["emb"], batch["label"]) for batch in batches)
    found = sm.train(pairs, spool=str(tmp_path / "spool"), C=1.0)
    assert np.allclose(found.model.coef_, sm.train((X, Y), C=1.0).model.coef_, atol=1e-2)


@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist])
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_that_are_mappings_have_rows_and_labels_by_key(tmp_path, form, weighted):
    names = {"x": "emb", "y": "label", **({"sample_weight": "s"} if weighted else {})}
    batches = [
        {"s": form(np.arange(10.0)), "label": form(labels), "text": ["a"] * 10, "emb": form(part)}
        for part, labels in BATCHES
    ]
    pairs = [(part, labels, np.arange(10.0)) if weighted else (part, labels) for part, labels in BATCHES]
    for ways in ({"solver": "perceptron"}, {"spool": str(tmp_path / "spool")}):
        found, expected = sm.train(iter(batches), **names, **ways), sm.train(pairs, **ways)
        assert np.array_equal(found.model.coef_, expected.model.coef_) and np.any(expected.model.coef_ != 0.0)


@pytest.mark.parametrize(
    "batch, names, said",
    [
        ({"emb": X, "kind": Y}, {}, "batch 0 has no label; it has emb, kind; name two with x and y"),
        ({"emb": X, "label": Y}, {"sample_weight": "s"}, "batch 0 has no s; it has emb, label"),
        ((X, Y), {}, "batch 0 is a tuple, which has no keys"),
        ({"emb": list(X.T), "label": Y}, {}, r"emb is a list of 3 arrays, which may be .*with_format\('torch'\)"),
    ],
)
@pytest.mark.parametrize("spooled", [False, True])
def test_batches_without_the_keys_are_an_error_that_names_them(tmp_path, batch, names, said, spooled):
    ways = {"spool": str(tmp_path / "spool")} if spooled else {"solver": "perceptron"}
    with pytest.raises(UsageError, match=said):
        sm.train(iter([batch]), x="emb", y="label", **names, **ways)
    assert not list(tmp_path.glob("spool/*"))


KINDS = {
    b"PAR1\x15\x04\x15": "a Parquet file",
    b"%%MatrixMarket matrix coordinate real general\n": "a Matrix Market file",
    b"\x28\xb5\x2f\xfd\x04": "compressed by zstd",
    b"MATLAB 5.0 MAT-file, Platform: GLNXA64": "a MATLAB file",
    b"PK\x03\x04": "a zip archive",
    b"\x93NUMPY\x01": "an array of numpy.save",
    "1 1:2\n".encode("utf-16"): "UTF-16 text",
}


@pytest.mark.parametrize("start", KINDS, ids=KINDS.values())
def test_a_file_of_another_kind_is_named(tmp_path, start):
    (tmp_path / "a.h5").write_bytes(start + bytes(50))
    with pytest.raises(DataError, match=rf"a\.h5 is {KINDS[start]}, not an HDF5 file; \w+"):
        open_source(tmp_path / "a.h5")
