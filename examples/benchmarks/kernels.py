"""Kernel machines beside scikit-learn's SVC: CPU seconds of one thread, and how good both answers are.

    OPENBLAS_NUM_THREADS=1 python -m examples.benchmarks.kernels FOLDER [--sets mnist35,a9a] [--costs 1,10] [--predict]

The kernel is rbf with gamma = scale. Ours is trained to a certified 1e-3, SVC with its own tolerance of 1e-3. Both are
judged by the same objective in float64: the gap of an answer is its distance to our dual bound, relative to itself.
Medians of the CPU seconds, in turns.

--predict: instead, how many values of the kernel a second of CPU time allows in `decision_function` of the training's
rows, for machines of the first 6,000 rows, as float32 and float64. scikit-learn-intelex is a third if it is installed.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.svm import SVC

import streammargin as sm
from examples.benchmarks.sets import WORK, load, make

PEERS: list[Any] = [SVC]
try:
    from sklearnex.svm import SVC as Faster
except ImportError:
    pass
else:
    PEERS.append(Faster)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds, and what it returns."""
    begun = time.process_time()
    found = work()
    return time.process_time() - begun, found


def objective(model: SVC, X: Any, y: np.ndarray, C: float) -> float:
    """1/2 ||w||^2 + C times the losses of all rows, of the weights that an SVC stands for."""
    coef = model.dual_coef_.toarray()[0] if hasattr(model.dual_coef_, "toarray") else model.dual_coef_[0]
    square = float(coef @ (model.decision_function(model.support_vectors_) - model.intercept_[0]))
    return 0.5 * square + C * float(np.maximum(0.0, 1.0 - y * model.decision_function(X)).sum())


def row(name: str, folder: str, C: float, repeats: int) -> str:
    X, y, *_ = load(name, make(name, folder, WORK))
    sm.train((X[:500], y[:500]), kernel="rbf", C=C)  # compiles
    ours, theirs = [], []
    for _ in range(repeats):
        seconds, found = timed(lambda: sm.train((X, y), kernel="rbf", C=C, threads=1, memory="2G"))
        ours.append(seconds)
        seconds, peer = timed(lambda: SVC(C=C, cache_size=1000).fit(X, y))
        theirs.append(seconds)
    known = found.certificate
    reached = objective(peer, X, y, C)
    gap = (reached - known.dual) / reached
    mine, other = statistics.median(ours), statistics.median(theirs)
    return f"| {name} | {C:g} | {mine:.2f} | {known.gap:.1e} | {other:.2f} | {gap:.1e} | {other / mine:.2f} |"


def rates(name: str, folder: str, C: float, repeats: int) -> str:
    """A line for each type of the rows: millions of kernel values a second of each side."""
    X, y, *_ = load(name, make(name, folder, WORK))
    X, few = X.toarray() if hasattr(X, "toarray") else X, slice(0, 6000)
    lines = []
    for dtype in (np.float32, np.float64):
        rows = np.ascontiguousarray(X, dtype)
        ours = sm.train((rows[few], y[few]), kernel="rbf", C=C, tol=1e-2, threads=1).model
        models = [(ours, ours.header["support"])]
        for peer in PEERS:
            fitted = peer(C=C, cache_size=1000).fit(rows[few], y[few])
            models.append((fitted, int(fitted.n_support_.sum())))
        seconds: list[list[float]] = [[] for _ in models]
        for _ in range(repeats + 1):  # the first compiles
            for spent, (model, _) in zip(seconds, models, strict=True):
                spent.append(timed(functools.partial(model.decision_function, rows))[0])
        found = [len(rows) * count / statistics.median(spent[1:]) / 1e6 for spent, (_, count) in
                 zip(seconds, models, strict=True)]  # fmt: skip
        lines.append(f"| {name} | {C:g} | {np.dtype(dtype)} | " + " | ".join(f"{rate:.1f}" for rate in found) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--sets", default="mnist35,a9a,covtype20k,mushrooms,htru2")
    parser.add_argument("--costs", default="1,10")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--predict", action="store_true", help="rates of predictions")
    given = parser.parse_args()
    if given.predict:
        names = ["SVC", "scikit-learn-intelex"][: len(PEERS)]
        print(f"| rows | C | type | streammargin | {' | '.join(names)} |\n" + "|---" * (4 + len(names)) + "|")
        for name in given.sets.split(","):
            for C in map(float, given.costs.split(",")):
                print(rates(name, given.folder, C, given.repeats), flush=True)
        return
    print("| rows | C | CPU s | certified gap | SVC, CPU s | its gap | times as fast |\n|---|---|---|---|---|---|---|")
    for name in given.sets.split(","):
        for C in map(float, given.costs.split(",")):
            print(row(name, given.folder, C, given.repeats), flush=True)


if __name__ == "__main__":
    main()
