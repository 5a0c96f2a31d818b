"""A training on the workers of a dask cluster: rounds, overhead, kills. The workers are processes of this machine.

    python -m examples.benchmarks.cluster FOLDER [--rows 2000000] [--kills 30]

FOLDER takes the files of rows, which are made once. The tables are: rounds to a certified 1e-3 and 1e-4 beside the
reads of one machine, with what each worker read and computed; milliseconds of a round on a file of a few rows; and
trainings of which a round loses a worker by SIGKILL.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import h5py
import numpy as np
import pandas as pd
from dask import delayed
from distributed import Client, LocalCluster

import streammargin as sm
from examples.benchmarks.shards import rounds
from streammargin import dask
from streammargin.reading import plan

MEMORY = "256M"
LONGEST = 600.0  # seconds, after which a training with a kill is taken not to end
CASES = [  # columns, options
    (50, {"C": 1.0}),
    (50, {"C": 0.01}),
    (50, {"C": 100.0}),
    (50, {"C": 1.0, "loss": "logistic"}),
    (50, {"C": 1e-3, "loss": "logistic", "penalty": "l1"}),
    (200, {"C": 1.0}),
]


def rows_of(folder: Path, rows: int, columns: int) -> str:
    """A file of overlapping classes, float32, made once."""
    path = folder / f"rows-{rows}-{columns}.h5"
    if not path.exists():
        rng = np.random.default_rng(columns)
        w = rng.standard_normal(columns, dtype=np.float32)

        def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for start in range(0, rows, 100_000):
                X = rng.standard_normal((min(100_000, rows - start), columns), dtype=np.float32)
                noise = 0.6 * np.sqrt(columns) * rng.standard_normal(len(X), dtype=np.float32)
                yield X, np.where(X @ w + noise > 0.0, 1, -1)

        sm.write_hdf5(batches(), str(path))
    return str(path)


@contextlib.contextmanager
def workers(count: int) -> Iterator[Client]:
    cluster = LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0")
    try:
        with Client(cluster, set_as_default=False) as client:
            yield client
    finally:
        with contextlib.suppress(KeyError):  # of dask, where a worker was killed
            cluster.close()


def used() -> tuple[float, int]:
    """CPU seconds of this process, and the bytes that it read."""
    with open("/proc/self/io") as file:
        return time.process_time(), int(file.readline().split()[1])


def bits(result: sm.TrainResult) -> str:
    return hashlib.sha256(result.model.coef_.tobytes()).hexdigest()[:8]


def measured(client: Client, path: Any, **options: Any) -> tuple[sm.TrainResult, float, str]:
    """(result, seconds, what each worker read and computed), once kernels are compiled."""
    dask.train(client, path, memory=MEMORY, passes=2, **options)
    before, started = client.run(used), time.perf_counter()
    result = dask.train(client, path, memory=MEMORY, tol=1e-4, **options)
    seconds, after = time.perf_counter() - started, client.run(used)
    told = [(after[one][0] - before[one][0], after[one][1] - before[one][1]) for one in sorted(before)]
    return result, seconds, ", ".join(f"{cpu:.1f} s {read >> 20} MB" for cpu, read in told)


def table_of_rounds(folder: Path, rows: int) -> None:
    print("| rows, options | one machine: reads | workers | rounds to 1e-3; 1e-4 | s | bits | each worker: CPU, read |")
    print("|---|---|---|---|---|---|---|")
    for count in (1, 2):
        with workers(count) as client:
            for columns, options in CASES:
                path = rows_of(folder, rows * 50 // columns, columns)
                alone = sm.train(path, memory=MEMORY, tol=1e-4, **options)
                result, seconds, each = measured(client, path, **options)
                name = f"{rows * 50 // columns:,} x {columns}, {options}"
                print(
                    f"| {name} | {rounds(alone, 1e-3)}; {rounds(alone, 1e-4)} | {count} | {rounds(result, 1e-3)}; "
                    f"{rounds(result, 1e-4)} | {seconds:.1f} | {bits(result)} | {each} |",
                    flush=True,
                )


def table_of_overhead(folder: Path) -> None:
    """Few rows in small blocks: next to nothing is read and computed, and all workers have some."""
    even, plan.EVEN_BYTES = plan.EVEN_BYTES, 1 << 14
    print("| columns | workers | rounds | median ms a round | most | CPU ms a round: here, each worker |")
    print("|---|---|---|---|---|---|")
    for count in (1, 2):
        with workers(count) as client:
            for columns in (50, 200):
                path, each = rows_of(folder, 4000, columns), []
                for run in range(6):
                    if run == 1:  # the first one compiles
                        before, here = client.run(used), time.process_time()
                    found = dask.train(client, path, memory=MEMORY, tol=1e-9, passes=40)
                    each.append([1e3 * event["seconds"] for event in found.history if event["event"] == "pass_end"])
                known, after = [ms for one in each[1:] for ms in one], client.run(used)
                spent = [time.process_time() - here, *(after[one][0] - before[one][0] for one in sorted(before))]
                cpu = ", ".join(f"{1e3 * seconds / len(known):.0f}" for seconds in spent)
                times = f"{statistics.median(known):.0f} | {max(known):.0f}"
                print(f"| {columns} | {count} | {len(known)} | {times} | {cpu} |", flush=True)
    plan.EVEN_BYTES = even


class Mortals:
    """Two workers without a Nanny, which starts none again at times: one that is killed is replaced at once."""

    def __init__(self, scheduler: str, folder: Path) -> None:
        self.scheduler, self.folder = scheduler, folder
        self.processes = [self.started(), self.started()]

    def started(self) -> subprocess.Popen[bytes]:
        given = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(self.folder)]
        command = [sys.executable, "-m", "distributed.cli.dask_worker", self.scheduler, *given]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def kill(self, number: int) -> None:
        self.processes[number].kill()
        self.processes[number].wait()
        self.processes[number] = self.started()

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def mortals(folder: Path) -> Iterator[tuple[Client, Mortals]]:
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
        contextlib.closing(Mortals(cluster.scheduler_address, folder)) as killed,
    ):
        yield client, killed


def batch_of(path: str, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    with h5py.File(path) as file:
        return file["X"][start:stop], file["y"][start:stop]


def frame_of(X: np.ndarray, y: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{column}" for column in range(X.shape[1])]).assign(y=y)


def collections_of(path: str, rows: int) -> dict[str, tuple[Any, dict[str, Any]]]:
    """The rows of a file, and of it as collections of dask, with the options that they need."""
    starts = range(0, rows, 60_000)
    sizes = [min(60_000, rows - start) for start in starts]
    batches = [delayed(batch_of)(path, start, start + size) for start, size in zip(starts, sizes, strict=True)]
    X = [da.from_delayed(one[0], (size, 50), np.float32) for one, size in zip(batches, sizes, strict=True)]
    y = [da.from_delayed(one[1], (size,), np.int64) for one, size in zip(batches, sizes, strict=True)]
    frames = [delayed(frame_of)(one[0], one[1]) for one in batches]
    meta = frame_of(np.zeros((1, 50), np.float32), np.zeros(1, np.int64))
    return {
        "a file": (path, {}),
        "Delayed batches": (batches, {}),
        "Arrays": ((da.concatenate(X), da.concatenate(y)), {}),
        "a DataFrame": (dd.from_delayed(frames, meta=meta), {"y": "y"}),
    }


def table_of_kills(folder: Path, rows: int, kills: int, kinds: list[str]) -> None:
    """A file, and collections of its rows, which the workers write to their disks, and again after a kill."""
    path = rows_of(folder, rows, 50)
    print("| rows | kills | the same bits | no end | s without: with a kill, the median; the most |")
    print("|---|---|---|---|---|")
    with mortals(folder) as (client, killed):
        for kind, (data, options) in collections_of(path, rows).items():
            if kind not in kinds:
                continue
            whole, alone, _ = measured(client, data, **options)
            chance, same, endless, seconds = random.Random(1), 0, 0, []
            while len(seconds) < kills:
                client.wait_for_workers(2)
                started = time.monotonic()
                timer = threading.Timer(chance.random() * alone, killed.kill, [chance.randrange(2)])
                timer.start()
                result = dask.train(
                    client, data, memory=MEMORY, tol=1e-4, **options,
                    should_stop=lambda since=started: "signal" if time.monotonic() - since > LONGEST else None,
                )  # fmt: skip
                if timer.finished.is_set():  # else the training was over before
                    seconds.append(time.monotonic() - started)
                    same += bits(result) == bits(whole) and result.certificate == whole.certificate
                    endless += result.reason == "signal"
                    print(f"kill {len(seconds)}: {seconds[-1]:.1f} s, {same} the same", file=sys.stderr, flush=True)
                timer.cancel()
                timer.join()
            times = f"{alone:.1f}: {statistics.median(seconds):.1f}; {max(seconds):.1f}"
            print(f"| {rows:,} x 50, {kind} | {kills} | {same} | {endless} | {times} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of 50 columns (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--tables", default="rounds,overhead,kills", help="those to make (default: %(default)s)")
    parser.add_argument("--kinds", default="a file,Delayed batches,Arrays,a DataFrame", help="of rows, for kills")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    tables = given.tables.split(",")
    if "rounds" in tables:
        table_of_rounds(given.folder, given.rows)
    if "overhead" in tables:
        table_of_overhead(given.folder)
    if "kills" in tables:
        table_of_kills(given.folder, given.rows // 4, given.kills, given.kinds.split(","))


if __name__ == "__main__":  # workers import this file
    main()
