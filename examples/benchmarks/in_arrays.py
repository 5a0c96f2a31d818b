"""Fits of small problems with one loss of all scores: rows visited by NumPy, beside compiled loops.

    python -m examples.benchmarks.in_arrays [--repeats 5]
    python -m examples.benchmarks.in_arrays --hinge [--repeats 60]

It prints CPU ms of a fit once all kernels are compiled, medians of both in turns, at C = 1 and a gap of 1e-3. With
--hinge, two classes and the hinge are beside LinearSVC as it is.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from functools import partial

os.environ.setdefault("STREAMMARGIN_PATIENCE", "0")  # the first fits compile

import numpy as np

import streammargin as sm
from examples.benchmarks.worker import timed
from streammargin.solvers import problem

SHAPES = [
    (150, 4, 3),
    (3000, 9, 3),
    (2000, 30, 10),
    (20_000, 10, 3),
    (20_000, 30, 3),
    (5000, 100, 10),
    (20_000, 100, 5),
]
NEVER, ALWAYS = (1, 0), (0, 10**9)


def rows(n: int, d: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(np.float32)
    scores = X @ rng.normal(size=(d, classes)) + np.sqrt(d) * rng.normal(size=(n, classes))
    return X, np.argmax(scores, axis=1)


def seconds(data: tuple[np.ndarray, np.ndarray], bounds: tuple[int, int]) -> float:
    problem.IN_ARRAYS = bounds
    before = time.process_time()
    assert sm.train(data, loss="logistic", threads=1).converged
    return time.process_time() - before


def hinge(repeats: int) -> None:
    """Warm fits of two classes."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    warnings.simplefilter("ignore")  # LinearSVC's, of its iterations
    cancer, labels = load_breast_cancer(return_X_y=True)
    sets = {"60 x 5": rows(60, 5, 2), "breast cancer": (StandardScaler().fit_transform(cancer), labels)}
    print("| rows | ours | LinearSVC |\n|---|---|---|")
    for name, data in sets.items():
        fits = partial(sm.train, data, loss="hinge"), partial(LinearSVC(loss="hinge").fit, *data)
        pairs = [[timed(fit)[0] for fit in fits] for _ in range(repeats + 1)][1:]
        print(f"| {name} | {' | '.join(f'{1e3 * taken:.1f} ms' for taken in np.median(pairs, axis=0))} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, metavar="N")
    parser.add_argument("--hinge", action="store_true")
    options = parser.parse_args()
    if options.hinge:
        return hinge(options.repeats or 60)
    repeats = options.repeats or 5
    from sklearn.datasets import load_digits

    digits = load_digits(return_X_y=True)
    named = {"digits": (digits[0].astype(np.float32) / 16.0, digits[1])}
    named |= {f"{n:,} x {d}, {classes} classes": rows(n, d, classes) for n, d, classes in SHAPES}
    print("| rows | compiled | by NumPy | ratio |\n|---|---|---|---|")
    for name, data in named.items():
        pairs = [[seconds(data, bounds) for bounds in (NEVER, ALWAYS)] for _ in range(repeats + 1)][1:]
        compiled, arrays = np.median(pairs, axis=0)
        print(f"| {name} | {1e3 * compiled:.1f} ms | {1e3 * arrays:.1f} ms | {arrays / compiled:.2f} |", flush=True)


if __name__ == "__main__":
    main()
