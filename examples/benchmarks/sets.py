"""The data sets of the benchmarks, written once as HDF5 files by the project's own commands.

Real sets are read from a folder as distributed (a9a/, rcv1sub/, mnist/, imdb/, covtype20k/, mushrooms/, htru2/,
splice_donor/). The others are generated from a seed. Real sets without a test file, except splice_donor, are split
80/20 with seed 0. Columns are scaled beforehand if the set's name says so, for all sides alike.
"""

from __future__ import annotations

import bz2
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import h5py
import numpy as np
import scipy.io
import scipy.sparse as sp

from examples.paper_data import balanced, interactions, splice_sites
from streammargin.data_tools.convert import convert
from streammargin.data_tools.generate import generate
from streammargin.data_tools.shuffle import shuffle
from streammargin.data_tools.split import split
from streammargin.sources.batch import Batch
from streammargin.sources.hdf5.write import writing

WORK = os.path.join(tempfile.gettempdir(), "streammargin-benchmarks")
EXAMPLES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Set(NamedTuple):
    """make(data, whole, rows) writes the file `whole` (or `whole` and test file) from the folder `data`.

    `source`    name of the folder to read, "" for a generated set.
    `classes`   labels to keep. The last of two is the positive one.
    `positive`  this label against the rest.
    `scale`     none, maxabs or std, of the training rows.
    `test`      whether `make` writes a test file itself, next to `whole` with the ending .t.h5. Generated sets have
                none.
    """

    title: str
    make: Callable[[str, str, int | None], Any]
    source: str = ""
    classes: tuple[int, ...] = ()
    positive: int | None = None
    scale: str = "none"
    test: bool = False


def test_file(path: str) -> str:
    """The file of held-out rows beside a training file."""
    return path.removesuffix(".h5") + ".t.h5"


def _script(name: str, *arguments: str) -> None:
    subprocess.run([sys.executable, os.path.join(EXAMPLES, name), *arguments], check=True)


def _a9a(data: str, path: str, rows: int | None) -> None:
    convert(os.path.join(data, "a9a", "a9a.bz2"), path, features=123, force=True)
    convert(os.path.join(data, "a9a", "a9a.t.bz2"), test_file(path), features=123, force=True)


def _mnist(data: str, path: str, rows: int | None) -> None:
    for part, output in (("train", path), ("t10k", test_file(path))):
        stem = os.path.join(data, "mnist", part)
        _script("make_mnist.py", f"{stem}-images-idx3-ubyte.gz", f"{stem}-labels-idx1-ubyte.gz", output, "--force")


def _imdb(data: str, path: str, rows: int | None) -> None:
    by_label = f"{path}.sorted.h5"
    _script("make_ngrams.py", os.path.join(data, "imdb", "imdb_reviews_50k.tsv.bz2"), by_label, "--force")
    shuffle(by_label, path, seed=0, force=True)
    os.unlink(by_label)


def _text(name: str, **options: Any) -> Callable[[str, str, int | None], Any]:
    return lambda data, path, rows: convert(os.path.join(data, name), path, force=True, **options)


def _topics(data: str, path: str, rows: int | None) -> None:
    """rcv1sub with the first of the four broad topics of each row."""
    convert(os.path.join(data, "rcv1sub", "rcv1sub.binary.bz2"), path, force=True)
    with bz2.open(os.path.join(data, "rcv1sub", "rcv1sub.binary.topics.tsv.bz2"), "rt") as file:
        found = [line.split()[2].split(",") for line in file]
    with h5py.File(path, "r+") as file:
        file["y"][:] = [next(k for k, topic in enumerate(TOPICS) if topic in topics) for topics in found]


def _mushrooms(data: str, path: str, rows: int | None) -> None:
    found = scipy.io.loadmat(os.path.join(data, "mushrooms", "mushroom.mat"))
    X, y = sp.csr_matrix(found["X"], dtype=np.float32), np.ravel(found["y"]).astype(int)
    X = X if X.shape[0] == len(y) else X.T.tocsr()
    X.sort_indices()
    with writing(path, True, np.float32, sparse=True, features=X.shape[1]) as writer:
        writer.append(Batch(None, X.data, X.indices, X.indptr.astype(np.int64), y, None))


