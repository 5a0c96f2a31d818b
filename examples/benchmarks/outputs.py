"""Several outputs at once, beside scikit-learn: one W for all classes, and several targets; one target beside Ridge.

    python -m examples.benchmarks.outputs defaults|softmax|joint_hinge|targets|lasso|ridge [--data FOLDER] [--repeats 3]

`defaults` has MarginClassifier, LogisticRegression and LinearSVC as they are, with 5 folds. It prints the mean
accuracy, its difference to LogisticRegression's with the standard error of the folds, and the CPU seconds of the fits.
`softmax` and `joint_hinge` have CPU seconds to a suboptimality. `targets` has the passes of each loss and penalty over
generated rows, and `lasso` MultiTaskLasso, that of skglm as well. `ridge` has one target of 20,000 x 100 rows of 30
factors. Both sides have a penalised constant of 1 in
`softmax` and `joint_hinge`, and columns divided by their largest value. Peers are held to the same objective, at their
loosest tolerance that reaches it; the optimum is the dual that ours certify. BLAS has one thread; both sides take
turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import logging
import os
import re
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import scipy.sparse as sp
import sklearn.datasets
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, MultiTaskLasso, Ridge
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import streammargin as sm
from examples.benchmarks.sets import WORK, make, read, scaled
from examples.benchmarks.sides.scikit import DUAL, SMOOTH

OWN = ("iris", "wine", "digits", "breast_cancer")  # scikit-learn's
STORED = ("a9a", "covtype20k", "htru2", "mushrooms", "rcv1topics", "mnist10")  # of which `--rows` are drawn
Size = Callable[[np.ndarray], float]
LEAST, MOST = 0.1, 20.0  # CPU seconds of one measurement; times ours after which a peer is not asked again


def letter(rows: int = 15_000, columns: int = 16, classes: int = 26) -> tuple[np.ndarray, np.ndarray]:
    """Classes of three forms each, as letters in several fonts are."""
    random = np.random.default_rng(5)
    centres = 1.1 * random.standard_normal((classes, columns))
    y = random.integers(0, classes, rows)
    forms = centres[:, None] + 0.8 * random.standard_normal((classes, 3, columns))
    return forms[y, random.integers(0, 3, rows)] + 0.9 * random.standard_normal((rows, columns)), y


def rows_of(name: str, data: str | None, rows: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) in float64, and all labels of a set; rows: so many at random of a stored one, sparse as it is."""
    if name == "letter":
        return letter()
    if name in OWN:
        return getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    X, y = read(make(name, data or "", WORK))
    chosen = np.sort(np.random.default_rng(0).permutation(len(y))[:rows])
    return X[chosen].astype(np.float64), y[chosen]


