"""Real data sets beside scikit-learn's LinearSVC at the same C, in one table.

    python examples/real_data_table.py DATA_DIR [--work DIR] [--only a9a,imdb]

DATA_DIR holds a9a/, rcv1sub/, mnist/, imdb/, covtype20k/ as distributed (compressed text and idx files).
Everything is prepared by this project's own tools: convert, split (80/20, seed 0), shuffle, and the two
scripts make_mnist.py and make_ngrams.py. Seconds are those of training alone, data in memory on both sides;
ours end with a certified relative gap of 1e-3, certificates included. LinearSVC stops by its own rule
(tol 0.1); its column "above" is how far its objective lies above our certified lower bound. No
constant column on either side. The hard margin is LinearSVC at C = 1e6.
"""

import argparse
import math
import os
import tempfile
import time
import warnings

import h5py
import numpy as np
import scipy.sparse as sp
from make_mnist import make_mnist
from make_ngrams import make_ngrams
from sklearn.svm import LinearSVC

import streammargin as sm
from data_tools.convert import convert
from data_tools.shuffle import shuffle
from data_tools.split import split


def prepare(name, data, work):
    """(training file, test file) of one data set, made on first use."""
    train, test = os.path.join(work, f"{name}.h5"), os.path.join(work, f"{name}.t.h5")
    if os.path.exists(train) and os.path.exists(test):
        return train, test
    whole = os.path.join(work, f"{name}.all.h5")
    if name == "a9a":
        convert(os.path.join(data, "a9a", "a9a.bz2"), train, features=123, force=True)
        convert(os.path.join(data, "a9a", "a9a.t.bz2"), test, features=123, force=True)
        return train, test
    if name == "mnist":
        for part, output in (("train", train), ("t10k", test)):
            folder = os.path.join(data, "mnist", part)
            make_mnist(f"{folder}-images-idx3-ubyte.gz", f"{folder}-labels-idx1-ubyte.gz", output, force=True)
        return train, test
    if name == "imdb":
        sorted_by_label = os.path.join(work, "imdb.sorted.h5")
        make_ngrams(os.path.join(data, "imdb", "imdb_reviews_50k.tsv.bz2"), sorted_by_label, force=True)
        shuffle(sorted_by_label, whole, seed=0, force=True)
        os.unlink(sorted_by_label)
    else:
        source = {"rcv1sub": "rcv1sub.binary.bz2", "covtype20k": "covtype.20k.data.xz"}[name]
        convert(os.path.join(data, name, source), whole, force=True)
    split(whole, train, test, test_size=0.2, seed=0, force=True)
    return train, test


# name in the table, data set, options of sm.train
RUNS = [
    ("a9a", "a9a", {}),
    ("rcv1sub", "rcv1sub", {}),
    ("MNIST 0/1, hard margin", "mnist", {"classes": [0, 1], "C": math.inf, "solver": "auto"}),
    ("MNIST, ten digits, C=0.1", "mnist", {"C": 0.1}),
    ("IMDB 1-3-grams", "imdb", {}),
    ("covtype20k 2/rest, scaled", "covtype20k", {"positive": 2, "scale": "maxabs"}),
]


def load(path):
    """Rows and labels of a file as arrays in memory."""
    with h5py.File(path) as file:
        y, node = file["y"][:], file["X"]
        if isinstance(node, h5py.Dataset):
            return node[:], y
        return sp.csr_matrix((node["data"][:], node["indices"][:], node["indptr"][:]), tuple(node.attrs["shape"])), y


def restrict(X, y, options):
    """What --classes and --positive select."""
    if "classes" in options:
        kept = np.isin(y, options["classes"])
        X, y = X[kept], y[kept]
    return X, (y == options["positive"]).astype(int) if "positive" in options else y


def objective(X, y, coef, C):
    """Sum over the classes of 1/2 ||w||^2 + C sum of hinge losses, in float64."""
    classes = np.unique(y)
    positive = classes[1:] if len(classes) == 2 else classes
    margins = np.where(y[:, None] == positive, 1.0, -1.0) * np.asarray(X.astype(np.float64) @ coef.T)
    return 0.5 * np.sum(coef**2) + C * np.maximum(0.0, 1.0 - margins).sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--work", default=os.path.join(tempfile.gettempdir(), "streammargin-real-data"))
    parser.add_argument("--only", default="a9a,rcv1sub,mnist,imdb,covtype20k")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    for chosen in ({}, {"solver": "auto", "C": math.inf}):  # compiled before anything is timed
        sm.train((np.eye(2, dtype=np.float32), [0, 1]), **chosen)
    sm.train((sp.eye(2, format="csr", dtype=np.float32), [0, 1]))
    print(f"{'':<26} {'':>7} {'':>11} | {'streammargin':^37} | {'LinearSVC':^28}")
    print(f"{'data':<26} {'rows':>7} {'nonzeros':>11} | {'passes':>6} {'seconds':>8} {'gap':>9} {'held out':>9}"
          f" | {'seconds':>8} {'above':>9} {'held out':>9}")  # fmt: skip
    for title, name, chosen in RUNS:
        if name not in options.only.split(","):
            continue
        train, test = prepare(name, options.data, options.work)
        X, y = load(train)
        Xt, yt = restrict(*load(test), chosen)
        C = chosen.get("C", 1.0)
        result = sm.train((X, y), **chosen)
        found = result.certificate
        if "positive" in chosen:
            error = np.mean((result.model.decision_function(Xt) > 0) != yt)
        else:
            error = np.mean(result.model.predict(Xt) != yt)
        X, y = restrict(X, y, chosen)
        if chosen.get("scale") == "maxabs":
            largest = np.maximum(np.abs(X).max(axis=0), 1e-30)
            X, Xt = X / largest, Xt / largest
        bound = 0.5 / found["margin_upper"] ** 2 if math.isinf(C) else found["dual"]
        cost = 1e6 if math.isinf(C) else C
        svc = LinearSVC(loss="hinge", C=cost, tol=0.1, fit_intercept=False, max_iter=1000, random_state=0)
        X64 = X.astype(np.float64)
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it reports its own cap on iterations
            svc.fit(X64, y)
        seconds = time.perf_counter() - started
        above = objective(X64, y, svc.coef_, cost) / bound - 1.0
        gap = found["margin_gap"] if math.isinf(C) else found["gap"]
        nonzeros = X.nnz if sp.issparse(X) else int(np.count_nonzero(X))
        theirs = np.mean(svc.predict(Xt) != yt)
        print(f"{title:<26} {len(y):>7,} {nonzeros:>11,} | {result.passes:>6} {result.seconds:>8.2f} {gap:>9.1e} "
              f"{error:>9.4f} | {seconds:>8.2f} {above:>9.1e} {theirs:>9.4f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