def _htru2(data: str, path: str, rows: int | None) -> None:
    with lzma.open(os.path.join(data, "htru2", "HTRU_2.csv.xz")) as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    with writing(path, True, np.float32, sparse=False, features=table.shape[1] - 1) as writer:
        writer.append(Batch(table[:, :-1].astype(np.float32), None, None, None, table[:, -1].astype(int), None))


def _splice_donor(data: str, path: str, rows: int | None) -> None:
    letters, y, _ = splice_sites(os.path.join(data, "splice_donor"))
    kept = balanced(y)[:rows]
    X, _ = interactions(letters[kept])
    with writing(path, True, np.float32, sparse=True, features=X.shape[1]) as writer:
        writer.append(Batch(None, X.data, X.indices, X.indptr.astype(np.int64), y[kept], None))


def generated(rows: int, **options: Any) -> Callable[[str, str, int | None], Any]:
    """`make` of a set of generated rows."""
    return lambda data, path, fewer: generate(path, rows=min(rows, fewer or rows), force=True, **options)


def _apart(data: str, path: str, fewer: int | None, rows: int = 12_000, features: int = 784) -> None:
    """Dense rows whose variances fall like those of images, two classes apart: about 60 support vectors."""
    random = np.random.default_rng(0)
    deviation = np.arange(1, features + 1) ** -0.5
    y = np.where(random.random(rows) < 0.5, 1, -1)
    apart = random.standard_normal(features) * deviation
    X = random.standard_normal((rows, features)) * deviation + 2.5 * y[:, None] * (apart / np.linalg.norm(apart))
    with writing(path, True, np.float32, sparse=False, features=features) as writer:
        writer.append(Batch(X[:fewer].astype(np.float32), None, None, None, y[:fewer], None))


def _noise(data: str, path: str, fewer: int | None, rows: int = 2_000, features: int = 500) -> None:
    """Normal numbers with labels that they do not tell."""
    random = np.random.default_rng(5)
    X, y = random.standard_normal((rows, features)).astype(np.float32), np.where(random.random(rows) < 0.5, 1, -1)
    with writing(path, True, np.float32, sparse=False, features=features) as writer:
        writer.append(Batch(X[:fewer], None, None, None, y[:fewer], None))


def _smooth(data: str, path: str, fewer: int | None, rows: int = 7_291, features: int = 256) -> None:
    """Rows whose next columns are alike, as pixels are: random walks; the sign of a noisy score."""
    random = np.random.default_rng(6)
    X = np.cumsum(random.standard_normal((rows, features)), axis=1) / np.sqrt(features)
    scores = X @ random.standard_normal(features)
    y = np.where(scores + 0.5 * scores.std() * random.standard_normal(rows) > 0.0, 1, -1)
    with writing(path, True, np.float32, sparse=False, features=features) as writer:
        writer.append(Batch(X[:fewer].astype(np.float32), None, None, None, y[:fewer], None))


TOPICS = "CCAT", "ECAT", "GCAT", "MCAT"
TEXT = {"features": 47_000, "sparse": True, "nonzeros": 75, "noise": 0.1, "seed": 1}
SETS = {
    "a9a": Set("a9a", _a9a, "a9a/a9a.bz2", test=True),
    "covtype20k": Set("covtype, 20,000 rows, 2 against the rest, maxabs",
                      _text("covtype20k/covtype.20k.data.xz", y="-1"),
                      "covtype20k/covtype.20k.data.xz", positive=2, scale="maxabs"),
    "htru2": Set("HTRU2, std", _htru2, "htru2/HTRU_2.csv.xz", scale="std"),
    "mushrooms": Set("mushrooms", _mushrooms, "mushrooms/mushroom.mat"),
    "rcv1sub": Set("rcv1 subset", _text("rcv1sub/rcv1sub.binary.bz2"), "rcv1sub/rcv1sub.binary.bz2"),
    "rcv1topics": Set("rcv1 subset, four topics", _topics, "rcv1sub/rcv1sub.binary.topics.tsv.bz2",
                      classes=tuple(range(4))),
    "mnist01": Set("MNIST 0/1", _mnist, "mnist", classes=(0, 1), test=True),
    "mnist35": Set("MNIST 3/5", _mnist, "mnist", classes=(3, 5), test=True),
    "A": Set("A: text-like, 20,000 x 47,000", generated(20_000, **TEXT)),
    "D": Set("D: dense and separable, 12,000 x 784", _apart),
    "C": Set("C: dense and overlapping, 300,000 x 100", generated(300_000, features=100, noise=0.1, seed=3)),
    "E": Set("E: noise, 2,000 x 500", _noise),
    "F": Set("F: dense, columns alike, 7,291 x 256", _smooth),
    "imdb": Set("IMDB 1-3-grams", _imdb, "imdb/imdb_reviews_50k.tsv.bz2"),
    "B": Set("B: text-like, 400,000 x 200,000",
             generated(400_000, **{**TEXT, "features": 200_000, "nonzeros": 80, "seed": 2})),
    "splice_donor": Set("splice donor sites, balanced, words at up to three positions", _splice_donor,
                        "splice_donor/donor_train.tsv.xz", test=True),
    "mnist10": Set("MNIST, ten digits", _mnist, "mnist", classes=tuple(range(10)), test=True),
}  # fmt: skip


