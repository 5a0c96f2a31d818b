"""The softmax of many numbers, in memory and out of core, and one output of many dense columns, beside scikit-learn.

    python -m examples.benchmarks.softmax passes|mnist|disk|classes|hundreds|one --data FOLDER [--C 0.01,1] [--rows N]

`passes`: covtype20k and rows like those of letter, to 1e-6, with free constants, by steps with a Hessian. `mnist`: CPU
seconds in memory beside lbfgs, whose iterations grow until it is there. `disk`: reads of MNIST's file with 40M, of
which 17 hold a sample of the rows.
`classes`: 512 columns and 1,000 classes from a file, beside the time of its products of matrices, and MiB at most.
`hundreds`: 40,000 x 256 rows of length 1 in 200 classes, in memory beside lbfgs, and from a file. `one`: noise and
MNIST 3/5, one output, CPU seconds beside three solvers. One thread; both sides have one objective, with a penalised
constant of 1, but in `passes`.
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import h5py
import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import streammargin as sm
from examples.benchmarks.outputs import cpu, letter, objective, reaching, rows_of, table
from examples.benchmarks.sets import WORK, load, make
from examples.benchmarks.sides.scikit import SMOOTH

GIVEN = {"loss": "logistic", "passes": 10_000, "threads": 1}


def mnist(data: str) -> tuple[str, np.ndarray, np.ndarray]:
    """The file, and all rows with a column of 1."""
    path = make("mnist10", data, WORK)
    with h5py.File(path) as file:
        X, y = np.asarray(file["X"], np.float32), np.asarray(file["y"]).astype(int)
    return path, np.column_stack([X, np.ones(len(X), np.float32)]), y


def passes(options: argparse.Namespace) -> None:
    for name, (X, y) in {"covtype20k": rows_of("covtype20k", options.data), "letter-like": letter()}.items():
        X = (X / np.maximum(np.abs(X).max(axis=0), 1e-12)).astype(np.float32)
        for C in options.C:
            found = sm.train((X, y), C=C, bias="free", tol=1e-6, solver="prox-newton", **GIVEN)
            proven = [(event["pass"], event["gap"]) for event in found.history if event["event"] == "certificate"]
            table(name, C, next(number for number, gap in proven if gap <= 1e-3), found.passes)


def in_memory(options: argparse.Namespace) -> None:
    _, X, y = mnist(options.data)
    sm.train((X[:500], y[:500]), bias=0, **GIVEN)  # compiles
    for C in options.C:
        begun = time.process_time()
        found = sm.train((X, y), C=C, bias=0, tol=options.tol, **GIVEN)
        by_lbfgs(found, X, y, C, time.process_time() - begun, options.tol, 20)


def by_lbfgs(found: Any, X: np.ndarray, y: np.ndarray, C: float, ours: float, tol: float, most: int) -> None:
    """Lines of lbfgs, whose iterations grow from `most` until its objective is near the dual of what was found."""
    exact, above = X.astype(np.float64), 1.0
    while above > tol:
        begun = time.process_time()
        W = LogisticRegression(C=C, tol=1e-9, fit_intercept=False, max_iter=most).fit(X, y).coef_
        its, value = time.process_time() - begun, objective(exact, y, W.astype(float), C, "logistic")
        above = (value - found.certificate.dual) / value
        table(C, found.passes, found.certificate.gap, ours, most, its, above)
        most += most // 2


def hundreds(options: argparse.Namespace) -> None:
    random, path = np.random.default_rng(0), os.path.join(WORK, "hundreds.h5")
    os.makedirs(WORK, exist_ok=True)
    centres, y = random.standard_normal((200, 256)), random.integers(0, 200, 40_000)
    X = centres[y] + 2.0 * random.standard_normal((len(y), 256))
    X = (X / np.linalg.norm(X, axis=1)[:, None]).astype(np.float32)
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = X, y
    for data, memory in (((X, y), "1G"), (path, "64M"), (path, "48M"), (path, "42M")):
        sm.train(data, bias=0, memory=memory, **{**GIVEN, "passes": 1})  # compiles
        for C in options.C:
            begun = time.process_time()
            found = sm.train(data, C=C, bias=0, tol=options.tol, memory=memory, **GIVEN)
            ours = time.process_time() - begun
            table(memory, C, found.passes, reads_of(found), found.certificate.gap, ours)
            if data is not path:
                by_lbfgs(found, X, y, C, ours, options.tol, 10)


def reads_of(found: Any, size: int = 40_000 * 256 * 4) -> float:
    """Bytes that the last pass has counted, in reads of the rows, which have so many."""
    ends = [event for event in found.history if event["event"] == "pass_end"]
    return sum(event["bytes_read"] for event in ends) / size


def on_disk(options: argparse.Namespace) -> None:
    path, _, _ = mnist(options.data)
    for C in options.C:
        begun = time.process_time()
        found = sm.train(path, C=C, bias=1, tol=options.tol, memory="40M", **{**GIVEN, "passes": 100})
        table(C, found.passes, found.certificate.gap, time.process_time() - begun)


def classes(options: argparse.Namespace) -> None:
    path, random, count = os.path.join(WORK, f"classes{options.rows}.h5"), np.random.default_rng(0), options.classes
    os.makedirs(WORK, exist_ok=True)
    centres, y = random.standard_normal((count, 512)), random.integers(0, count, options.rows)
    with h5py.File(path, "w") as file:
        file["y"], X = y, file.create_dataset("X", (options.rows, 512), np.float32)
        for low in range(0, options.rows, 10_000):
            some = centres[y[low : low + 10_000]] + 4.0 * random.standard_normal((len(y[low : low + 10_000]), 512))
            X[low : low + 10_000] = some / np.linalg.norm(some, axis=1)[:, None]
    for C in options.C:
        begun = time.process_time()
        found = sm.train(path, C=C, bias=0, tol=options.tol, memory=options.memory, **GIVEN)
        its, peak = time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        looks = sum(event["event"] == "certificate" for event in found.history)
        of_steps, of_looks = (products(options.rows, count, kind) for kind in (np.float32, np.float64))
        table(C, found.passes, looks, reads_of(found, options.rows * 2048), found.certificate.gap, its,
              found.passes * of_steps + looks * of_looks, peak)  # fmt: skip


def products(rows: int, lines: int, kind: type) -> float:
    """CPU seconds of products of all rows of 512 columns: their scores, and combinations of them."""
    X, W, chunks = np.ones((128, 512), kind), np.ones((lines, 512), kind), 50
    scores = W @ X.T
    begun = time.process_time()
    for _ in range(chunks):
        np.matmul(W, X.T, out=scores)
        scores @ X
    return (time.process_time() - begun) * rows / (chunks * 128)


def one_output(options: argparse.Namespace) -> None:
    random = np.random.default_rng(0)
    noise = random.standard_normal((2000, 500)), random.integers(0, 2, 2000)
    rows, labels, _, _ = load("mnist35", make("mnist35", options.data, WORK), None)
    digits = np.asarray(rows.todense() if hasattr(rows, "todense") else rows, np.float64)[:3000]
    threes = digits, (np.asarray(labels)[:3000] == np.max(labels)).astype(int)
    for name, (X, y) in {"noise": noise, "MNIST 3/5": threes}.items():
        X = np.column_stack([X, np.ones(len(X))])
        for C in options.C:
            for gap in (1e-3, 1e-6):
                beside(name, X, y, C, gap)


def beside(name: str, X: np.ndarray, y: np.ndarray, C: float, gap: float) -> None:
    """The lines of one gap."""
    given = {**GIVEN, "C": C, "bias": 0}
    best = sm.train((X, y), tol=1e-8, **given).certificate.dual

    def good(w: np.ndarray) -> bool:
        value = 0.5 * float(np.sum(w**2)) + C * float(np.logaddexp(0.0, (1 - 2 * y) * (X @ w.ravel())).sum())
        return value - best <= gap * value

    def ours() -> Any:
        return sm.train((X, y), tol=gap, **given)

    def peer_of(solver: str) -> Callable[[float], Any]:
        return lambda tol: LogisticRegression(C=C, tol=tol, solver=solver, fit_intercept=False, max_iter=10**4)

    first, _ = cpu(ours)
    for solver in ("lbfgs", "newton-cg", "newton-cholesky"):
        model = reaching((SMOOTH, peer_of(solver)), X, y, good, 30.0 * first)
        if model is None:
            table(name, C, gap, first, solver, "not reached")
            continue
        pairs = [(cpu(ours)[0], cpu(lambda: clone(model).fit(X, y))[0]) for _ in range(3)]  # noqa: B023
        mine, its = (statistics.median(side) for side in zip(*pairs, strict=True))
        table(name, C, gap, mine, solver, its, statistics.median(b / a for a, b in pairs))


PARTS = {
    "passes": passes, "mnist": in_memory, "disk": on_disk, "classes": classes, "hundreds": hundreds, "one": one_output,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--data", help="the folder of real sets")
    parser.add_argument("--C", type=lambda text: [float(one) for one in text.split(",")], default=[0.01, 1.0])
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--classes", type=int, default=1_000)
    parser.add_argument("--memory", default="4G")
    options = parser.parse_args()
    logging.getLogger("streammargin").setLevel(logging.ERROR)
    PARTS[options.part](options)


if __name__ == "__main__":
    main()
