"""CPU seconds of choosing C by folds: 5 folds and all rows x 10 values of C, beside scikit-learn's search.

python -m examples.benchmarks.folds [csr]

csr: rows like text, 20,000 x 10,000, of ours alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import PredefinedSplit

import streammargin as sm

ROWS, COLUMNS, FOLDS = 20_000, 50, 5
CS = np.logspace(-4.0, 0.5, 10)
WORDS, LENGTH = 10_000, 60  # columns, and values of a row, of rows like text


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) of two classes, a quarter of them on the wrong side."""
    random = np.random.default_rng(0)
    X = random.standard_normal((ROWS, COLUMNS))
    return X, (X @ random.standard_normal(COLUMNS) + 5.0 * random.standard_normal(ROWS) > 0.0).astype(int)


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


def seconds(call: Callable[[], object]) -> tuple[float, object]:
    """CPU seconds of a call, and what it returned."""
    start = time.process_time()
    found = call()
    return time.process_time() - start, found


def main() -> None:
    """Print a line for each training."""
    sparse = sys.argv[1:] == ["csr"]
    X, y = text() if sparse else rows()
    folds = np.random.default_rng(1).integers(0, FOLDS, ROWS)
    for loss in ("logistic", "hinge", "squared_hinge"):
        costs = (100.0 * CS if sparse else CS).tolist()
        options = {"loss": loss, "C": costs, "cv": folds}
        sm.train((X[:500], y[:500]), **{**options, "cv": folds[:500]})  # kernels are compiled
        took, result = seconds(lambda options=options: sm.train((X, y), **options))
        found = result.cross_validation
        print(f"{loss:<14}{took:6.2f} s  worst gap {found.gaps.max():.1e}  C {found.Cs[found.best]:.3g}", flush=True)
        apart = 0.0
        for fold in range(FOLDS + 1):
            weights = np.where(folds == fold, 0.0, 1.0)
            for C in costs:
                one = {"loss": loss, "C": C, "sample_weight": weights}
                apart += seconds(lambda one=one: sm.train((X, y), **one))[0]
        print(f"{loss:<14}{apart:6.2f} s  {len(CS) * (FOLDS + 1)} trainings apart", flush=True)
    if sparse:
        return
    search = LogisticRegressionCV(Cs=CS, cv=PredefinedSplit(folds), max_iter=1000)
    took, fitted = seconds(lambda: search.fit(X, y))
    print(f"{'lbfgs':<14}{took:6.2f} s  LogisticRegressionCV  C {float(np.ravel(fitted.C_)[0]):.3g}", flush=True)


if __name__ == "__main__":
    main()