def make(name: str, data: str, work: str, rows: int | None = None, table: Mapping[str, Set] = SETS) -> str:
    """The training file of a set of the table, made in the folder `work` on first use. rows: at most this many.

    Raises FileNotFoundError if the folder `data` does not hold what the set is made of.
    """
    chosen = table[name]
    path = os.path.join(work, f"{name}.h5" if rows is None else f"{name}-{rows}.h5")
    if os.path.exists(path):
        return path
    if chosen.source and not os.path.exists(os.path.join(data, chosen.source)):
        raise FileNotFoundError(f"{name} is made of {chosen.source}, which {data} does not hold")
    os.makedirs(work, exist_ok=True)
    part = os.path.join(work, f"{name}.part.h5")
    chosen.make(data, part, rows)
    if chosen.source and not chosen.test:
        whole = f"{part}.whole.h5"
        shutil.move(part, whole)
        split(whole, part, test_file(part), test_size=0.2, seed=0, force=True)
        os.unlink(whole)
    if os.path.exists(test_file(part)):
        os.replace(test_file(part), test_file(path))
    os.replace(part, path)  # last: a file of this name is a set that is whole
    return path


def read(path: str) -> tuple[Any, np.ndarray]:
    """Rows, an array (n, d) or a CSR matrix, and labels (n,) of an HDF5 file."""
    with h5py.File(path) as file:
        y, node = file["y"][:], file["X"]
        if isinstance(node, h5py.Dataset):
            return node[:], y
        return sp.csr_matrix((node["data"][:], node["indices"][:], node["indptr"][:]), tuple(node.attrs["shape"])), y


def load(name: str, path: str, rows: int | None = None) -> tuple[Any, np.ndarray, Any, np.ndarray | None]:
    """(X, y, X_test, y_test) of a set: labels -1 and 1, or 0 .. classes - 1; no test rows: None."""
    chosen = SETS[name]

    def selected(file: str) -> tuple[Any, np.ndarray]:
        X, y = read(file)
        if chosen.classes:
            kept = np.isin(y, chosen.classes)
            X, y = X[kept], y[kept]
        return X[:rows], y[:rows]

    X, y = selected(path)
    held_out = os.path.exists(test_file(path))
    X_test, y_test = selected(test_file(path)) if held_out else (None, None)
    if chosen.scale != "none":
        center, factor = _scaling(X, chosen.scale)
        X = scaled(X, center, factor)
        X_test = scaled(X_test, center, factor) if held_out else None
    known = np.unique(y)

    def numbered(labels: np.ndarray) -> np.ndarray:
        if chosen.positive is not None:
            return np.where(labels == chosen.positive, 1, -1)
        return np.where(labels == known[-1], 1, -1) if len(known) == 2 else np.searchsorted(known, labels)

    return X, numbered(y), X_test, None if y_test is None else numbered(y_test)


def _scaling(X: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    if kind == "maxabs":
        center, spread = np.zeros(X.shape[1]), np.abs(X).max(axis=0)
    else:
        center, spread = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    return center, 1.0 / np.where(spread > 0.0, spread, 1.0)


def scaled(X: np.ndarray, center: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """(x - center) * factor, dense, in float32."""
    return ((X - center) * factor).astype(np.float32)
