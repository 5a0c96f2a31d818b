"""Kernel machines beside scikit-learn's SVC: CPU seconds of one thread, and how good both answers are.

    python -m examples.benchmarks.kernels FOLDER [--sets mnist35,a9a] [--costs 1,10]
        [--digits | --predict | --disk | --hard]

The kernel is rbf with gamma = scale. Ours is trained to a certified 1e-3, SVC with its own tolerance of 1e-3. Both are
judged by the same objective in float64: the gap of an answer is its distance to our dual bound, relative to itself.
Medians of the CPU seconds, in turns. scikit-learn-intelex is a third if it is installed.

--digits: instead, the ten digits of all 60,000 rows of MNIST, one against the rest, to a certified 1e-2 within 2 GB.
The errors are those of 10,000 held-out rows. The peers train one class against one other, so they have no common
objective.

--predict: instead, values of the kernel a CPU second in `decision_function` of all rows. The machines are those of
the first 6,000 rows, as float32 and float64.

--disk: instead, reads to a certified 1e-2 and 1e-3 of rows that lie on disk. Memory holds the rows that matter, and the
columns of a tenth of the support vectors.

--hard: instead, reads to a certified 1e-2, 1e-3 and 1e-6 of the largest margin, with a free constant, and of rows that
lie on disk. Its margin, and that of SVC at C = 1e6.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import scipy.sparse as sp
from sklearn.svm import SVC

import streammargin as sm
from examples.benchmarks.sets import WORK, load, make
from examples.benchmarks.worker import timed
from streammargin.solvers.expansion import found as memory
from streammargin.sources.arrays import ArraySource

PEERS: list[Any] = [SVC]
NAMES = ["SVC", "scikit-learn-intelex"]
try:
    from sklearnex.svm import SVC as Faster
except ImportError:
    pass
else:
    PEERS.append(Faster)


def objective(model: SVC, X: Any, y: np.ndarray, C: float) -> float:
    """1/2 ||w||^2 + C times the losses of all rows, of the weights that an SVC stands for."""
    coef = model.dual_coef_.toarray()[0] if hasattr(model.dual_coef_, "toarray") else model.dual_coef_[0]
    square = float(coef @ (model.decision_function(X[model.support_]) - model.intercept_[0]))
    return 0.5 * square + C * float(np.maximum(0.0, 1.0 - y * model.decision_function(X)).sum())


def row(name: str, folder: str, C: float, repeats: int) -> str:
    X, y, *_ = load(name, make(name, folder, WORK))
    sm.train((X[:500], y[:500]), kernel="rbf", C=C)  # compiles
    ours: list[float] = []
    theirs: list[list[float]] = [[] for _ in PEERS]
    peers = [peer(C=C, cache_size=1000) for peer in PEERS]
    for _ in range(repeats):
        seconds, found = timed(lambda: sm.train((X, y), kernel="rbf", C=C, threads=1, memory="2G"))
        ours.append(seconds)
        for peer, spent in zip(peers, theirs, strict=True):
            spent.append(timed(functools.partial(peer.fit, X, y))[0])
    known, mine = found.certificate, statistics.median(ours)
    words = [f"{mine:.2f}", f"{known.gap:.1e}"]
    for peer, spent in zip(peers, theirs, strict=True):
        reached = objective(peer, X, y, C)
        words += [f"{statistics.median(spent):.2f}", f"{(reached - known.dual) / reached:.1e}"]
    fastest = min(map(statistics.median, theirs))
    return f"| {name} | {C:g} | {' | '.join(words)} | {fastest / mine:.2f} |"


def digits(folder: str, C: float) -> None:
    """A line for each side, once it is trained: CPU seconds, support rows, held-out errors, and what is certified."""
    X, y, X_test, y_test = load("mnist10", make("mnist10", folder, WORK))
    X, X_test = (np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows) for rows in (X, X_test))
    sm.train((X[:500], y[:500]), kernel="rbf", C=C)  # compiles
    seconds, found = timed(lambda: sm.train((X, y), kernel="rbf", C=C, threads=1, memory="2G", tol=1e-2))
    ours = np.mean(found.model.predict(X_test) != y_test)
    proven = f"gap {found.certificate.gap:.1e} after {found.passes} passes"
    print(f"| streammargin | {seconds:.0f} | {found.model.header['support']} | {ours:.4f} | {proven} |", flush=True)
    for peer, name in zip(reversed(PEERS), reversed(NAMES[: len(PEERS)]), strict=True):
        seconds, fitted = timed(functools.partial(peer(C=C, cache_size=1000).fit, X, y))
        error = np.mean(fitted.predict(X_test) != y_test)
        print(f"| {name} | {seconds:.0f} | {int(fitted.n_support_.sum())} | {error:.4f} | |", flush=True)


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


class OnDisk(ArraySource):
    """Arrays that are read in eight blocks, as rows that do not fit into memory are."""

    def whole(self) -> None:
        return None

    def bounds(self, max_bytes: int) -> np.ndarray:
        return np.linspace(0, self.rows, 9).astype(np.int64)

    def buffer_bytes(self, bounds: np.ndarray) -> int:
        return super().buffer_bytes(bounds) if len(bounds) > 2 else 1 << 60


def reads(name: str, folder: str, C: float) -> str:
    """A line: reads and CPU seconds to each gap, how many rows carry the expansion, and margins if C is inf."""
    X, y, *_ = load(name, make(name, folder, WORK))
    words, hard = [], bool(np.isinf(C))
    if not hard:
        support = sm.train((X, y), kernel="rbf", C=C, tol=1e-2, memory="2G").model.header["support"]
        memory.MOST_COLUMNS = max(1, support // 10)
    for tol in (1e-2, 1e-3, 1e-6) if hard else (1e-2, 1e-3):
        seconds, found = timed(lambda tol=tol: sm.train(OnDisk(X, y), kernel="rbf", C=C, bias="free", tol=tol))
        words.append(f"{found.passes} ({seconds:.1f})" if found.converged else f"{found.reason}")
    support = found.model.header["support"]
    if hard:
        peer = SVC(C=1e6, cache_size=1000).fit(X, y)
        f, coef = peer.decision_function(X), np.asarray(sp.csr_matrix(peer.dual_coef_).todense())[0]
        margin = (y * f).min() / np.sqrt(coef @ (f[peer.support_] - peer.intercept_[0]))
        words += [f"{found.certificate.margin_lower:.6g} .. {found.certificate.margin_upper:.6g}", f"{margin:.6g}"]
    return f"| {name} | {C:g} | {' | '.join(words)} | {support} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--sets", default="mnist35,a9a,covtype20k,mushrooms,htru2")
    parser.add_argument("--costs", default="1,10")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--digits", action="store_true", help="all ten digits of MNIST")
    parser.add_argument("--predict", action="store_true", help="rates of predictions")
    parser.add_argument("--disk", action="store_true", help="reads of rows on disk")
    parser.add_argument("--hard", action="store_true", help="reads to the largest margin")
    given = parser.parse_args()
    names = NAMES[: len(PEERS)]
    if given.digits:
        print("| side | CPU s | support rows | held-out error | certified |\n|---|---|---|---|---|", flush=True)
        digits(given.folder, 10.0)
        return
    if given.disk or given.hard:
        columns = "to 1e-6 | margin | that of SVC | support" if given.hard else "support"
        print(f"| rows | C | reads to 1e-2 (CPU s) | to 1e-3 | {columns} rows |\n|{'---|' * (5 + 3 * given.hard)}")
        for name in given.sets.split(","):
            for C in [np.inf] if given.hard else map(float, given.costs.split(",")):
                print(reads(name, given.folder, C), flush=True)
        return
    if given.predict:
        print(f"| rows | C | type | streammargin | {' | '.join(names)} |\n" + "|---" * (4 + len(names)) + "|")
        for name in given.sets.split(","):
            for C in map(float, given.costs.split(",")):
                print(rates(name, given.folder, C, given.repeats), flush=True)
        return
    print(f"| rows | C | CPU s | certified gap | {' | '.join(f'{name}, CPU s | its gap' for name in names)} | times as "
          f"fast |\n{'|---' * (5 + 2 * len(names))}|")  # fmt: skip
    for name in given.sets.split(","):
        for C in map(float, given.costs.split(",")):
            print(row(name, given.folder, C, given.repeats), flush=True)


if __name__ == "__main__":
    main()
