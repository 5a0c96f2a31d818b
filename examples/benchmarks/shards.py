"""Rounds of a cluster by the number of shards, which are simulated in one process: no dask is needed.

    python -m examples.benchmarks.shards FILE [--shards 16,256] [-C 0.1,1,10] [--memory 256M] [--multiclass joint]

Each shard has its sums, as with a worker. The table has the rounds to a certified 1e-3 and 1e-4, the most rows that
were in one place after a round, and CPU seconds.
"""

from __future__ import annotations

import argparse
import functools
import time

import numpy as np

import streammargin as sm
from streammargin.api import train_by
from streammargin.driver.loop.holders import Holders
from streammargin.options.table import Options
from streammargin.reading.prefetch import BlockReader


class Shards(Holders):
    """As many holders of about as many rows each, one after the other."""

    def __init__(self, count: int, reader: BlockReader) -> None:
        bounds = np.linspace(0, reader.source.rows, min(count, reader.source.rows) + 1).astype(np.int64)
        own = BlockReader(reader.source, bounds, 2, labels=reader.labels)
        own.counts = reader.counts
        super().__init__(own, np.arange(bounds.size))


def trained(path: str, shards: int, **options: object) -> sm.TrainResult:
    """`streammargin.train` on so many shards."""
    return train_by(path, Options.of(options), [], None, functools.partial(Shards, shards))


def rounds(result: sm.TrainResult, tol: float) -> str:
    """The reads after which this gap was certified."""
    certified = [event["gap"] for event in result.history if event["event"] == "certificate"]
    return next((str(number) for number, gap in enumerate(certified, 1) if gap <= tol), f"> {len(certified)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--shards", default="16,256")
    parser.add_argument("-C", default="0.1,1,10", dest="costs")
    parser.add_argument("--memory", default="256M")
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--loss", default="hinge")
    parser.add_argument("--multiclass")
    parser.add_argument("--penalty", default="l2")
    parser.add_argument("--passes", type=int, default=60, help="the most rounds (default: %(default)s)")
    given = parser.parse_args()
    print("| C | shards | rounds to 1e-3; 1e-4 | rows in one place | CPU s |")
    print("|---|---|---|---|---|")
    for C in map(float, given.costs.split(",")):
        for count in map(int, given.shards.split(",")):
            started = time.process_time()
            result = trained(
                given.file, count, C=C, solver=given.solver, loss=given.loss, memory=given.memory, tol=1e-4,
                passes=given.passes, multiclass=given.multiclass, penalty=given.penalty,
            )  # fmt: skip
            seconds = time.process_time() - started
            kept = max(event.get("kept_rows") or 0 for event in result.history if event["event"] == "pass_end")
            print(f"| {C:g} | {count} | {rounds(result, 1e-3)}; {rounds(result, 1e-4)} | {kept:,} | {seconds:.1f} |",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
