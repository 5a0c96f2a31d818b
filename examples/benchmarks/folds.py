"""CPU seconds of choosing C by folds: 5 folds and all rows x 10 values of C, beside scikit-learn's search.

OMP_NUM_THREADS=1 python -m examples.benchmarks.folds [dense|csr|kernel|large] [--rows N]

csr     rows like text, 20,000 x 10,000, without scikit-learn
kernel  rbf on 2,000 x 20, 5 values of C, beside SVC
large   1,000,000 x 50 in a file, within 96M, without scikit-learn
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.svm import SVC

import streammargin as sm
from examples.benchmarks.disk import bytes_read, row_bytes
from examples.benchmarks.worker import timed

ROWS, COLUMNS, FOLDS = 20_000, 50, 5
CS = np.logspace(-4.0, 0.5, 10)
LARGE, MEMORY = 1_000_000, "96M"  # rows of a file, and what they are trained within
CURVED, GAMMA = 2_000, 0.05  # rows with a curved boundary, and gamma of rbf
WORDS, LENGTH = 10_000, 60  # columns, and values of a row, of rows like text


def batches(rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of two classes, a quarter of them on the wrong side, at most ROWS at a time."""
    random, weights = np.random.default_rng(0), None
    for low in range(0, rows, ROWS):
        X = random.standard_normal((min(ROWS, rows - low), COLUMNS))
        weights = random.standard_normal(COLUMNS) if weights is None else weights
        yield X, (X @ weights + 5.0 * random.standard_normal(len(X)) > 0.0).astype(int)


def text() -> tuple[sp.csr_matrix, np.ndarray]:
    """Sparse rows (n, d) of norm 1 with common and rare columns, of two classes that overlap."""
    random = np.random.default_rng(0)
    columns = np.minimum(3.0 * random.pareto(0.6, ROWS * LENGTH), WORDS - 1).astype(np.int32)
    X = sp.csr_matrix((np.ones(columns.size, np.float32), columns, np.arange(0, columns.size + 1, LENGTH)))
    X.sum_duplicates()
    X.data = np.log1p(X.data) / np.log1p(np.bincount(X.indices))[X.indices]  # common columns count less
    X.data /= np.repeat(np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1])), np.diff(X.indptr))
    scores = X @ random.standard_normal(X.shape[1])
    return X, (scores + 0.5 * random.standard_normal(ROWS) * scores.std() > 0.0).astype(int)


def curved() -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) of two classes with a curved boundary and noise."""
    random = np.random.default_rng(0)
    X = random.standard_normal((CURVED, 20))
    scores = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.7 * random.standard_normal(CURVED)
    return X, (scores > 0.0).astype(int)


def from_file(rows: int) -> None:
    """Print a line for each training on rows in a file: CPU seconds, passes, reads of all rows, and the worst gap."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.h5")
        sm.write_hdf5(batches(rows), path)
        with sm.open_source(path) as source:
            size = row_bytes(source)
        for loss in ("logistic", "hinge"):
            options = {"loss": loss, "C": CS.tolist(), "cv": FOLDS, "memory": MEMORY}
            sm.train(path, **options, tol=0.9)  # kernels are compiled
            before = bytes_read()
            took, result = timed(lambda options=options: sm.train(path, **options))
            reads = (bytes_read() - before) / size
            print(
                f"{told(loss, took, result)}  passes {result.passes}  reads {reads:.1f}  "
                f"compiling {result.run_end['compile_seconds']:.1f} s", flush=True,
            )  # fmt: skip


def told(loss: str, took: float, result: sm.TrainResult) -> str:
    """The line of a training by folds."""
    found = result.cross_validation
    return f"{loss:<14}{took:6.2f} s  worst gap {found.gaps.max():.1e}  C {found.Cs[found.best]:.3g}"


def main() -> None:
    """Print a line for each training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="?", default="dense", choices=("dense", "csr", "kernel", "large"))
    parser.add_argument("--rows", type=int, default=LARGE, help="rows of large")
    given = parser.parse_args()
    if given.kind == "large":
        return from_file(given.rows)
    X, y = {"dense": lambda: next(batches(ROWS)), "csr": text, "kernel": curved}[given.kind]()
    folds = np.random.default_rng(1).integers(0, FOLDS, len(y))
    costs = {"dense": CS, "csr": 100.0 * CS, "kernel": np.array([0.1, 0.3, 1.0, 3.0, 10.0])}[given.kind].tolist()
    kernel = {"kernel": f"rbf:{GAMMA}"} if given.kind == "kernel" else {}
    for loss in ("hinge",) if kernel else ("logistic", "hinge", "squared_hinge"):
        options = {"loss": loss, "C": costs, "cv": folds, **kernel}
        sm.train((X[:500], y[:500]), **{**options, "cv": folds[:500]})  # kernels are compiled
        print(told(loss, *timed(lambda options=options: sm.train((X, y), **options))), flush=True)
        apart = 0.0
        for fold in range(FOLDS + 1):
            weights = np.where(folds == fold, 0.0, 1.0)
            for C in costs:
                one = {"loss": loss, "C": C, "sample_weight": weights, **kernel}
                apart += timed(lambda one=one: sm.train((X, y), **one))[0]
        print(f"{loss:<14}{apart:6.2f} s  {len(costs) * (FOLDS + 1)} trainings apart", flush=True)
    split = PredefinedSplit(folds)
    if given.kind == "dense":
        took, fitted = timed(lambda: LogisticRegressionCV(Cs=CS, cv=split, max_iter=1000).fit(X, y))
        print(f"{'lbfgs':<14}{took:6.2f} s  LogisticRegressionCV  C {float(np.ravel(fitted.C_)[0]):.3g}", flush=True)
    elif kernel:
        took, fitted = timed(lambda: GridSearchCV(SVC(gamma=GAMMA), {"C": costs}, cv=split).fit(X, y))
        print(f"{'SVC':<14}{took:6.2f} s  GridSearchCV  C {fitted.best_params_['C']:.3g}", flush=True)


if __name__ == "__main__":
    main()
