"""Ours beside learners that see one row at a time, on the same file: time and reads to a good held-out error.

    python -m examples.benchmarks.held_out DATA_DIR [--quick] [--sets B,rcv50] [--memory 256M] [--objective]

A side has got there when the held-out error of its current weights is within 0.1 points of the optimum's and stays so
to its end. SGDClassifier.partial_fit gets the blocks of our reader, Vowpal Wabbit its own cache; both are tuned over
the grids below and shown at their fastest setting, whose search no clock counts; judging is outside all clocks.
Ours is shown with the weights in memory after each pass, and at the certified end. Seconds and reads are those of
training from a file in the page cache; the suboptimality that SGD's weights have then stands beside. With --objective
the table has the least suboptimality after as many reads instead, of any setting of the grid.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import streammargin as sm
from examples.benchmarks.disk import bytes_read, matrices, row_bytes
from examples.benchmarks.judge import error, objective
from examples.benchmarks.large_sets import LARGE
from examples.benchmarks.sets import SETS, WORK, Set, generated, make, read, test_file
from examples.benchmarks.sides.wabbit import bits, read_weights, write_text
from examples.benchmarks.store import Store, machine
from examples.benchmarks.worker import hold_threads
from streammargin.compiled.jit import compile_seconds
from streammargin.data_tools.split import split

KEY = ("set", "at_most", "C", "side")
WITHIN = 1e-3  # 0.1 points
SGD_GRID = {"factor": (0.1, 1.0, 10.0), "average": (False, True)}  # alpha = factor / (C n)
WABBIT_GRID = {"rate": (0.02, 0.1, 0.2, 0.5, 2.0), "power": (0.5, 1.0)}  # -l, --power_t
WABBIT_PASSES = (1, 2, 3, 5, 10)
LONG = generated(3_000_000, features=65_536, sparse=True, nonzeros=400, noise=0.1)
TABLE: dict[str, Set] = {**SETS, **LARGE, "text": Set("text-like, 3,000,000 x 65,536, 10 GB", LONG)}


class Task:
    """Training file and judge of one problem: hinge, no constant column."""

    def __init__(self, path: str, C: float, memory: str) -> None:
        self.path, self.C, self.memory = path, C, memory
        self.X, self.y = read(path)
        self.X_test, self.y_test = read(test_file(path))
        self.classes = np.unique(self.y)
        self.y, self.y_test = (np.where(y == self.classes[1], 1, -1) for y in (self.y, self.y_test))

    def figures(self, w: np.ndarray) -> dict[str, float]:
        """Held-out error and objective of weights (1, d)."""
        return {"error": error(self.X_test, self.y_test, w), "objective": objective(self.X, self.y, w, self.C, "hinge")}


def ours(task: Task, solver: str, tol: float, seconds: float) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(the weights after every pass, the certified end): seconds, reads, error, objective of each."""
    options = {"C": task.C, "bias": 0, "solver": solver, "memory": task.memory, "tol": tol, "max_seconds": seconds}
    points: list[dict[str, Any]] = []

    def train(passes: int) -> tuple[Any, list[dict[str, Any]]]:
        ends: list[dict[str, Any]] = []
        before, started = bytes_read() + 8 * len(task.y), time.perf_counter()  # labels are no rows

        def listen(event: dict[str, Any]) -> None:
            if event["event"] == "pass_end":
                ends.append({"seconds": time.perf_counter() - started, "reads": (bytes_read() - before) / size})

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = sm.train(task.path, listeners=[listen], passes=passes, **options)
        ends.append({"seconds": time.perf_counter() - started, "reads": (bytes_read() - before) / size})
        return result, ends

    with sm.open_source(task.path) as source:
        size = row_bytes(source)
    compiled = compile_seconds()
    result, ends = train(10**6)
    if compile_seconds() > compiled:
        result, ends = train(10**6)
    end = {**ends[-1], "gap": result.certificate["gap"], **task.figures(result.model.coef_)}
    for passes in range(1, min(result.passes, 12) + 1):
        cut, ends = train(passes)
        points.append({"setting": f"{passes} passes", **ends[-2], **task.figures(cut.model.coef_)})
    return points, end


def sgd(task: Task, factor: float, average: bool, most: int, seconds: float) -> Iterator[dict[str, Any]]:
    """The weights of SGDClassifier after every block, until `most` reads or `seconds`."""
    from sklearn.linear_model import SGDClassifier

    rows = len(task.y)
    model = SGDClassifier(alpha=factor / (task.C * rows), average=average, fit_intercept=False, random_state=0)
    taken = 0.0
    for epoch in range(most):
        with sm.open_source(task.path) as source:
            for start, stop, X in matrices(source):
                started = time.perf_counter()
                model.partial_fit(X, task.y[start:stop], classes=[-1, 1])
                taken += time.perf_counter() - started
                yield {"seconds": taken, "reads": epoch + stop / rows, "w": model.coef_.copy()}
                if taken > seconds:
                    return


