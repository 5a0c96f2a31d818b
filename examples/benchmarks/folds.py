"""CPU seconds of choosing C by folds: 5 folds and all rows x 10 values of C, beside scikit-learn's search.

python -m examples.benchmarks.folds
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import PredefinedSplit

import streammargin as sm

ROWS, COLUMNS, FOLDS = 20_000, 50, 5
CS = np.logspace(-4.0, 0.5, 10)


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) of two classes, a quarter of them on the wrong side."""
    random = np.random.default_rng(0)
    X = random.standard_normal((ROWS, COLUMNS))
    return X, (X @ random.standard_normal(COLUMNS) + 5.0 * random.standard_normal(ROWS) > 0.0).astype(int)


def seconds(call: Callable[[], object]) -> tuple[float, object]:
    """CPU seconds of a call, and what it returned."""
    start = time.process_time()
    found = call()
    return time.process_time() - start, found


def main() -> None:
    """Print a line for each training."""
    X, y = rows()
    folds = np.random.default_rng(1).integers(0, FOLDS, ROWS)
    for loss in ("logistic", "hinge", "squared_hinge"):
        options = {"loss": loss, "C": CS.tolist(), "cv": folds}
        sm.train((X[:500], y[:500]), **{**options, "cv": folds[:500]})  # kernels are compiled
        took, result = seconds(lambda options=options: sm.train((X, y), **options))
        found = result.cross_validation
        print(f"{loss:<14}{took:6.2f} s  worst gap {found.gaps.max():.1e}  C {found.Cs[found.best]:.3g}", flush=True)
        apart = 0.0
        for fold in range(FOLDS + 1):
            weights = np.where(folds == fold, 0.0, 1.0)
            for C in CS.tolist():
                one = {"loss": loss, "C": C, "sample_weight": weights}
                apart += seconds(lambda one=one: sm.train((X, y), **one))[0]
        print(f"{loss:<14}{apart:6.2f} s  {len(CS) * (FOLDS + 1)} trainings apart", flush=True)
    search = LogisticRegressionCV(Cs=CS, cv=PredefinedSplit(folds), max_iter=1000)
    took, fitted = seconds(lambda: search.fit(X, y))
    print(f"{'lbfgs':<14}{took:6.2f} s  LogisticRegressionCV  C {float(np.ravel(fitted.C_)[0]):.3g}", flush=True)


if __name__ == "__main__":
    main()
