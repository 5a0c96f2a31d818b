"""Penalties that leave few weights: CPU seconds and reads to a certified gap of dense rows, in memory or from a file.

    python -m examples.benchmarks.few_columns [--rows 20000] [--columns 300] [--memory 32M] [--losses logistic]
        [--penalties l1] [--shares .3,.1,.03,.01] [--solvers newton,pdprox] [--tol 1e-3] [--repeats 5]

--shares are lambda relative to the least for which all weights are 0. With --memory the rows are in a file. Fifteen
columns carry the labels, and ten factors join all columns. Solvers take turns.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import streammargin as sm
from examples.benchmarks.worker import hold_threads, timed

FACTORS, CARRY, NOISE = 10, 15, 0.5


def rows_of(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) float32 and their labels, -1 and 1."""
    rng = np.random.default_rng(0)
    joined = rng.standard_normal((rows, FACTORS)) @ rng.standard_normal((FACTORS, columns))
    X = (0.3 * joined + rng.standard_normal((rows, columns))).astype(np.float32)
    scores = X[:, :CARRY] @ rng.standard_normal(CARRY)
    return X, np.where(scores + NOISE * scores.std() * rng.logistic(size=rows) > 0.0, 1, -1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=300)
    parser.add_argument("--memory", help="of a training from a file; by default rows are an array")
    parser.add_argument("--losses", default="logistic")
    parser.add_argument("--penalties", default="l1")
    parser.add_argument("--shares", default=".3,.1,.03,.01")
    parser.add_argument("--solvers", default="newton,pdprox")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    hold_threads(1)
    warnings.simplefilter("ignore")
    X, y = rows_of(options.rows, options.columns)
    steepest = float(np.abs(X.astype(np.float64).T @ y).max())
    solvers = options.solvers.split(",")
    print("| loss | penalty | share | weights | " + " | ".join(solvers) + " |")
    print("|---" * (4 + len(solvers)) + "|")
    with tempfile.TemporaryDirectory() as folder:
        data: Any = (X, y)
        if options.memory:
            data = str(Path(folder) / "rows.h5")
            sm.write_hdf5([(X, y)], data)
        for loss in options.losses.split(","):
            bend = {"hinge": 1.0, "squared_hinge": 2.0}.get(loss, 0.5)  # the slope of the loss at a margin of 0
            for penalty in options.penalties.split(","):
                for share in map(float, options.shares.split(",")):
                    given = {"loss": loss, "penalty": penalty, "C": 1.0 / (share * bend * steepest), "passes": 1000}
                    given |= {"tol": options.tol, **({"memory": options.memory} if options.memory else {})}
                    weights, told = beside(data, given, solvers, options.repeats)
                    print(f"| {loss} | {penalty} | {share:g} | {weights} | " + " | ".join(told) + " |", flush=True)


def beside(data: Any, given: dict[str, Any], solvers: list[str], repeats: int) -> tuple[int, list[str]]:
    """(weights that are not 0, CPU seconds and reads of each solver); the first training compiles, and is left out."""
    taken: dict[str, list[float]] = {solver: [] for solver in solvers}
    found: dict[str, Any] = {}
    for _ in range(repeats + 1):
        for solver in solvers:
            seconds, found[solver] = timed(lambda name=solver: sm.train(data, solver=name, **given))
            taken[solver].append(seconds)
    told = [
        f"{median(taken[solver][1:]):.3f} ({result.passes}{'' if result.converged else ', not converged'})"
        for solver, result in found.items()
    ]
    return int(np.count_nonzero(found[solvers[0]].model.coef_)), told


if __name__ == "__main__":
    main()