def wabbit(task: Task, folder: str, rate: float, power: float, seconds: float | None) -> Iterator[dict[str, Any]]:
    """The weights of Vowpal Wabbit after each number of passes over its cache.

    seconds: the clock, with a run for each number of passes; None: none, and one run that saves them all.
    """
    from vowpalwabbit import Workspace

    base, d = os.path.join(folder, "rows"), task.X.shape[1]
    common = f"-d {base} --cache_file {base}.cache -b {bits(d)} --noconstant --quiet --holdout_off --random_seed 0"
    if not os.path.exists(f"{base}.cache"):
        write_text(task.X, task.y, base)
        Workspace(f"{common} -k").finish()
    how = f"{common} --loss_function hinge --l2 {1.0 / (task.C * len(task.y))!r} -l {rate} --power_t {power}"
    if seconds is None:
        Workspace(f"{how} --passes {WABBIT_PASSES[-1]} -f {base}.model --save_per_pass --predict_only_model").finish()
    for passes in WABBIT_PASSES:
        started = time.perf_counter()
        if seconds is None:
            Workspace(f"-i {base}.model.{passes} -t --quiet --readable_model {base}.txt").finish()
        else:
            Workspace(f"{how} --passes {passes} --predict_only_model --readable_model {base}.txt").finish()
        taken = time.perf_counter() - started
        yield {"seconds": taken, "reads": float(passes), "w": read_weights(f"{base}.txt", d)}
        if seconds is not None and taken > seconds:
            return


def settled(points: list[dict[str, Any]], wanted: float) -> dict[str, Any] | None:
    """The first point from which on the error stays at most `wanted`."""
    found = None
    for point in reversed(points):
        if point["error"] > wanted:
            break
        found = point
    return found


def tuned(task: Task, wanted: float, grid: dict[str, tuple], run: Any) -> tuple[dict[str, Any] | None, float]:
    """(the fastest point of the grid that has got there and stays, the smallest error that was met)."""
    best, least = None, 1.0
    for values in itertools.product(*grid.values()):
        setting = dict(zip(grid, values, strict=True))
        points = []
        for point in run(**setting):
            w = point.pop("w")
            points.append({**point, "setting": setting, "error": error(task.X_test, task.y_test, w)})
            if (found := settled(points, wanted)) is points[-1]:
                found["objective"] = objective(task.X, task.y, w, task.C, "hinge")
        least = min(least, *(point["error"] for point in points))
        found = settled(points, wanted)
        if found is not None and (best is None or found["seconds"] < best["seconds"]):
            best = found
    return best, least


def measure(name: str, path: str, C: float, options: argparse.Namespace, store: Store) -> None:
    """The rows of one set and C that are missing."""
    key = {"set": name, "at_most": options.rows, "C": C}
    sides = [f"streammargin {options.solver}", "SGDClassifier", "Vowpal Wabbit"]
    if all(store.find(**key, side=side) for side in sides):
        return
    task = Task(path, C, options.memory)
    optimum = sm.train((task.X, task.y), C=C, solver=options.solver, tol=1e-4, passes=10**6, bias=0,
                       max_seconds=options.seconds)  # fmt: skip
    target, bound = task.figures(optimum.model.coef_)["error"], optimum.certificate["dual"]
    points, end = ours(task, options.solver, 1e-3, options.seconds)
    limit = 20.0 * end["seconds"]
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        for side in sides:
            if store.find(**key, side=side):
                continue
            row: dict[str, Any] = {**key, "side": side, "optimum_error": target, "machine": machine()}
            try:
                if side == sides[0]:
                    found, least = settled(points, target + WITHIN), min(point["error"] for point in [*points, end])
                    row["certified_end"] = end
                elif side == "SGDClassifier":
                    run = lambda factor, average: sgd(task, factor, average, options.most, limit)  # noqa: E731
                    found, least = tuned(task, target + WITHIN, SGD_GRID, run)
                else:
                    run = lambda rate, power: wabbit(task, folder, rate, power, limit)  # noqa: E731
                    found, least = tuned(task, target + WITHIN, WABBIT_GRID, run)
            except ImportError as fault:
                print(f"{name}: {side} is left out, {fault}", flush=True)
                continue
            if found is not None:
                found["suboptimality"] = found["objective"] / bound - 1.0
            store.add({**row, "there": found, "least_error": least})
            print(line(store.rows[-1]), flush=True)


