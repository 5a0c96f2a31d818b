"""What checkpoints cost: bytes and seconds of a slot, their share of the run, and peak memory during a write.

    python -m examples.benchmarks.checkpoints [--rows 1e6,1e8] [--solver sdca] [--passes 8] [--dir DIR]

Each file has --rows rows of one column, and so as many duals. The same training runs without and with --checkpoint,
each in its own process. Shown are the slot's bytes, the seconds per write, their share of all seconds, and the peak
memory of both processes. The share must stay below 2% in long runs. Short runs may exceed it: the first checkpoint
is always written after --checkpoint-seconds, and the last one at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile

import numpy as np

from examples.benchmarks.memory import peak_of
from streammargin.sources.batch import Batch
from streammargin.sources.hdf5.write import writing

STEP = 1 << 20


def write(path: str, rows: int) -> None:
    """Rows of one column that no line separates, a piece at a time."""
    random = np.random.default_rng(0)
    with writing(path, True, np.float32, sparse=False, features=1) as writer:
        for start in range(0, rows, STEP):
            size = min(STEP, rows - start)
            y = random.integers(2, size=size)
            X = (y[:, None] + random.standard_normal((size, 1))).astype(np.float32)
            writer.append(Batch(X, None, None, None, y, None))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda text: [int(float(part)) for part in text.split(",")],
                        default=[10**6, 10**8])  # fmt: skip
    parser.add_argument("--solver", default="sdca")
    parser.add_argument("--passes", default="8")
    parser.add_argument("--seconds", default="5", help="--checkpoint-seconds")
    parser.add_argument("--memory", default="4G")
    parser.add_argument("--dir")
    options = parser.parse_args()
    for rows in options.rows:
        with tempfile.TemporaryDirectory(dir=options.dir) as folder:
            path, log, slots = (os.path.join(folder, name) for name in ("rows.h5", "log", "slots"))
            write(path, rows)
            command = [sys.executable, "-m", "streammargin", "train", path, "-o", os.path.join(folder, "model.npz"),
                       "-q", "--force", "--log-json", log, "--solver", options.solver, "--passes", options.passes,
                       "-e", "0", "--memory", options.memory]  # fmt: skip
            peaks = []
            for more in ([], ["--checkpoint", slots, "--checkpoint-seconds", options.seconds]):
                code, peak = peak_of([*command, *more])
                if code != 0:
                    print(f"streammargin ended with exit code {code}", file=sys.stderr)
                    return 1
                peaks.append(peak)
            with open(log, encoding="utf-8") as file:
                events = [json.loads(line) for line in file]
            took = [event["seconds"] for event in events if event["event"] == "checkpoint"]
            total = events[-1]["seconds"]
            size = max(os.path.getsize(os.path.join(slots, name)) for name in os.listdir(slots))
            print(f"{rows:,} rows, {options.solver}: a slot of {size / 2**20:.0f} MiB in {np.median(took):.2f} s, "
                  f"{len(took)} in {total:.1f} s, {sum(took) / total:.1%} of it; peak {peaks[1] / 2**20:.0f} MiB, "
                  f"without checkpoints {peaks[0] / 2**20:.0f}", flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