def cpu(call: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of a call, repeated until they are many enough to tell, and what it returned."""
    count, start = 0, time.process_time()
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = call()
        count, taken = count + 1, time.process_time() - start
        if taken >= LEAST:
            return taken / count, found


def table(*cells: Any) -> None:
    """A line of a table."""
    shown = (f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in cells)
    print(f"| {' | '.join(shown)} |", flush=True)


# ---- as they are


def held_out(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """The accuracy of each of five folds, and the CPU seconds of the five fits."""
    hits, seconds = [], 0.0
    for rows, others in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = clone(model).fit(X[rows], y[rows])
        seconds += time.process_time() - start
        hits.append(fitted.score(X[others], y[others]))
    return np.array(hits), seconds


def defaults(options: argparse.Namespace) -> None:
    models = {
        "LogisticRegression": LogisticRegression(max_iter=10_000),
        "LinearSVC": LinearSVC(),
        "ours": sm.MarginClassifier(max_seconds=600),
        "ours, hinge": sm.MarginClassifier(loss="hinge", max_seconds=600),
        "ours, logistic, free constant": sm.MarginClassifier(loss="logistic", bias="free", max_seconds=600),
    }
    models = {name: model for name, model in models.items() if re.search(options.only, name)}
    table("set", *models)
    for name in options.sets.split(","):
        X, y = rows_of(name, options.data, options.rows if name in STORED else None)
        kept = np.isin(y, [label for label in np.unique(y) if np.sum(y == label) >= 5])
        for scale in (False, True):
            cells, first = [], None
            for model in models.values():
                model = make_pipeline(StandardScaler(with_mean=not sp.issparse(X)), model) if scale else model
                held_out(model, X[kept][:500], y[kept][:500])  # compiles
                hits, seconds = held_out(model, X[kept], y[kept])
                first = hits if first is None else first
                apart = hits - first
                beside = f", {apart.mean():+.4f} +- {apart.std(ddof=1) / 5**0.5:.4f}" if cells else ""
                cells.append(f"{hits.mean():.4f}{beside}, {seconds:.3g} s")
            table(name + (", standardised" if scale else ""), *cells)


# ---- one W for all classes


def objective(X: np.ndarray, y: np.ndarray, W: np.ndarray, C: float, loss: str) -> float:
    """1/2 ||W||^2 + C times the softmax's or Crammer and Singer's loss; y in 0 .. K - 1, W (K, d)."""
    scores, rows = X @ W.T, np.arange(len(y))
    own = scores[rows, y]
    if loss == "logistic":
        top = scores.max(axis=1)
        losses = top + np.log(np.exp(scores - top[:, None]).sum(axis=1)) - own
    else:
        beside = scores + 1.0
        beside[rows, y] -= 1.0
        losses = beside.max(axis=1) - own
    return 0.5 * float(np.sum(W**2)) + C * float(losses.sum())


def peers_of(loss: str, C: float) -> dict[str, tuple[tuple[float, ...], Callable[[float], Any]]]:
    """The tolerances of each peer, loosest first, and the peer with one of them."""

    def svc(tol: float) -> Any:
        given = {"C": C, "tol": tol, "fit_intercept": False, "max_iter": 10**5, "random_state": 0}
        return LinearSVC(multi_class="crammer_singer", **given)

    def smooth(solver: str) -> Callable[[float], Any]:
        return lambda tol: LogisticRegression(C=C, tol=tol, solver=solver, fit_intercept=False, max_iter=10**4)

    if loss == "hinge":
        return {"LinearSVC": (DUAL, svc)}
    return {solver: (SMOOTH, smooth(solver)) for solver in ("lbfgs", "newton-cg")}


def reaching(
    peer: tuple[tuple[float, ...], Callable[[float], Any]], X: Any, y: Any, good: Callable[..., bool], cap: float
) -> Any:
    """The peer at its loosest tolerance that is good enough; None if none is, or if it takes too long."""
    for tol in peer[0]:
        model = peer[1](tol)
        taken, fitted = cpu(lambda model=model: clone(model).fit(X, y))
        if good(fitted.coef_):
            return model
        if taken > cap:
            return None
    return None


def one_objective(options: argparse.Namespace, loss: str) -> None:
    """CPU seconds to each suboptimality, ours and the peers'."""
    table("set", "C", "gap", "ours, passes", "ours, s", "peer", "its s", "peer / ours")
    for name in options.sets.split(","):
        X, y = rows_of(name, options.data)
        X = X.toarray() if sp.issparse(X) else X
        X = scaled(X, np.zeros(X.shape[1]), 1.0 / np.maximum(np.abs(X).max(axis=0), 1e-12)).astype(np.float64)
        X, y = np.column_stack([X, np.ones(len(X))]), np.unique(y, return_inverse=True)[1]
        for C in map(float, options.C.split(",")):
            gaps = [float(gap) for gap in options.gaps.split(",")]
            given = {"loss": loss, "multiclass": "joint", "C": C, "bias": 0, "passes": 10**6}
            limit = {"max_seconds": options.seconds}
            cpu(lambda: sm.train((X, y), tol=gaps[0], **given, **limit))  # noqa: B023  # compiles
            best = sm.train((X, y), tol=min(1e-7, gaps[-1] / 10), **given, **limit).certificate.dual
            for gap in gaps:
                judged(options, name, X, y, {**given, **limit, "tol": gap}, best)


def judged(options: Any, name: str, X: Any, y: Any, given: dict[str, Any], best: float) -> None:
    """The lines of one gap."""
    loss, C, gap = given["loss"], given["C"], given["tol"]

    def ours() -> Any:
        return sm.train((X, y), **given)

    def good(W: np.ndarray) -> bool:
        value = objective(X, y, W, C, loss)
        return value - best <= gap * value

    first, found = cpu(ours)
    proven = "" if found.converged else f", gap {found.certificate.gap:.0e}"
    if not good(found.model.coef_):
        proven += ", not reached"
    for peer, what in peers_of(loss, C).items():
        model = reaching(what, X, y, good, MOST * first)
        if model is None:
            table(name, C, gap, f"{found.passes}{proven}", first, peer, "not reached", "")
            continue
        pairs = [(cpu(ours)[0], cpu(lambda: clone(model).fit(X, y))[0]) for _ in range(options.repeats)]  # noqa: B023
        mine, its = (statistics.median(side) for side in zip(*pairs, strict=True))
        table(name, C, gap, f"{found.passes}{proven}", mine, peer, its, statistics.median(b / a for a, b in pairs))


# ---- several targets


def targets_set(rows: int = 4_000, columns: int = 60, outputs: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Correlated columns of size j^-.7, rotated, and targets that share a fifth of them, with heavy-tailed noise."""
    random = np.random.default_rng(0)
    turn = np.linalg.qr(random.standard_normal((columns, columns)))[0]
    X = (random.standard_normal((rows, columns)) * np.arange(1, columns + 1) ** -0.7) @ turn
    W = random.standard_normal((columns, outputs)) * (np.arange(columns) % 5 == 0)[:, None]
    return X, X @ W + 0.3 * random.standard_t(3, (rows, outputs))


def leaves_zero(X: np.ndarray, Y: np.ndarray, loss: str, penalty: str) -> float:
    """The least C at which W is not 0: one over the dual norm of the losses' slope there."""
    if loss == "l2_error":
        slope = Y / np.linalg.norm(Y, axis=1)[:, None]
    else:
        slope = {"squared_error": Y, "absolute_error": np.sign(Y), "hinge": np.where(Y > 0, 1.0, -1.0)}[loss]
    T = X.T @ slope
    return 1.0 / {"l21": np.linalg.norm(T, axis=1).max(), "l1inf": np.abs(T).sum(axis=1).max(),
                  "trace": np.linalg.norm(T, 2)}[penalty]  # fmt: skip


def targets(options: argparse.Namespace) -> None:
    X, Y = targets_set()
    labels = (np.median(Y, axis=0) < Y).astype(int)
    table("loss", "penalty", "passes to 1e-3", "gap")
    for loss, penalty in itertools.product(options.losses.split(","), ("l21", "l1inf", "trace")):
        y = labels if loss == "hinge" else Y
        given = {"C": 20.0 * leaves_zero(X, y, loss, penalty), "bias": 0, "tol": 1e-3, "passes": 300}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = sm.train((X, y), loss=loss, penalty=penalty, max_seconds=options.seconds, **given)
        table(loss, penalty, found.passes, f"{found.certificate.gap:.1e}")


def lasso(options: argparse.Namespace) -> None:
    """MultiTaskLasso of scikit-learn, and of skglm if it is installed: alpha is 1 / (n C), to the objective of ours."""
    X, Y = targets_set()
    peers = {"scikit-learn": MultiTaskLasso}
    if importlib.util.find_spec("skglm"):
        peers["skglm"] = importlib.import_module("skglm").MultiTaskLasso
        peers["skglm"]().fit(X[:99], Y[:99])  # compiles
    table("C", "gap", "ours, s", "peer", "its, s", "peer / ours")
    for C in map(float, options.C.split(",")):
        given = {"loss": "squared_error", "penalty": "l21", "C": C, "bias": 0, "passes": 10**4}
        best = sm.train((X, Y), tol=1e-8, **given).certificate.dual
        for gap, (name, peer) in itertools.product(map(float, options.gaps.split(",")), peers.items()):
            kind = partial(peer, alpha=1.0 / (len(X) * C))
            table(C, gap, *beside_peer(X, Y, {**given, "tol": gap}, best, options.repeats, name, kind, rows_norm))


def rows_norm(W: np.ndarray) -> float:
    """The norm of l21: of the weights of each column."""
    return float(np.linalg.norm(W, axis=0).sum())


def half_square(W: np.ndarray) -> float:
    return 0.5 * float(np.sum(W**2))


def ridge(options: argparse.Namespace) -> None:
    """Ridge with its own choice of a solver: alpha is 1 / C, to the objective of ours."""
    random = np.random.default_rng(0)
    factors = random.standard_normal((20_000, 30)) @ random.standard_normal((30, 100)) / np.sqrt(30.0)
    X = factors + 0.1 * random.standard_normal(factors.shape)
    y = X @ random.standard_normal(100) + random.standard_normal(len(X))
    table("C", "gap", "ours, s", "peer", "its, s", "peer / ours")
    for C in map(float, options.C.split(",")):
        given = {"loss": "squared_error", "C": C, "bias": 0, "passes": 10**4}
        best = sm.train((X, y), tol=1e-8, **given).certificate.dual
        for gap in map(float, options.gaps.split(",")):
            kind = partial(Ridge, alpha=1.0 / C)
            table(C, gap, *beside_peer(X, y, {**given, "tol": gap}, best, options.repeats, "Ridge", kind, half_square))


def beside_peer(
    X: np.ndarray, Y: np.ndarray, given: dict[str, Any], best: float, repeats: int, name: str, kind: Any, penalty: Size
) -> tuple[Any, ...]:
    """Seconds of ours, the name of a peer, its seconds, and their ratio, for one gap of the squared error."""
    C, gap, targets = given["C"], given["tol"], Y.reshape(len(X), -1)

    def good(W: np.ndarray) -> bool:
        value = penalty(W) + 0.5 * C * float(np.sum((targets - X @ np.atleast_2d(W).T) ** 2))
        return value - best <= gap * value

    def model(tol: float) -> Any:
        return kind(tol=tol, fit_intercept=False, max_iter=10**5)

    def ours() -> Any:
        return sm.train((X, Y), **given)

    first, found = cpu(ours)
    peer = reaching((SMOOTH, model), X, Y, good, MOST * first)
    if peer is None or not good(found.model.coef_):
        return first, name, "not reached", ""
    pairs = [(cpu(ours)[0], cpu(lambda: clone(peer).fit(X, Y))[0]) for _ in range(repeats)]
    mine, its = (statistics.median(side) for side in zip(*pairs, strict=True))
    return mine, name, its, statistics.median(b / a for a, b in pairs)


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "defaults": defaults,
    "softmax": lambda options: one_objective(options, "logistic"),
    "joint_hinge": lambda options: one_objective(options, "hinge"),
    "targets": targets,
    "lasso": lasso,
    "ridge": ridge,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--data", help="the folder of real sets")
    parser.add_argument("--sets", default="digits")
    parser.add_argument("--C", default="0.01,1,100")
    parser.add_argument("--gaps", default="1e-3,1e-6")
    parser.add_argument("--only", default="", help="models of `defaults` whose names match this")
    parser.add_argument("--rows", type=int, default=4_000, help="of a stored set (%(default)s)")
    parser.add_argument("--losses", default="squared_error,absolute_error,l2_error,hinge")
    parser.add_argument("--seconds", type=float, default=60.0, help="after which one of our trainings ends")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    logging.getLogger("streammargin").setLevel(logging.ERROR)
    PARTS[options.part](options)


if __name__ == "__main__":
    main()