def table_of_objectives(path: str, C: float, options: argparse.Namespace) -> None:
    """The least suboptimality of each side after as many reads, of any setting; of ours also the certified end."""
    task = Task(path, C, options.memory)
    optimum = sm.train((task.X, task.y), C=C, solver=options.solver, tol=1e-4, passes=10**6, bias=0)
    points, end = ours(task, options.solver, 1e-3, options.seconds)
    print(f"certified {end['gap']:.1e} after {end['reads']:.1f} reads; above the optimum after as many reads:")

    def tell(side: str, found: dict[float, float]) -> None:
        above = [f"{reads:.1f}: {value / optimum.certificate['dual'] - 1.0:.1e}" for reads, value in found.items()]
        print(f"| {side} | {', '.join(above)} |", flush=True)

    tell("streammargin", {point["reads"]: point["objective"] for point in [*points, end]})
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        runs = {
            "SGDClassifier": (SGD_GRID, lambda **given: sgd(task, **given, most=options.most, seconds=math.inf)),
            "Vowpal Wabbit": (WABBIT_GRID, lambda **given: wabbit(task, folder, **given, seconds=None)),
        }
        for side, (grid, run) in runs.items():
            least: dict[float, float] = {}
            for values in itertools.product(*grid.values()):
                setting = dict(zip(grid, values, strict=True))
                found = {
                    point["reads"]: objective(task.X, task.y, point["w"], C, "hinge")
                    for point in run(**setting)
                    if point["reads"] in WABBIT_PASSES
                }
                tell(f"{side} {setting}", found)
                least = {reads: min(value, least.get(reads, math.inf)) for reads, value in found.items()}
            tell(side, least)


def line(row: dict[str, Any]) -> str:
    """The text that is printed when a row was measured."""
    found = row["there"]
    there = f"never within 0.1 points, least {row['least_error']:.4f}"
    if found is not None:
        there = (f"{found['seconds']:.2f} s, {found['reads']:.2f} reads, error {found['error']:.4f}, "
                 f"suboptimality {found['suboptimality']:.1e} ({found['setting']})")  # fmt: skip
    end = row.get("certified_end")
    certified = "" if end is None else f"; certified {end['gap']:.1e} after {end['seconds']:.2f} s"
    return f"{row['set']:<10} C={row['C']:<5g} {row['side']:<18} optimum {row['optimum_error']:.4f}: {there}{certified}"


def prepared(name: str, options: argparse.Namespace) -> str:
    """The training file of a set, beside which there are held-out rows; generated sets are split 95/5 for it."""
    path = make(name, options.data, options.work, options.rows, TABLE)
    if os.path.exists(test_file(path)):
        return path
    train = path.removesuffix(".h5") + ".train.h5"
    if not os.path.exists(train):
        split(path, train, test_file(train), test_size=0.05, seed=0, force=True)
    return train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="DATA_DIR", help="the folder of the real sets, as for in_memory")
    parser.add_argument("--quick", action="store_true", help="the rcv1 subset at C = 1 alone")
    parser.add_argument("--objective", action="store_true", help="objectives after as many reads")
    parser.add_argument("--out", default="held_out.jsonl", metavar="FILE.jsonl")
    parser.add_argument("--work", default=WORK, help="where the files are kept (%(default)s)")
    parser.add_argument("--sets", type=lambda text: text.split(","), help=f"of {', '.join(TABLE)} (rcv1sub,B,rcv50)")
    parser.add_argument("--C", type=lambda text: [float(part) for part in text.split(",")], default=[1.0])
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--memory", default="256M")
    parser.add_argument("--most", type=int, default=10, help="reads that SGD may make at a setting (10)")
    parser.add_argument("--seconds", type=float, default=900.0, help="the longest that a training of ours may take")
    parser.add_argument("--rows", type=int, help="at most so many rows of a set, for a trial")
    options = parser.parse_args()
    hold_threads(1)
    os.makedirs(options.work, exist_ok=True)
    store = Store(options.out, KEY)
    for name in options.sets or (["rcv1sub"] if options.quick else ["rcv1sub", "B", "rcv50"]):
        try:
            path = prepared(name, options)
        except FileNotFoundError as fault:
            print(f"{name}: left out, {fault}", flush=True)
            continue
        for C in options.C:
            if options.objective:
                table_of_objectives(path, C, options)
            else:
                measure(name, path, C, options, store)


if __name__ == "__main__":
    main()
