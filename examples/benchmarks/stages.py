"""What newton's stages earn: CPU seconds with a stage, without it, and of `solver=ascent`, in turns.

    python -m examples.benchmarks.stages ascent|rows|conjugate|sampled --data FOLDER [--rounds 3]

Each line has the set, the loss and C; then CPU seconds as it is, those of `ascent` over that, and those without the
stage over that. They are medians, and each has its passes behind it, below 0 if the tolerance was not met. Without
`ascent` newton begins by steps from a sample, without `rows` and `conjugate` by what follows these. Beside `sampled`
stands ascent alone.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import statistics
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import h5py
import numpy as np

import streammargin as sm
from examples.benchmarks.outputs import letter, rows_of, table
from examples.benchmarks.sets import WORK, load, make
from streammargin.compiled.jit import compile_seconds
from streammargin.solvers.newton import conjugate, newton

LONG = 2.0  # CPU seconds of a training that is not repeated
WITHOUT = {
    "ascent": (newton, "begins_by_ascent"),
    "rows": (newton, "begins_by_rows"),
    "conjugate": (conjugate, "suits"),
}
WAYS = "as is", "ascent", "without"
Rows = tuple[Any, np.ndarray]


def noisy(rows: int, columns: int) -> Rows:
    """Two classes of normal rows; the sign of half of the score is noise."""
    random = np.random.default_rng(0)
    X, w = random.standard_normal((rows, columns)).astype(np.float32), random.standard_normal(columns)
    return X, (X @ w + 0.5 * np.sqrt(columns) * random.standard_normal(rows) > 0).astype(int)


def means(rows: int, columns: int, classes: int) -> Rows:
    """Rows of length 1: class means and noise."""
    random = np.random.default_rng(0)
    centres, y = random.standard_normal((classes, columns)), random.integers(0, classes, rows)
    X = centres[y] + 2.0 * random.standard_normal((rows, columns))
    return (X / np.linalg.norm(X, axis=1)[:, None]).astype(np.float32), y


def cases(stage: str, data: str) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """(The set, its rows, options)."""

    def two(name: str, rows: int) -> Rows:
        return load(name, make(name, data, WORK), rows)[:2]

    def many(name: str, rows: int | None = None) -> Rows:
        X, y = rows_of(name, data, rows)
        X = np.asarray(X.todense() if hasattr(X, "todense") else X, np.float32)
        return X / np.maximum(np.abs(X).max(axis=0), 1e-12), y

    pairs: dict[str, Rows] = {}
    sets: dict[str, Rows] = {}
    if stage in ("ascent", "conjugate"):
        pairs = {name: two(name, 3000) for name in ("E", "D", "mnist35")}
        pairs |= {"noisy, 5,000 x 300": noisy(5000, 300), "noisy, 4,000 x 600": noisy(4000, 600)}
    if stage in ("rows", "conjugate"):
        X, y = letter()
        sets = {
            "digits": many("digits"),
            "letter, 5,000": (X[:5000], y[:5000]),
            "mnist10, 1,500": many("mnist10", 1500),
        }
        sets["20 means, 4,000 x 256"] = means(4000, 256, 20)
    for name, rows in pairs.items():
        for loss in ("hinge",) if stage == "ascent" else ("logistic", "squared_hinge"):
            yield name, rows, {"loss": loss}
    for name, rows in sets.items():
        for loss in ("hinge", "logistic") if stage == "rows" else ("logistic",):
            yield name, rows, {"loss": loss, "multiclass": "joint"}
    if stage == "sampled":
        for name, (X, y), memory in (
            ("20 means, 20,000 x 256", means(20_000, 256, 20), "20M"),
            ("mnist10, 12,000", many("mnist10", 12_000), "32M"),
        ):
            path = os.path.join(WORK, f"stages{len(X)}.h5")
            with h5py.File(path, "w") as file:
                file["X"], file["y"] = X, y
            yield name, path, {"loss": "logistic", "multiclass": "joint", "memory": memory}


def no(problem: Any) -> bool:
    """No problem begins with the stage."""
    return False


def trained(rows: Any, options: dict[str, Any]) -> tuple[float, int]:
    """CPU seconds and passes of a training, once its kernels are compiled."""
    while True:
        compiled, begun = compile_seconds(), time.process_time()
        found = sm.train(rows, bias=0, threads=1, **options)
        spent = time.process_time() - begun
        if compile_seconds() == compiled:
            return spent, found.passes if found.converged else -found.passes


def turns(stage: str, rows: Any, options: dict[str, Any], rounds: int) -> list[Any]:
    """CPU seconds as it is, and its passes; then the ratios of other ways, with theirs, below 0 if tol was not met."""
    spent, passes = {way: list[float]() for way in WAYS[: 2 if stage == "sampled" else 3]}, dict[str, int]()
    for _ in range(rounds):
        for way, own in spent.items():
            if own and own[-1] > LONG:
                continue
            changed = mock.patch.object(*WITHOUT[stage], no) if way == "without" else contextlib.nullcontext()
            with changed:
                seconds, passes[way] = trained(rows, {**options, "solver": "ascent" if way == "ascent" else "newton"})
            own.append(seconds)
    first, *others = (statistics.median(own) for own in spent.values())
    shares = [first, *(other / first for other in others)]
    return [cell for pair in zip(shares, passes.values(), strict=True) for cell in pair]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["ascent", "rows", "conjugate", "sampled"])
    parser.add_argument("--data", metavar="FOLDER", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    logging.disable()
    for name, rows, given in cases(options.stage, options.data):
        for C in (0.01, 1.0, 100.0):
            table(
                name, given["loss"], C, *turns(options.stage, rows, {**given, "C": C, "passes": 3000}, options.rounds)
            )


if __name__ == "__main__":
    main()
