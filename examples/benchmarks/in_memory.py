"""streammargin and its peers, arrays in memory: seconds to a relative suboptimality of the objective.

    python -m examples.benchmarks.in_memory DATA_DIR [--quick] [--out in_memory.jsonl] [--solvers auto,newton]

DATA_DIR holds a9a/, covtype20k/, htru2/, mushrooms/, rcv1sub/, mnist/, imdb/ as distributed. Missing sets are named, as
are peers that are not installed (pip install '.[benchmarks]'). streammargin's time includes the start and the
certificates of each gap. A peer only has to reach the same objective. Its time is that of its loosest setting that
does; it is stopped at 20 times ours. LIBLINEAR's and Snap ML's times exclude the conversion of the rows. No side uses a
constant column. Compile time is subtracted, and recorded in the rows. A run that was stopped continues with the missing
rows. --quick uses some of the sets, and gaps down to 1e-3 (1e-6 for smooth losses). It takes smooth losses at C = 1, if
--C is not given. It starts nothing new after 17 minutes.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from examples.benchmarks.judge import error, objective
from examples.benchmarks.report import line, picture, table
from examples.benchmarks.ruler import Limits, measure
from examples.benchmarks.sets import SETS, WORK, load, make
from examples.benchmarks.sides import OURS, find, peers
from examples.benchmarks.store import Store, machine
from examples.benchmarks.worker import Failed, Worker, hold_threads

KEY = ("set", "at_most", "loss", "C", "side", "threads")
SMOOTH = ("squared_hinge", "logistic")
COSTS = (0.01, 1.0, 100.0)
LARGE = ("C", "imdb")  # in a quick run at C = 1 with the hinge alone
LEFT_OUT = ("mnist10", "rcv1topics", "splice_donor", "B", "mnist35")  # of a quick run; three are asked for by name


def problems(options: argparse.Namespace) -> list[tuple[str, str, float]]:
    """(set, loss, C) in the order in which they are measured."""
    chosen = []
    for name in options.sets or [name for name in SETS if name not in LEFT_OUT[: None if options.quick else 3]]:
        for loss in options.losses:
            for C in options.C or COSTS:
                if options.quick and not options.C and C != 1.0 and (loss != "hinge" or name in LARGE):
                    continue
                if options.quick and loss != "hinge" and name in LARGE:
                    continue
                chosen.append((name, loss, C))
    return chosen


def main() -> None:
    options = arguments()
    hold_threads(options.threads)
    store = Store(options.out, KEY)
    wanted = problems(options)
    started, left = time.perf_counter(), []
    for name in dict.fromkeys(name for name, _, _ in wanted):
        mine = [(loss, C) for other, loss, C in wanted if other == name]
        sides = [f"{OURS} {solver}" for solver in options.solvers] + options.peers
        todo = [(loss, C) for loss, C in mine if missing(store, name, loss, C, sides, options)]
        if not todo:
            continue
        try:
            path = make(name, options.data, options.work, options.rows)
        except FileNotFoundError as fault:
            print(f"{name}: left out, {fault}", flush=True)
            continue
        with Bench(name, path, sides, options) as bench:
            for loss, C in todo:
                if time.perf_counter() - started > 60.0 * options.minutes:
                    left.append((name, loss, C))
                    continue
                for row in bench.measure(loss, C, missing(store, name, loss, C, bench.sides, options)):
                    store.add(row)
                    print(line(row), flush=True)
    if left:
        print(f"not begun after {options.minutes:g} minutes, the same command goes on with them: "
              + "; ".join(f"{name} {loss} C={C:g}" for name, loss, C in left))  # fmt: skip
    print()
    print(table(store.rows))
    if store.rows:
        print(f"\nrows in {options.out}, picture in {picture(store.rows, os.path.splitext(options.out)[0] + '.png')}")


def missing(
    store: Store, name: str, loss: str, C: float, sides: list[str], options: argparse.Namespace
) -> list[str]:  # fmt: skip
    """Sides that support the loss and have no row yet."""
    key = {"set": name, "at_most": options.rows, "loss": loss, "C": C, "threads": options.threads}
    return [side for side in sides if loss in find(side).losses
            and store.find(**key, side=side) is None]  # fmt: skip


class Bench:
    """One set with a process for every side that can take it."""

    def __init__(self, name: str, path: str, sides: list[str], options: argparse.Namespace) -> None:
        self.name, self.options = name, options
        self.X, self.y, self.X_test, self.y_test = load(name, path, options.rows)
        self.workers = {side: Worker(side, name, path, options.rows, options.threads) for side in sides}
        self.sides = []
        for side in sides:
            try:
                self.workers[side].start()
                self.sides.append(side)
            except Failed as fault:
                print(f"{name}: {side} is left out, {fault}", flush=True)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *exc: object) -> None:
        for worker in self.workers.values():
            worker.close()

    def measure(self, loss: str, C: float, sides: list[str]) -> list[dict[str, Any]]:
        """Rows of one problem for these sides; ours is measured beside them in any case, as their limit."""

        def figures(W: Any) -> dict[str, Any]:
            return {
                "objective": objective(self.X, self.y, W, C, loss),
                "held_out_error": None if self.X_test is None else error(self.X_test, self.y_test, W),
            }

        options = self.options
        beside = [self.sides[0], *(side for side in sides if side != self.sides[0])]
        gaps = [gap for gap in options.gaps if gap >= 1e-4 or loss in SMOOTH]
        rows = measure(beside, self.workers, loss, C, gaps, options.limits, figures)
        entries = int(self.X.nnz) if hasattr(self.X, "nnz") else self.X.size
        shape = {"rows": self.X.shape[0], "features": self.X.shape[1], "entries": entries}
        return [
            {"set": self.name, "at_most": options.rows, "loss": loss, "C": C, "side": side,
             "threads": options.threads, **shape, **row, "machine": machine()}
            for side, row in zip(beside, rows, strict=True) if side in sides
        ]  # fmt: skip


def arguments() -> argparse.Namespace:
    """The options, with their defaults filled in."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(peers())
    parser.add_argument("data", metavar="DATA_DIR")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", default="in_memory.jsonl", metavar="FILE.jsonl")
    parser.add_argument("--work", default=WORK,
                        help="where the sets are kept as HDF5 (%(default)s)")  # fmt: skip
    parser.add_argument("--sets", type=lambda text: text.split(","), help=f"of {', '.join(SETS)}")
    parser.add_argument("--solvers", type=lambda text: text.split(","), default=["auto"],
                        help="ours; the first one is the limit of the peers (auto)")  # fmt: skip
    parser.add_argument("--peers", type=lambda text: [name for name in text.split(",") if name], default=names,
                        help=f"of {', '.join(names)}")  # fmt: skip
    parser.add_argument("--losses", type=lambda text: text.split(","), default=["hinge", *SMOOTH])
    parser.add_argument("--C", type=lambda text: [float(part) for part in text.split(",")])
    parser.add_argument("--gaps", type=lambda text: [float(part) for part in text.split(",")])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="the longest that any one call may take (600; quick: 4)")
    parser.add_argument("--minutes", type=float, help="after which nothing new is begun (no limit; quick: 17)")
    parser.add_argument("--rows", type=int, help="at most so many rows of a set, for a trial")
    options = parser.parse_args()
    for name in [*options.peers, *(options.sets or [])]:
        if name not in names and name not in SETS:
            parser.error(f"{name} is neither a set nor a peer")
    options.gaps = options.gaps or ([1e-2, 1e-3, 1e-6] if options.quick else [1e-2, 1e-3, 1e-4, 1e-6])
    longest = options.seconds or (4.0 if options.quick else 600.0)
    options.limits = Limits(longest, reference=2.0 * longest, repeats=options.repeats)
    options.minutes = options.minutes or (17.0 if options.quick else float("inf"))
    return options


if __name__ == "__main__":
    main()
