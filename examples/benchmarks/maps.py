"""Linear solvers behind a map: reads of a file to a certified 1e-3, and accuracies beside scikit-learn's Nystroem.

    python -m examples.benchmarks.maps FOLDER [--sets mnist35,covtype20k] [--costs 1,10,100]
        [--losses hinge,logistic] [--solvers ascent,newton] [--memory 10%] | --accuracies [--columns 500,1500]

Each training has rows on disk and one thread. Reads are the bytes that it read, divided by those of the rows: the
map's own read and certificates are among them. A budget in percent is that share of the mapped rows' bytes, on top of
the least one that the solver accepts.

--accuracies: instead, of test rows. Three seeds hold out a fifth of the training rows, which choose C and gamma with
the first number of columns. Then three seeds train on all training rows. Ours draws the rows that others are compared
with, or takes those that k-means++ chooses, with the same C and gamma. The peer is scikit-learn's Nystroem with
LinearSVC. All have the squared hinge.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import logging
import os
import warnings
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from sklearn.cluster import kmeans_plusplus
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

import streammargin as sm
from examples.benchmarks.disk import row_bytes
from examples.benchmarks.out_of_core import one, size
from examples.benchmarks.sets import WORK, load, make
from streammargin.sources.batch import Batch
from streammargin.sources.hdf5.write import writing

TOL, LONGEST = 1e-3, 200.0  # the gap, and the seconds of a training at most
SEEDS, FACTORS, COSTS = range(3), (1.0, 4.0), [1.0, 10.0, 100.0]  # FACTORS: of gamma = scale


class Chosen(sm.maps.Nystroem):
    """The Nystroem map on rows that k-means++ chooses of five times as many."""

    name = "chosen"

    @property
    def sample(self) -> int:
        return 5 * self.columns

    def learn(self, seen: Any) -> dict[str, Any]:
        centres, _ = kmeans_plusplus(seen.sample, self.columns, random_state=seen.seed)
        return super().learn(seen._replace(sample=centres))


def file_of(name: str, folder: str) -> str:
    """The file of the training rows of a set, with labels of -1 and 1."""
    path = os.path.join(WORK, f"{name}.two.h5")
    if not os.path.exists(path):
        X, y, *_ = load(name, make(name, folder, WORK))
        X = X.tocsr() if hasattr(X, "tocsr") else X
        with writing(path, True, X.dtype, sparse=hasattr(X, "indptr"), features=X.shape[1]) as writer:
            parts = (X.data, X.indices, X.indptr.astype(np.int64)) if hasattr(X, "indptr") else (None, None, None)
            writer.append(Batch(None if parts[0] is not None else X, *parts, y, None))
    return path


def reads(path: str, columns: int, memory: str, training: dict[str, Any]) -> str:
    """Reads and CPU seconds to the gap, or the gap that is left; of the second of two runs, as the first compiles."""
    training = {
        "map": f"nystroem:{columns}",
        "tol": TOL,
        "passes": 100,
        "max_seconds": LONGEST,
        "threads": 1,
    } | training
    with sm.open_source(path) as source:
        total, mapped = row_bytes(source), 4 * columns * source.rows
        labels = 8 * source.rows
    budget = size(path, memory, mapped, training)
    one(path, budget, "cached", {**training, "passes": 3}, total, labels)
    run = one(path, budget, "cached", training, total, labels)
    if TOL in run["reached"]:
        return f"{run['reached'][TOL]['reads']:.1f} ({run['reached'][TOL]['cpu']:.1f})"
    return f"{run['gap']:.1e} after {run['reads']:.0f} ({run['cpu']:.0f})"


Rows = tuple[Any, np.ndarray]


def ours(kind: type[sm.maps.Nystroem], rows: Rows, out: Rows, how: tuple[int, float, int], costs: list[float]) -> Any:
    columns, gamma, seed = how
    map, options = kind(columns, sm.kernels.Rbf(gamma)), {"loss": "squared_hinge", "tol": TOL, "max_seconds": LONGEST}
    found = sm.train(rows, map=map, C=costs, valid=out, seed=seed, threads=1, **options)
    trials = found.run_end["trials"] or [{"valid_error": found.certificate.valid_error}]
    return [1.0 - one["valid_error"] for one in trials]


def theirs(rows: Rows, out: Rows, how: tuple[int, float, int], costs: list[float]) -> list[float]:
    columns, gamma, seed = how
    map = Nystroem(gamma=gamma, n_components=columns, random_state=seed).fit(rows[0])
    mapped, other = map.transform(rows[0]), map.transform(out[0])
    models = [LinearSVC(C=C, tol=TOL, dual=False, random_state=seed).fit(mapped, rows[1]) for C in costs]
    return [model.score(other, out[1]) for model in models]


SIDES = {
    "rows drawn": functools.partial(ours, sm.maps.Nystroem),
    "centres of k-means++": functools.partial(ours, Chosen),
    "scikit-learn": theirs,
}


def accuracies(name: str, folder: str, widths: list[int]) -> None:
    """A line for each side and number of columns: gamma and C, held-out rows right, test rows right of each seed."""
    X, y, X_test, y_test = (
        part.toarray() if hasattr(part, "toarray") else part for part in load(name, make(name, folder, WORK))
    )
    scale = 1.0 / (X.shape[1] * float(X.var(dtype=np.float64)))
    splits = [train_test_split(X, y, test_size=0.2, random_state=seed) for seed in SEEDS]
    for side, fit in SIDES.items():
        if side != "centres of k-means++":  # these have the choice of rows drawn
            right = {}
            for factor in FACTORS:
                found = [fit((fewer, some), (out, others), (widths[0], factor * scale, seed), COSTS)
                         for seed, (fewer, out, some, others) in zip(SEEDS, splits, strict=True)]  # fmt: skip
                right |= {(factor, C): share for C, share in zip(COSTS, np.mean(found, axis=0), strict=True)}
            factor, C = max(right, key=lambda one: right[one])
        for columns in widths:
            test = [fit((X, y), (X_test, y_test), (columns, factor * scale, seed), [C])[0] for seed in SEEDS]
            each = f"{np.mean(test):.4f}: " + ", ".join(f"{one:.4f}" for one in test)
            print(f"| {name} | {columns} | {side} | {factor:g} scale, {C:g} | {right[factor, C]:.4f} | {each} |",
                  flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--sets", default="mnist35,covtype20k")
    parser.add_argument("--costs", default="1,10,100")
    parser.add_argument("--losses", default="hinge")
    parser.add_argument("--solvers", default="auto,ascent,newton")
    parser.add_argument("--memory", default="10%")
    parser.add_argument("--columns", default="")
    parser.add_argument("--accuracies", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()  # a best C at the end of the list, and trainings that stop before their tolerance, say so
    sets, costs = given.sets.split(","), [float(C) for C in given.costs.split(",")]
    if given.accuracies:
        print("| set | columns | side | gamma, C | held out | test: mean, each seed |\n" + "|---" * 6 + "|", flush=True)
        for name in sets:
            accuracies(name, given.folder, [int(columns) for columns in (given.columns or "500,1500").split(",")])
        return
    solvers = given.solvers.split(",")
    print(f"| set | loss | C | {' | '.join(solvers)} |\n" + "|---" * (3 + len(solvers)) + "|")
    for name, loss, C in itertools.product(sets, given.losses.split(","), costs):
        found = [reads(file_of(name, given.folder), int(given.columns or 500), given.memory,
                       {"loss": loss, "C": C, "solver": solver}) for solver in solvers]  # fmt: skip
        print(f"| {name} | {loss} | {C:g} | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main()
