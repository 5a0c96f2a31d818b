"""Tasks of the School data: passes and CPU seconds to a certified gap, under penalties that join the schools.

    python -m examples.benchmarks.tasks DATA_DIR [--tol 1e-6] [--memory 24M]

DATA_DIR holds school/school.mat as distributed. The training rows are 75% of those of each school, drawn at random. The
objective is that of the Pdprox paper, section 5.2: a mean loss with lambda, C = 1 / (lambda n), without a further
constant. MultiTaskLasso and skglm have the same rows for all tasks, so they do not solve it.
"""

import argparse
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
from scipy.io import loadmat

import streammargin as sm

SHARE, LAMBDAS = 0.75, (1e-3, 1e-5)
PAIRS = [("epsilon_insensitive:0.01", "l1inf"), ("absolute_error", "l1inf"), ("squared_error", "l1inf")]


def school(folder, seed=0):
    """(X, y, tasks) of the training rows."""
    file, random = loadmat(f"{folder}/school/school.mat"), np.random.default_rng(seed)
    rows, marks, tasks = [], [], []
    for number, (X, y) in enumerate(zip(file["X"].ravel(), file["Y"].ravel(), strict=True)):
        kept = random.permutation(len(y))[: round(SHARE * len(y))]
        rows.append(np.asarray(X, float)[kept])
        marks.append(np.ravel(y).astype(float)[kept])
        tasks.append(np.full(kept.size, number))
    return np.concatenate(rows), np.concatenate(marks), np.concatenate(tasks)


def stored(folder, X, y, tasks):
    """A file with these rows."""
    path = Path(folder) / "school.h5"
    with h5py.File(path, "w") as file:
        file["X"], file["y"], file["task"] = X, y, tasks
    return {"data": path, "tasks": "task"}


def main():
    """Print a row of a table for each pair of loss and penalty, and each lambda."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="DATA_DIR")
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--memory", help="read the rows from a file, with this budget")
    args = parser.parse_args()
    X, y, tasks = school(args.data)
    with tempfile.TemporaryDirectory() as folder:
        given = {"data": (X, y), "tasks": tasks}
        if args.memory:
            given = {**stored(folder, X, y, tasks), "memory": args.memory}
        table(given, len(y), args.tol)


def table(given, rows, tol):
    """Print the table of trainings on this many rows; given: where they are."""
    print("| loss | penalty | lambda | passes | CPU s | objective | certified gap |\n|---|---|---|---|---|---|---|")
    for loss, penalty in PAIRS:
        for lam in LAMBDAS:
            options = {**given, "loss": loss, "penalty": penalty, "C": 1.0 / (lam * rows), "bias": 0, "tol": tol}
            sm.train(passes=2, **options)  # compiles
            start = time.process_time()
            found = sm.train(passes=100, **options)
            spent, figures = time.process_time() - start, found.certificate
            words = f"| `{loss}` | `{penalty}` | {lam:g} | {found.passes} | {spent:.2g}"
            print(f"{words} | {lam * figures.primal:.8f} | {figures.gap:.1e} |", flush=True)


if __name__ == "__main__":
    main()
