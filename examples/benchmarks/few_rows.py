"""Reads to a certified gap when few rows fit in memory: a9a and covtype20k with reduced budgets.

    python -m examples.benchmarks.few_rows FOLDER [--sets a9a,covtype20k] [--rows 60,45,20] [--C 1] [--tol 1e-3]

--rows are the rows that fit, in multiples of the columns. These sets are smaller than the bytes that a budget
reserves for the process and for buffers (reading/plan.py). That reserve is set to nearly 0 here; training is unchanged.
"""

from __future__ import annotations

import argparse
import os
import warnings
from typing import Any

import streammargin as sm
from examples.benchmarks.out_of_core import size
from examples.benchmarks.sets import SETS, WORK, make
from streammargin.reading import plan
from streammargin.solvers.cache import rows as store
from streammargin.solvers.newton import near_margin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="FOLDER", help="the folder of the real sets, as for in_memory")
    parser.add_argument("--sets", default="a9a,covtype20k")
    parser.add_argument("--rows", default="60,45,20", help="rows that fit into the cache, in multiples of the columns")
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of each training, in seconds")
    options = parser.parse_args()
    plan.SLACK_BYTES, plan.LEAST_BLOCK_BYTES, store.BUFFERS = 0, 1 << 12, 1 << 14
    warnings.simplefilter("ignore")
    os.makedirs(WORK, exist_ok=True)
    print("| set | rows kept, in multiples of d | reads | gap | reason |\n|---|---|---|---|---|")
    for name in options.sets.split(","):
        path = make(name, options.data, WORK)
        training = {
            "C": options.C, "tol": options.tol, "bias": 0, "solver": "newton", "passes": 10**6,
            "max_seconds": options.seconds, "scale": SETS[name].scale, "positive": SETS[name].positive,
        }  # fmt: skip
        with sm.open_source(path) as source:
            entry = source.dtype.itemsize + (4 if source.sparse else 0)
            row_bytes = source.nnz / source.rows * entry + 8 + near_margin.NEAR_ROW_BYTES + near_margin.OF_ONE
            columns = source.features
        least = exact(path, size(path, "0%", 0, training), training)
        for multiple in map(float, options.rows.split(",")):
            memory = least + int(multiple * columns * row_bytes / store.CACHE_BUDGET_SHARE)
            result = sm.train(path, memory=memory, **training)
            passes = [event for event in result.history if event["event"] == "pass_end"]
            kept = max(event["kept_rows"] for event in passes) / columns
            print(
                f"| {name} | {kept:.0f} | {passes[-1]['reads']:.1f} | {result.certificate.gap:.1e} | {result.reason} |"
            )


def exact(path: str, enough: int, training: dict[str, Any]) -> int:
    """The least budget to 4 KiB; `enough` is the one that is named, in whole MiB."""
    low, high = enough - (1 << 20), enough
    while high - low > 1 << 12:
        middle = (low + high) // 2
        try:
            sm.train(path, memory=middle, **{**training, "passes": 1})
            high = middle
        except sm.UsageError:
            low = middle
    return high


if __name__ == "__main__":
    main()
