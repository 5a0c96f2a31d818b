"""Does a first fit compile? python examples/kernel_check.py [--rows digits] names what a wheel's kernels lack.

Run it where a wheel with kernels is installed, with scikit-learn. In a process with an empty cache the estimators fit
rows of many shapes with each loss and penalty, and `auto` chooses the solver. None of these rows, shapes and options
are those of examples/kernel_trainings.py, from which the wheel was made. Exit code 1: something was compiled.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

if "NUMBA_CACHE_DIR" not in os.environ:  # read once, when Numba is imported
    os.environ |= {"NUMBA_CACHE_DIR": tempfile.mkdtemp(), "STREAMMARGIN_PATIENCE": "0"}
    os.execv(sys.executable, [sys.executable, *sys.argv])

import numpy as np
import scipy.sparse as sp
from numba.core import event
from sklearn import datasets

import streammargin as sm
from streammargin.compiled.cache import SOURCES
from streammargin.compiled.shipped import shipped
from streammargin.losses import LOSSES, is_numeric
from streammargin.penalties import PENALTIES


class Compiled(event.Listener):
    """Counts the functions that are compiled."""

    def __init__(self) -> None:
        self.names: Counter[str] = Counter()

    def on_start(self, event: Any) -> None:
        self.names[event.data["dispatcher"].py_func.__qualname__] += 1

    def on_end(self, event: Any) -> None:
        pass


def digits() -> tuple[Any, Any]:
    """Ten classes, dense."""
    return datasets.load_digits(return_X_y=True)  # type: ignore[no-any-return]


def table() -> tuple[Any, Any]:
    """Two classes of words; columns of very different sizes."""
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return X, np.array(["malignant", "benign"])[y]


def numbers() -> tuple[Any, Any]:
    """A regression."""
    return datasets.load_diabetes(return_X_y=True)  # type: ignore[no-any-return]


def several_numbers() -> tuple[Any, Any]:
    """A regression of three columns of numbers."""
    X, y = numbers()
    return X, np.column_stack([y, y[::-1], np.sqrt(y)])


def generated(rows: int, columns: int, values: int, numeric: bool, dtype: type) -> Callable[[], tuple[Any, Any]]:
    """Sparse rows with so many values each, or dense ones if that is all columns."""

    def make() -> tuple[Any, Any]:
        random = np.random.default_rng(7)
        if values == columns:
            X: Any = random.standard_normal((rows, columns)).astype(dtype)
        else:
            places = np.repeat(np.arange(rows), values), random.integers(0, columns, rows * values)
            X = sp.csr_matrix((random.random(rows * values).astype(dtype), places), (rows, columns))
        scores = X @ random.standard_normal(columns) + random.standard_normal(rows)
        return X, scores if numeric else np.digitize(scores, np.quantile(scores, (0.3, 0.6)))

    return make


ROWS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "digits": digits, "table": table, "numbers": numbers,
    "several numbers": several_numbers,
    "text": generated(3000, 20_000, 40, False, np.float32),
    "text of numbers": generated(2000, 9000, 30, True, np.float64),
    "one-hot": generated(4000, 90, 8, False, np.float64), "tall": generated(30_000, 12, 12, False, np.float32),
    "tall numbers": generated(20_000, 9, 9, True, np.float32), "wide": generated(50, 3000, 3000, False, np.float64),
    "wide numbers": generated(40, 2500, 2500, True, np.float32),
}  # fmt: skip


def fits(X: Any, y: Any, only: tuple[list[str], list[str]]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(what it is, a call that fits and predicts): losses and penalties, then other parameters if all are tried."""
    numeric = np.asarray(y).dtype.kind == "f"

    def fitted(estimator: Any) -> Callable[[], Any]:
        return lambda: estimator.fit(X, y).score(X, y)

    for loss in only[0]:
        if is_numeric(LOSSES[loss]().terms()) == numeric:
            for penalty in only[1]:
                given: Any = penalty
                if any(line.name == "groups" for line in PENALTIES[penalty].entries()):
                    given = PENALTIES[penalty](groups=np.arange(X.shape[1]) // 3)
                make = sm.MarginRegressor if numeric else sm.MarginClassifier
                yield f"{loss} {penalty}", fitted(make(loss=loss, penalty=given, passes=30))
                if not numeric and len(np.unique(y)) > 2:
                    for way in ("ovr", "joint"):
                        several = make(loss=loss, penalty=given, multiclass=way, passes=30)
                        yield f"{loss} {penalty} {way}", fitted(several)
    if only != (list(LOSSES), list(PENALTIES)):
        return
    if numeric:
        if np.ndim(y) > 1:
            return
        for penalty in ("l2", "lp:sparse"):
            yield f"interpolating {penalty}", fitted(sm.InterpolatingRegressor(penalty=penalty, passes=30))
        return
    yield "the largest margin", fitted(sm.MarginClassifier(C=np.inf, passes=30))
    yield "balanced, scaled", fitted(sm.MarginClassifier(class_weight="balanced", scale="std"))
    yield "a path", fitted(sm.MarginClassifier(C="path:3", penalty="l1", loss="logistic", validation_fraction=0.3))
    yield "early stopping", fitted(sm.MarginClassifier(early_stop=2))
    yield "probabilities", lambda: sm.MarginClassifier(loss="logistic").fit(X, y).predict_proba(X)
    yield "batches", lambda: sm.MarginClassifier(solver="pegasos").partial_fit(X, y, np.unique(y)).predict(X)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda text: text.split(","), default=list(ROWS), help=f"of {', '.join(ROWS)}")
    for name, table in (("losses", LOSSES), ("penalties", PENALTIES)):
        help = f"of {', '.join(table)}; without other parameters"
        parser.add_argument(f"--{name}", type=lambda text: text.split(","), default=list(table), help=help)
    options = parser.parse_args()
    if shipped(SOURCES) is None:
        parser.error("this package brings no kernels for this process; see `streammargin info --kernels`")
    counter = Compiled()
    event.register("numba:compile", counter)
    warnings.simplefilter("ignore")
    logging.getLogger("streammargin").setLevel(logging.ERROR)  # what it says of the columns
    done, refused, lacking = 0, 0, False
    for name in options.rows:
        for what, fit in fits(*ROWS[name](), (options.losses, options.penalties)):
            counter.names.clear()
            try:
                fit()
                done += 1
            except (sm.UsageError, sm.DataError):
                refused += 1
            if counter.names:
                print(f"{name}, {what}: {', '.join(counter.names)}", flush=True)
                lacking = True
    print(f"{done} fits, {refused} refused; {'these kernels were compiled' if lacking else 'nothing was compiled'}")
    return int(lacking)


if __name__ == "__main__":
    raise SystemExit(main())
