"""Penalties that leave few weights: CPU seconds and reads to a certified gap of dense rows, in memory or from a file.

    python -m examples.benchmarks.few_columns [--rows 20000] [--columns 300] [--memory 32M] [--losses logistic]
        [--penalties l1] [--shares .3,.1,.03,.01] [--solvers newton,pdprox] [--tol 1e-3] [--repeats 5]
        [--adelie PYTHON]

--shares are lambda relative to the least for which all weights are 0. With --memory the rows are in a file. Fifteen
columns carry the labels, and ten factors join all columns. Solvers take turns. PYTHON has adelie, which needs numpy<2,
in its own environment. It fits the logistic loss with its loosest tolerance that reaches the objective of ours.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import streammargin as sm
from examples.benchmarks.judge import Penalised
from examples.benchmarks.sides.sparse import SHARES, TOLERANCES
from examples.benchmarks.worker import hold_threads, timed

FACTORS, CARRY, NOISE = 10, 15, 0.5
ADELIE = """
import json, sys, time
import adelie, numpy as np
rows = np.load(sys.argv[1])
X, y = np.asfortranarray(rows["X"], np.float64), (rows["y"] > 0).astype(np.float64)
for line in sys.stdin:
    C, alpha, tol = json.loads(line)
    begun = time.process_time()
    found = adelie.grpnet(
        X, adelie.glm.binomial(y), alpha=alpha, lmda_path=[1.0 / (len(y) * C)], intercept=False, tol=tol, irls_tol=tol,
        early_exit=False, progress_bar=False,
    )
    print(json.dumps([time.process_time() - begun, found.betas.toarray()[-1].tolist()]), flush=True)
"""
Call = Callable[[], tuple[float, np.ndarray, str]]  # CPU seconds, weights (1, d), and what to say


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
    parser.add_argument("--adelie", metavar="PYTHON", help="of an environment that has adelie")
    options = parser.parse_args()
    hold_threads(1)
    warnings.simplefilter("ignore")
    X, y = rows_of(options.rows, options.columns)
    steepest = float(np.abs(X.astype(np.float64).T @ y).max())
    solvers = options.solvers.split(",")
    sides = [*solvers, "adelie"] if options.adelie else solvers
    print("| loss | penalty | share | weights | " + " | ".join(sides) + " |")
    print("|---" * (4 + len(sides)) + "|")
    with tempfile.TemporaryDirectory() as folder:
        data: Any = (X, y)
        peer = Adelie(options.adelie, X, y, folder) if options.adelie else None
        if options.memory:
            data = str(Path(folder) / "rows.h5")
            sm.write_hdf5([(X, y)], data)
        for loss in options.losses.split(","):
            bend = {"hinge": 1.0, "squared_hinge": 2.0}.get(loss, 0.5)  # the slope of the loss at a margin of 0
            for penalty in options.penalties.split(","):
                for share in map(float, options.shares.split(",")):
                    given = {"loss": loss, "penalty": penalty, "C": 1.0 / (share * bend * steepest), "passes": 1000}
                    given |= {"tol": options.tol, "bias": 0, **({"memory": options.memory} if options.memory else {})}
                    calls = [partial(train, data, {**given, "solver": solver}) for solver in solvers]
                    if peer is not None:
                        calls.append(peer.reaching(Penalised(loss, penalty), given))
                    weights, told = beside(calls, options.repeats)
                    print(f"| {loss} | {penalty} | {share:g} | {weights} | " + " | ".join(told) + " |", flush=True)


class Adelie:
    """A process of another environment, which fits the logistic loss."""

    def __init__(self, python: str, X: np.ndarray, y: np.ndarray, folder: str) -> None:
        np.savez(Path(folder) / "rows.npz", X=X, y=y)
        command = [python, "-c", ADELIE, str(Path(folder) / "rows.npz")]
        self.X, self.y = X, y
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def fit(self, problem: Penalised, C: float, tol: float) -> tuple[float, np.ndarray, str]:
        print(json.dumps([C, SHARES[problem.penalty], tol]), file=self.process.stdin, flush=True)
        assert self.process.stdout is not None
        seconds, w = json.loads(self.process.stdout.readline())
        return seconds, np.array([w]), f"tol {tol:g}"

    def reaching(self, problem: Penalised, given: dict[str, Any]) -> Call:
        """A fit with the loosest tolerance whose objective is within the gap, by a dual of ours."""
        dual = sm.train((self.X, self.y), **{**given, "tol": 1e-2 * given["tol"]}).certificate.dual
        for tol in TOLERANCES if problem.loss == "logistic" else ():
            value = problem.objective(self.X, self.y, self.fit(problem, given["C"], tol)[1], given["C"])
            if value - dual <= given["tol"] * value:
                return partial(self.fit, problem, given["C"], tol)
        return lambda: (float("inf"), np.zeros((1, 0)), "not reached")


def train(data: Any, given: dict[str, Any]) -> tuple[float, np.ndarray, str]:
    seconds, result = timed(lambda: sm.train(data, **given))
    return seconds, result.model.coef_, f"{result.passes}{'' if result.converged else ', not converged'}"


def beside(calls: list[Call], repeats: int) -> tuple[int, list[str]]:
    """(weights of the first that are not 0, CPU seconds of each and what it says); the first of its fits compiles."""
    rounds = [[call() for call in calls] for _ in range(repeats + 1)][1:]
    told = [f"{median(seconds for seconds, *_ in own):.3f} ({own[-1][2]})" for own in zip(*rounds, strict=True)]
    return int(np.count_nonzero(rounds[-1][0][1])), told


if __name__ == "__main__":
    main()
