"""Fits of small problems with one loss of all scores: rows visited by NumPy, beside compiled loops.

    python -m examples.benchmarks.in_arrays [--repeats 5]

It prints CPU seconds of a fit once all kernels are compiled, medians of both in turns, at C = 1 and a gap of 1e-3.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import streammargin as sm
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, metavar="N")
    repeats = parser.parse_args().repeats
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
