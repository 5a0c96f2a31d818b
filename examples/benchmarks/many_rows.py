"""8,971,272 x 5 rows, labels drawn at random: scikit-learn's issue 17262, where LinearSVC was killed with 16 GB.

    python -m examples.benchmarks.many_rows [--memory 256M] [--peer-seconds 300]

The rows of that report (uniform float32, random labels) go to a file; `streammargin train` has them at C = 1 with a
constant column, as LinearSVC would. Shown are the seconds of the whole process, its peak memory as the system saw it,
and the certified gap. With --peer-seconds LinearSVC then fits the same rows in a process that may take so long.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time

import numpy as np

from examples.benchmarks.memory import peak_of
from streammargin.sources.batch import Batch
from streammargin.sources.hdf5.write import writing

ROWS, COLUMNS, STEP = 8_971_272, 5, 1 << 18
PEER = """
import sys, warnings
import h5py
from sklearn.svm import LinearSVC
warnings.simplefilter("ignore")
with h5py.File(sys.argv[1]) as file:
    X, y = file["X"][:], file["y"][:]
LinearSVC(C=1, loss="hinge").fit(X, y)
"""


def write(path: str, rows: int) -> None:
    """The file of rows and labels, a piece at a time."""
    random = np.random.default_rng(0)
    with writing(path, True, np.float32, sparse=False, features=COLUMNS) as writer:
        for start in range(0, rows, STEP):
            size = min(STEP, rows - start)
            X = random.random((size, COLUMNS), dtype=np.float32)
            writer.append(Batch(X, None, None, None, random.integers(2, size=size), None))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", help="where the file is put for the time being")
    parser.add_argument("--memory", default="256M")
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--tol", default="1e-3")
    parser.add_argument("--seconds", type=float, default=900.0, help="after which the training ends, proven or not")
    parser.add_argument("--peer-seconds", type=float, default=0.0, help="for LinearSVC (0: it is not run)")
    parser.add_argument("--rows", type=int, default=ROWS, help="fewer, for a trial")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        path, log = os.path.join(folder, "rows.h5"), os.path.join(folder, "log")
        write(path, options.rows)
        print(f"{options.rows:,} x {COLUMNS} rows, {os.path.getsize(path) / 2**20:.0f} MiB", flush=True)
        command = [sys.executable, "-m", "streammargin", "train", path, "-o", os.path.join(folder, "model.npz"),
                   "--force", "-q", "--log-json", log, "--solver", options.solver, "-c", "1", "-B", "1", "-e",
                   options.tol, "--memory", options.memory, "--max-seconds", str(options.seconds)]  # fmt: skip
        for run in ("first", "second"):  # the first one may compile
            started = time.perf_counter()
            code, peak = peak_of(command)
            seconds = time.perf_counter() - started
            if code != 0:
                sys.exit(f"streammargin ended with exit code {code}")
            with open(log, encoding="utf-8") as file:
                events = [json.loads(line) for line in file]
            start, end = events[0], events[-1]
            print(f"streammargin, {run} run: {seconds:.1f} s, peak {peak / 2**20:.0f} MiB, solver "
                  f"{start['params']['solver']}, {end['passes']} passes, certified gap {end['gap']:.1e} "
                  f"({end['reason']})", flush=True)  # fmt: skip
        if options.peer_seconds:
            started = time.perf_counter()
            code, peak = peak_of(["timeout", "-s", "KILL", str(options.peer_seconds), sys.executable, "-c", PEER, path])
            seconds = time.perf_counter() - started
            end = "fitted (it proves nothing)" if code == 0 else f"ended with exit code {code}"
            print(f"LinearSVC: {seconds:.1f} s, peak {peak / 2**20:.0f} MiB, {end}")


if __name__ == "__main__":
    main()
