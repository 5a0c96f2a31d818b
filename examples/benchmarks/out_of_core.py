"""Training from a file larger than its budget: reads, CPU seconds and time spent waiting, to each certified gap.

    python -m examples.benchmarks.out_of_core DATA_DIR [--quick] [--memory 10%,256M] [--solver auto]

Each row is one training with the tightest gap as --tol. The row also shows the reads and CPU seconds, of all threads,
at which each looser gap was certified. Reads are the bytes that the process read, without labels and pointers, divided
by the bytes of the rows. `cold`: the file was dropped from the page cache first. A --memory in percent is this share of
the rows' bytes, for buffers and cached rows. The least budget that `train` accepts (weights, duals, labels) is added.
For comparison: one raw read of the file in the same state, and X @ w over rows in memory. --quick uses one file of 400
MB. A run that was stopped continues with the missing rows. Peers out of core: `held_out`.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import time
import warnings
from typing import Any

import numpy as np

import streammargin as sm
from examples.benchmarks.disk import bytes_read, drop, matrices, raw_read, row_bytes
from examples.benchmarks.large_sets import LARGE
from examples.benchmarks.report import Curve, draw
from examples.benchmarks.sets import WORK, make
from examples.benchmarks.store import Store, machine
from examples.benchmarks.worker import hold_threads
from streammargin.compiled.jit import compile_seconds
from streammargin.sizes import parse_size

KEY = ("set", "at_most", "loss", "C", "solver", "memory", "state")
QUICK_ROWS = 500_000


def main() -> None:
    options = arguments()
    hold_threads(options.threads)
    store = Store(options.out, KEY)
    for name in options.sets:
        try:
            path = make(name, options.data, options.work, options.rows, LARGE)
        except FileNotFoundError as fault:
            print(f"{name}: left out, {fault}", flush=True)
            continue
        for loss in options.losses:
            for C in options.C:
                for memory in options.memory:
                    for state in options.states:
                        key = dict(zip(KEY, (name, options.rows, loss, C, options.solver, memory, state), strict=True))
                        if store.find(**key) is None:
                            store.add({**key, **measure(name, path, loss, C, memory, state, options)})
                            print(line(store.rows[-1]), flush=True)
    print()
    print(table(store.rows))
    if store.rows:
        path = os.path.splitext(options.out)[0] + ".png"
        drawn = draw(panels(store.rows), "certified gap", "reads of the file", path)
        print(f"\nrows in {options.out}, picture in {drawn}")


def panels(rows: list[dict[str, Any]]) -> dict[str, list[Curve]]:
    """The certified gaps of every budget and state by problem, as the last repeat met them."""
    found: dict[str, list[Curve]] = {}
    for row in rows:
        points = [point for point in row["curve"] if point["gap"] > 0.0]
        seconds, gaps, reads = ([point[key] for point in points] for key in ("seconds", "gap", "reads"))
        title = f"{row['set']}, {row['loss']}, C = {row['C']:g}"
        found.setdefault(title, []).append(Curve(f"{row['memory']} {row['state']}", seconds, gaps, reads))
    return found


def measure(
    name: str, path: str, loss: str, C: float, memory: str, state: str, options: argparse.Namespace
) -> dict[str, Any]:
    """The row of one problem: medians over the repeats, with all their values."""
    with sm.open_source(path) as source:
        rows, d, nnz, total = source.rows, source.features, source.nnz, row_bytes(source)
    training = {
        "loss": loss, "C": C, "solver": options.solver, "tol": min(options.gaps), "bias": options.bias,
        "passes": 10**6, "max_seconds": options.seconds, "scale": LARGE[name].scale,
        "positive": LARGE[name].positive,
    }  # fmt: skip
    budget = size(path, memory, total, training)
    runs = []
    while len(runs) < options.repeats:
        compiled = compile_seconds()
        run = one(path, budget, state, training, total, 8 * rows)
        if compile_seconds() == compiled:  # otherwise the next one finds everything compiled
            runs.append(run)
    reached = {}
    for gap in options.gaps:
        found = [run["reached"][gap] for run in runs if gap in run["reached"]]
        if len(found) == len(runs):
            reached[f"{gap:g}"] = {key: [point[key] for point in found] for key in ("seconds", "cpu", "reads")}
    last = runs[-1]
    return {
        "rows": rows, "features": d, "entries": nnz, "row_bytes": total, "memory_bytes": budget,
        "reached": reached, "curve": last["curve"], "raw_read_seconds": [run["raw"] for run in runs],
        "product_seconds": product(path), "machine": machine(),
        **{key: last[key] for key in ("gap", "reason", "solver_taken", "passes", "plan")},
        **{key: statistics.median(run[key] for run in runs)
           for key in ("seconds", "cpu", "reads", "read_seconds", "wait_seconds", "compute_seconds")},
    }  # fmt: skip


def size(path: str, memory: str, total: int, training: dict[str, Any]) -> int:
    """Bytes of a budget; a percentage is of the `total` bytes of the rows, with the least budget on top."""
    if not memory.endswith("%"):
        return parse_size(memory)
    least = 1
    for _ in range(2):  # the first answer is what the labels need, the second what the training does
        try:
            sm.train(path, memory=least, **{**training, "passes": 1})
        except sm.UsageError as error:
            named = re.search(r'memory="?(\d+)M', str(error))
            if named is None:
                raise
            least = int(named[1]) << 20
    return int(float(memory[:-1]) / 100.0 * total) + least


def one(path: str, budget: int, state: str, training: dict[str, Any], total: int, other: int) -> dict[str, Any]:
    """One training; total: bytes of the rows; other: bytes read once that are no rows."""
    if state == "cold":
        drop(path)
    raw = raw_read(path)  # leaves the file in the page cache
    if state == "cold":
        drop(path)
    curve, sums = [], {"read_seconds": 0.0, "wait_seconds": 0.0, "compute_seconds": 0.0}
    plan: dict[str, Any] = {}
    before, started, spent = bytes_read(), time.perf_counter(), time.process_time()

    def listen(event: dict[str, Any]) -> None:
        if event["event"] == "run_start":
            plan.update(event["plan"])
        elif event["event"] == "pass_end":
            for key in sums:
                sums[key] += event[key]
        elif event["event"] == "certificate" and event["gap"] is not None:
            reads = (bytes_read() - before - other) / total
            curve.append({"seconds": time.perf_counter() - started, "cpu": time.process_time() - spent,
                          "reads": reads, "gap": event["gap"], "primal": event["primal"]})  # fmt: skip

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = sm.train(path, memory=budget, listeners=[listen], **training)
    seconds, cpu = time.perf_counter() - started, time.process_time() - spent
    reads = (bytes_read() - before - other) / total
    reached: dict[float, dict[str, float]] = {}
    for point in reversed(curve):
        for gap in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
            if point["gap"] <= gap:
                reached[gap] = {key: point[key] for key in ("seconds", "cpu", "reads")}
    return {
        "raw": raw, "seconds": seconds, "cpu": cpu, "reads": reads, "curve": curve, "reached": reached, "plan": plan,
        "gap": result.certificate["gap"], "reason": result.reason, "passes": result.passes,
        "solver_taken": result.model.header["solver"], **sums,
    }  # fmt: skip


def product(path: str) -> float:
    """Seconds of one X @ w over all rows, each block in memory when its clock runs."""
    seconds = 0.0
    with sm.open_source(path) as source:
        w = np.ones(source.features, source.dtype)
        for _, _, X in matrices(source):
            started = time.perf_counter()
            X @ w
            seconds += time.perf_counter() - started
    return seconds


def line(row: dict[str, Any]) -> str:
    """The text that is printed when a row was measured."""
    parts = [f"{gap}: {statistics.median(found['reads']):.2f} reads {statistics.median(found['cpu']):.2f} CPU s"
             for gap, found in row["reached"].items()]  # fmt: skip
    what = f"{row['set']:<16} {row['loss']:<13} C={row['C']:<5g} {row['memory']:>5} {row['state']:<6}"
    return f"{what} {row['solver_taken']:<7} {'  '.join(parts)}  ended at gap {row['gap']:.1e} ({row['reason']})"


def table(rows: list[dict[str, Any]]) -> str:
    """All rows in Markdown; CPU seconds (and reads) to each gap."""
    gaps = sorted({gap for row in rows for gap in row["reached"]}, key=float, reverse=True)
    lines = ["| file | loss | C | memory | state | solver | "
             + " | ".join(f"{gap}: CPU s (reads)" for gap in gaps)
             + " | end: gap, CPU s (reads) | waiting for the disk | for the kernel | raw read | X @ w |",
             "|" + "---|" * (11 + len(gaps))]  # fmt: skip
    for row in rows:
        cells = []
        for gap in gaps:
            found = {key: statistics.median(values) for key, values in row["reached"].get(gap, {}).items()}
            cells.append(f"{found['cpu']:.2f} ({found['reads']:.2f})" if found else "-")
        raw = statistics.median(row["raw_read_seconds"])
        lines.append(f"| {row['set']} | {row['loss']} | {row['C']:g} | {row['memory']} | {row['state']} | "
                     f"{row['solver_taken']} | {' | '.join(cells)} | {row['gap']:.1e}, {row['cpu']:.2f} "
                     f"({row['reads']:.2f}) | {row['wait_seconds']:.2f} s | {row['compute_seconds']:.2f} s | "
                     f"{raw:.2f} s | {row['product_seconds']:.2f} s |")  # fmt: skip
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    """The options, with their defaults filled in."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def words(text: str) -> list[str]:
        return text.split(",")

    def numbers(text: str) -> list[float]:
        return [float(part) for part in text.split(",")]

    parser.add_argument("data", metavar="DATA_DIR", help="the folder of the real sets, as for in_memory")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", default="out_of_core.jsonl", metavar="FILE.jsonl")
    parser.add_argument("--work", default=WORK, help="where the files are kept (%(default)s)")
    parser.add_argument("--sets", type=words, help=f"of {', '.join(LARGE)}")
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--losses", type=words, default=["hinge"])
    parser.add_argument("--C", type=numbers)
    parser.add_argument("--gaps", type=numbers, default=[1e-2, 1e-3, 1e-4])
    parser.add_argument("--memory", type=words, help="budgets: 256M, or 10%% of the rows (10%%,256M; quick: 10%%)")
    parser.add_argument("--states", type=words, default=["cold", "cached"])
    parser.add_argument("--bias", type=float, default=0.0, help="a constant column (none)")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--seconds", type=float, help="the longest that a training may take (900; quick: 60)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=int, help="at most so many rows of a set, for a trial")
    options = parser.parse_args()
    options.sets = options.sets or (["dense200"] if options.quick else list(LARGE))
    options.C = options.C or ([1.0] if options.quick else [0.01, 1.0, 100.0])
    options.memory = options.memory or (["10%"] if options.quick else ["10%", "256M"])
    options.repeats = options.repeats or (3 if options.quick else 5)
    options.seconds = options.seconds or (60.0 if options.quick else 900.0)
    options.rows = options.rows or (QUICK_ROWS if options.quick else None)
    for name in options.sets:
        if name not in LARGE:
            parser.error(f"{name} is no set; the sets are {', '.join(LARGE)}")
    return options


if __name__ == "__main__":
    main()
