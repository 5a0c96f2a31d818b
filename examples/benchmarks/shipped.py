"""Kernels that a wheel brings, beside kernels for exactly this processor: CPU seconds, and whether bits agree.

    python -m examples.benchmarks.shipped WHEEL DATA_DIR [--sets a9a,A] [--pairs 7]

The rows are those of `in_memory --quick` to a certified 1e-3, and the passes of `steps` whose solvers a wheel brings.
Two processes have the package of the wheel, one with STREAMMARGIN_SHIPPED=0. They train in turns on one thread, and
what compiles is warmed up first. Trainings below a second are done 15 times. It prints the medians of the ratios of
pairs, and the ratios of the smallest times. It also prints what the process with the kernels of the wheel still had to
compile.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from examples.benchmarks.in_memory import LEFT_OUT, SMOOTH, problems
from examples.benchmarks.sets import SETS, WORK, generated, load, make, read
from examples.benchmarks.steps import KINDS
from examples.benchmarks.worker import THREADS

ROOT = Path(__file__).parents[2]
SHORT, MANY = 1.0, 15  # seconds of a training, and how often it is done then
PASSES = {"sdca": {"C": math.inf}, "asdca": {"C": math.inf}, "l2": {"loss": "logistic", "penalty": "l2"}}
PASSES["elasticnet"] = {"loss": "logistic", "penalty": "elasticnet"}


class Side:
    """A process with the package of the wheel, its own cache, and the kernels of the wheel or none of them."""

    def __init__(self, package: Path, cache: Path, shipped: bool) -> None:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "STREAMMARGIN_"))
        }
        environment |= dict.fromkeys(THREADS, "1")
        environment |= {"PYTHONPATH": f"{package}{os.pathsep}{ROOT}", "NUMBA_CACHE_DIR": str(cache)}
        environment |= {"STREAMMARGIN_PATIENCE": "0", **({} if shipped else {"STREAMMARGIN_SHIPPED": "0"})}
        command = [sys.executable, "-c", "from examples.benchmarks.shipped import serve; serve()"]
        self._process = subprocess.Popen(
            command, env=environment, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.compiled: set[str] = set()

    def train(self, request: dict[str, Any]) -> dict[str, Any]:
        """CPU `seconds`, the digest of the weights, and the functions `compiled`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process that trains ended in {request}")
        found: dict[str, Any] = json.loads(line)
        self.compiled |= set(found["compiled"])
        return found

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def serve() -> None:
    """Trains what standard input asks for, a line each."""
    from numba.core import event

    import streammargin as sm

    assert not Path(sm.__file__).is_relative_to(ROOT), "the package of the checkout is in the way"
    compiled: list[str] = []

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            compiled.append(event.data["dispatcher"].py_func.__qualname__)

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Listener())
    kept: tuple[Any, Any] = (None, None)
    for line in sys.stdin:
        asked = json.loads(line)
        if kept[0] != asked["path"]:
            rows = load(asked["set"], asked["path"], asked["rows"])[:2] if asked["set"] in SETS else read(asked["path"])
            kept = asked["path"], rows
        compiled.clear()
        started = time.process_time()
        result = sm.train(kept[1], bias=0, **asked["options"])
        seconds = time.process_time() - started
        digest = hashlib.sha256(result.model.coef_.tobytes()).hexdigest()
        print(json.dumps({"seconds": seconds, "digest": digest, "compiled": compiled}), flush=True)


def requests(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """(title, request) of each row of the table."""
    for name, loss, C in problems(options):
        try:
            path = make(name, options.data, options.work, options.rows)
        except FileNotFoundError as fault:
            print(f"{name}: left out, {fault}", file=sys.stderr)
            continue
        yield (
            f"{name} | {loss} C={C:g}",
            {"set": name, "path": path, "rows": options.rows, "options": {"loss": loss, "C": C, "tol": 1e-3}},
        )
    for kind, shape in KINDS.items() if options.steps else ():
        path = os.path.join(options.work, f"steps-{kind}.h5")
        if not os.path.exists(path):
            generated(**shape)(options.data, path, None)
        for name, given in PASSES.items():
            solver = name if name in ("sdca", "asdca") else "sdca"
            passes = {"solver": solver, "passes": 9, "tol": 0.0, **given}
            yield f"steps, {kind} | {name}, 9 passes", {"set": kind, "path": path, "rows": None, "options": passes}


def compared(request: dict[str, Any], sides: tuple[Side, Side], pairs: int) -> tuple[float, float, float, bool]:
    """(seconds, ratio of pairs, ratio of the smallest, whether bits agree): kernels of the wheel over native ones."""
    for side in sides:
        while side.train(request)["compiled"]:
            pass
    first = [side.train(request) for side in sides]
    pairs = max(pairs, MANY) if max(one["seconds"] for one in first) < SHORT else pairs
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(pairs):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            seconds[which].append(sides[which].train(request)["seconds"])
    ratio = statistics.median(a / b for a, b in zip(*seconds, strict=True))
    return (
        statistics.median(seconds[0]),
        ratio,
        min(seconds[0]) / min(seconds[1]),
        len({f["digest"] for f in first}) == 1,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("data", metavar="DATA_DIR")
    parser.add_argument("--work", default=WORK, help="where the sets are kept as HDF5 (%(default)s)")
    parser.add_argument("--sets", type=lambda text: text.split(","), help=f"of {', '.join(SETS)}")
    parser.add_argument("--losses", type=lambda text: text.split(","), default=["hinge", *SMOOTH])
    parser.add_argument("--C", type=lambda text: [float(part) for part in text.split(",")], default=[0.01, 1.0, 100.0])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--rows", type=int, help="at most so many rows of a set, for a trial")
    parser.add_argument("--no-steps", dest="steps", action="store_false", help="leave out the passes of `steps`")
    options = parser.parse_args()
    options.quick = True
    options.sets = options.sets or [name for name in SETS if name not in LEFT_OUT]
    print("| rows | problem | CPU ms | of pairs | of the smallest | bits |\n|---|---|---|---|---|---|")
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with zipfile.ZipFile(options.wheel) as file:
            file.extractall(scratch / "package")
        sides = tuple(Side(scratch / "package", scratch / f"cache{shipped}", shipped) for shipped in (True, False))
        for side in sides:
            stack.callback(side.close)
        for title, request in requests(options):
            seconds, pairs, smallest, same = compared(request, (sides[0], sides[1]), options.pairs)
            row = f"| {title} | {1e3 * seconds:.0f} | {pairs:.2f} | {smallest:.2f} | {'same' if same else 'others'} |"
            print(row, flush=True)
        print(f"\ncompiled beside the kernels of the wheel: {', '.join(sorted(sides[0].compiled)) or 'nothing'}")


if __name__ == "__main__":
    main()
