"""Start-up time: commands with compiled kernels, plain imports, and the kernels that a first training compiles.

    python -m examples.benchmarks.start_up FILE [--repeats 5] [-- --C 1 ...]

Medians of the wall-clock seconds of whole processes: importing Numba and h5py; the same plus one cached Numba kernel,
the minimum for any program with cached kernels; `streammargin --help`; and `train FILE` with a full cache. Then
trains with an empty cache. Prints the seconds to compile each kernel, and the seconds that a cache shipped with the
package would save.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from typing import Any

IMPORTS = "import numba, h5py"
KERNEL = """
import numba

@numba.njit(cache=True)
def twice(x):
    return x + x

twice(1)
"""
TRAIN = """
import sys
import time
from numba.core import event
from streammargin.cli.main import main

class Listener(event.Listener):
    def __init__(self):
        self.depth = 0
    def on_start(self, found):
        self.depth += 1
        if self.depth == 1:
            self.began = time.perf_counter()
    def on_end(self, found):
        self.depth -= 1
        if self.depth == 0:
            print("compiled", found.data["dispatcher"].py_func.__qualname__, time.perf_counter() - self.began)

event.register("numba:compile", Listener())
sys.exit(main(sys.argv[1:]))
"""


def seconds(command: list[str], environment: dict[str, str]) -> tuple[float, str]:
    """Wall clock of a process, and what it printed; SystemExit with its last words if it failed."""
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return time.perf_counter() - started, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("options", nargs="*", help="of train, after --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        line = os.path.join(folder, "line.py")
        with open(line, "w") as file:
            file.write(f"{IMPORTS}\n{KERNEL}")
        training = ["train", options.file, "-o", os.path.join(folder, "model.npz"), "--force", "-q", *options.options]
        commands = {
            f'python -c "{IMPORTS}"': [sys.executable, "-c", IMPORTS],
            "the same, and one line of Numba from its cache": [sys.executable, line],
            "streammargin --help": [sys.executable, "-m", "streammargin", "--help"],
            "streammargin train, warm": [sys.executable, "-m", "streammargin", *training],
        }
        cached = {**os.environ, "NUMBA_CACHE_DIR": os.path.join(folder, "cache")}
        first, printed = seconds([sys.executable, "-c", TRAIN, *training], cached)
        times: dict[str, list[float]] = {name: [] for name in commands}
        for again in range(options.repeats + 1):
            for name, command in commands.items():  # in turns: a shared machine is faster at one time than at another
                taken, _ = seconds(command, cached)
                if again:
                    times[name].append(taken)
    report(times, first, printed)


def report(times: dict[str, list[float]], first: float, printed: str) -> None:
    """The tables: medians over bare imports, and the kernels that took longest."""
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    bare, warm = next(iter(medians.values())), list(medians.values())[-1]
    print("| process | seconds | over the bare imports |\n|---|---|---|")
    for name, median in medians.items():
        print(f"| `{name}` | {median:.2f} ({min(times[name]):.2f} to {max(times[name]):.2f}) | {median / bare:.2f} |")
    compiled: Counter[Any] = Counter()
    for line in printed.splitlines():
        if line.startswith("compiled "):
            _, name, taken = line.split()
            compiled[name] += float(taken)
    print(f"\nThe first training: {first:.1f} s, of which {compiled.total():.1f} s compile; "
          f"with all kernels in a cache {warm:.1f} s, {first - warm:.1f} s less.")  # fmt: skip
    for name, taken in compiled.most_common(10):
        print(f"{taken:6.1f} s  {name}")


if __name__ == "__main__":
    main()
