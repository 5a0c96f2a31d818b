"""Sparse weights, arrays in memory: ours beside Algorithm 1 of the Pdprox paper, HiGHS, and peers for smooth losses.

    python -m examples.benchmarks.nonsmooth DATA_DIR [--quick] [--out nonsmooth.jsonl]

DATA_DIR holds a9a/, rcv1sub/, splice_donor/ as distributed. The hinge with l1 and group; logistic, squared hinge and
squared error (of labels -1 and 1) with l1 and elasticnet (half of each); C = 1 / (lambda n). Groups are the 14
attributes of a9a, runs of 10 columns of rcv1sub, the choices of positions of splice_donor. Ours prove each gap, start
and certificates included; all others are held to the objective only, at their loosest setting that reaches it, and cut
off at 20 times our time. Algorithm 1 is `pdprox:dual`, ours, and the best of 15 pairs of steps. No constant
column on any side; compile time is taken off. A run that was stopped goes on with the rows that are missing.
--quick takes the hinge alone.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import numpy as np

from examples.benchmarks.judge import Penalised
from examples.benchmarks.report import line, picture, table
from examples.benchmarks.ruler import Limits, measure
from examples.benchmarks.sets import WORK, load, make
from examples.benchmarks.sides import OURS, PENALISED, find, peers
from examples.benchmarks.store import Store, machine
from examples.benchmarks.worker import Failed, Worker, hold_threads

KEY = ("set", "at_most", "loss", "lambda", "side", "threads")
SETS = ("a9a", "rcv1sub", "splice_donor")
LAMBDAS = (1e-3, 1e-5)
HINGE = ("hinge l1", "hinge group")
SMOOTH = tuple(
    f"{loss} {penalty}" for loss in ("logistic", "squared_hinge", "squared_error") for penalty in ("l1", "elasticnet")
)
# the last column, from 1, of each of the 14 attributes that a9a is made of
ATTRIBUTES = (5, 13, 18, 34, 39, 46, 60, 66, 71, 73, 75, 77, 82, 123)
RUN = 10  # columns of a group of rcv1sub
POSITIONS = (7, 21, 35)  # choices of one, two and three positions, of 4, 16 and 64 words


def groups_of(name: str, columns: int) -> np.ndarray:
    """Which columns of a set belong together (columns,)."""
    if name == "a9a":
        return np.searchsorted(ATTRIBUTES, np.arange(columns), side="right")
    if name == "rcv1sub":
        return np.arange(columns) // RUN
    return np.repeat(np.arange(sum(POSITIONS)), np.repeat([4, 16, 64], POSITIONS))


def main() -> None:
    options = arguments()
    hold_threads(options.threads)
    store = Store(options.out, KEY)
    for name in options.sets:
        if not any(missing(store, name, loss, lam, options) for loss in options.losses for lam in options.lambdas):
            continue
        try:
            path = make(name, options.data, options.work, options.rows)
        except FileNotFoundError as fault:
            print(f"{name}: left out, {fault}", flush=True)
            continue
        for loss in options.losses:
            for lam in options.lambdas:
                for row in rows(name, path, loss, lam, missing(store, name, loss, lam, options), options):
                    store.add(row)
                    print(line(row), flush=True)
    print()
    print(table(store.rows))
    if store.rows:
        print(f"\nrows in {options.out}, picture in {picture(store.rows, os.path.splitext(options.out)[0] + '.png')}")


def missing(store: Store, name: str, loss: str, lam: float, options: argparse.Namespace) -> list[str]:
    """Sides that support the loss and the penalty and have no row yet."""
    key = {"set": name, "at_most": options.rows, "loss": loss, "lambda": lam, "threads": options.threads}
    serve = [side for side in options.peers if tuple(loss.split()) in find(side).losses]
    ours = [f"{OURS} {solver}" for solver in options.solvers]
    return [side for side in (*ours, *serve) if store.find(**key, side=side) is None]


def rows(
    name: str, path: str, loss: str, lam: float, sides: list[str], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Rows of one problem for these sides; ours is measured beside them in any case, as their limit."""
    if not sides:
        return []
    X, y, _, _ = load(name, path, options.rows)
    n, d = X.shape
    C = 1.0 / (lam * n)
    which, penalty = loss.split()
    problem = Penalised(which, penalty, groups_of(name, d) if penalty == "group" else None)
    first = f"{OURS} {options.solvers[0]}"
    workers = {}
    for side in (first, *(side for side in sides if side != first)):
        worker = Worker(side, name, path, options.rows, options.threads)
        try:
            worker.start()
            workers[side] = worker
        except Failed as fault:
            print(f"{name}: {side} is left out, {fault}", flush=True)
    beside = list(workers)
    try:
        found = measure(beside, workers, problem, C, options.gaps, options.limits, lambda W: {
            "objective": problem.objective(X, y, W, C), "nonzero": int(np.count_nonzero(W)),
        })  # fmt: skip
    except Failed as fault:
        print(f"{name}: {loss}, lambda = {lam:g} is left out, {fault}", flush=True)
        return []
    finally:
        for worker in workers.values():
            worker.close()
    shape = {"rows": n, "features": d, "entries": int(X.nnz)}
    return [
        {"set": name, "at_most": options.rows, "loss": loss, "lambda": lam, "C": C, "side": side,
         "threads": options.threads, **shape, **row, "machine": machine()}
        for side, row in zip(beside, found, strict=True) if side in sides
    ]  # fmt: skip


def arguments() -> argparse.Namespace:
    """The options, with their defaults filled in."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def words(text: str) -> list[str]:
        return [word for word in text.split(",") if word]

    def numbers(text: str) -> list[float]:
        return [float(word) for word in text.split(",")]

    names = list(peers(PENALISED))
    parser.add_argument("data", metavar="DATA_DIR")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", default="nonsmooth.jsonl", metavar="FILE.jsonl")
    parser.add_argument("--work", default=WORK, help="where the sets are kept as HDF5 (%(default)s)")
    parser.add_argument("--sets", type=words, default=list(SETS))
    parser.add_argument("--solvers", type=words, default=["auto"],
                        help="ours; the first one is the limit of the peers (auto)")  # fmt: skip
    parser.add_argument("--peers", type=words, default=names, help=f"of {', '.join(names)}")
    parser.add_argument("--losses", type=words, help=f"of {', '.join((*HINGE, *SMOOTH))}")
    parser.add_argument("--lambdas", type=numbers, default=list(LAMBDAS))
    parser.add_argument("--gaps", type=numbers, default=[1e-2, 1e-3])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600.0, help="the longest that any one call may take")
    parser.add_argument("--rows", type=int, help="at most so many rows of a set, for a trial")
    options = parser.parse_args()
    for name in (*options.peers, *options.sets):
        if name not in names and name not in SETS:
            parser.error(f"{name} is neither a set nor a peer")
    options.losses = options.losses or list(HINGE if options.quick else (*HINGE, *SMOOTH))
    options.limits = Limits(options.seconds, reference=2.0 * options.seconds, repeats=options.repeats)
    return options


if __name__ == "__main__":
    main()
