"""What a first fit costs on a machine where no kernel has been compiled yet.

    python -m examples.benchmarks.first_fit [--patience 2,0] [--kernels 8] [--only digits]
    python -m examples.benchmarks.first_fit --measure streammargin/driver/loop/compiling.json

It prints CPU seconds of processes with an empty cache, once scikit-learn is imported and the rows are made. These are
569 x 30 rows, and text-like rows of 5,000 x 20,000 and of 500 x 2,000. Then come the digits of scikit-learn (1,797 x
64, ten classes) and a CSV of 3,000 x 9 numbers and words. One-hot rows are 60,000 x 125 in CSR. Last are the kernels
that took longest to compile.

patience: seconds that a kernel may run in plain Python before it is compiled; 0: compiled at once. measure: write which
kernels each kind of training compiles, and how long; a terminal says so while they are compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import zip_longest
from pathlib import Path

import numpy as np

CASES = {
    "hinge": "dict()",
    "logistic": "dict(loss='logistic')",
    "l1": "dict(loss='logistic', penalty='l1')",
    "quantile": "dict(loss='quantile:0.9')",
    "text": "dict()",
    "small text": "dict()",
    "digits, softmax": "dict(loss='logistic')",
    "digits, hinge": "dict(loss='hinge')",
    "table": "dict(y='label')",
    "one-hot": "dict()",
}
OTHERS = {  # of which the kernels are measured, too
    "text, logistic": "dict(loss='logistic')",
    "text, l1": "dict(penalty='l1')",
    "text, free": "dict(bias='free', loss='logistic')",
    "free": "dict(bias='free')",
    "rbf": "dict(kernel='rbf')",
    "squared, free, folds": "dict(loss='squared_error', bias='free', cv=3)",
    "text, free, folds": "dict(loss='logistic', bias='free', cv=3)",
    "text, l1, free": "dict(loss='logistic', penalty='l1', bias='free')",
    "numbers, squared": "dict(loss='squared_error')",
    "numbers, absolute": "dict(loss='absolute_error')",
    "text, numbers": "dict(loss='squared_error')",
    "numbers of text, l1": "dict(loss='squared_error', penalty='l1')",
    "hdf5": "dict()",
    "hdf5, l1": "dict(penalty='l1')",
    "hdf5, text": "dict()",
    "hdf5, digits, hinge": "dict()",
    "hdf5, digits, softmax": "dict(loss='logistic')",
    "text of digits, hinge": "dict()",
    "text of digits, softmax": "dict(loss='logistic')",
    "wide, of digits, softmax": "dict(loss='logistic')",
    "hashed text of digits": "dict(C=[.1, 1], valid=.2, solver='ascent')",
    "hdf5, long": "dict(memory='40M')",
    "hdf5, long, logistic": "dict(memory='40M', loss='logistic')",
    "hdf5, long text": "dict(memory='40M')",
    "grid": "dict(C=[.1, 1, 10], cv=3)",
    "text, grid": "dict(C=[.1, 1, 10], cv=3)",
}
FIT = """
import collections, json, sys, time
import numpy as np
import sklearn.linear_model
name, options = sys.argv[1], eval(sys.argv[2])
rng = np.random.default_rng(0)
n, d, values = (5000, 20000, 60) if "text" in name else (569, 30, 0)
if name == "small text":
    n, d, values = 500, 2000, 20
elif "long" in name:
    n = 150000 if values else 500000
elif "hashed" in name:
    d = 1 << 18
elif "wide" in name:
    n, d = 3000, 250
scores = rng.standard_normal(n)
if values:
    import scipy.sparse as sp
    at = np.repeat(np.arange(n), values), rng.integers(0, d, values * n)
    X = sp.csr_matrix((rng.random(values * n), at), (n, d))
elif name == "one-hot":
    import scipy.sparse as sp
    n = 60000
    columns = np.sort(rng.integers(0, 25, (n, 5)) + 25 * np.arange(5), axis=1)
    X = sp.csr_matrix((np.ones(5 * n, np.float32), columns.ravel(), np.arange(0, 5 * n + 1, 5)), (n, 125))
    scores = X @ rng.standard_normal(125) + rng.standard_normal(n)
elif name == "table":
    from examples.benchmarks.first_fit import write_table
    write_table(sys.argv[3])
elif "digits" not in name or "of digits" in name:
    X = rng.standard_normal((n, d))
    scores += X @ rng.standard_normal(d)
y = scores if "quantile" in name or "numbers" in name else np.where(scores > 0, 1, -1)
if "of digits" in name:
    y = rng.integers(0, 10, n)
elif "digits" in name:
    from sklearn.datasets import load_digits
    X, y = load_digits(return_X_y=True)
before = time.process_time()
import streammargin as sm
from numba.core import event
begun, taken, kinds = [], collections.defaultdict(list), set()
class Listener(event.Listener):
    def on_start(self, found):
        begun.append(time.process_time())
    def on_end(self, found):
        since = begun.pop()
        if not begun:
            taken[found.data["dispatcher"].py_func.__name__].append(round(time.process_time() - since, 1))
data = sys.argv[3] if name == "table" else (X, y)
if "hdf5" in name:
    data = sys.argv[3] + ".h5"
    sm.write_hdf5([(X, y)], data)
event.register("numba:compile", Listener())
told = [lambda event: kinds.add(event["kind"]) if "kind" in event else None] if sys.argv[4:] else []
result = sm.train(data, listeners=told, **options)
print(json.dumps([time.process_time() - before, taken, result.converged, *kinds]))
"""


def write_table(path: str, rows: int = 3000) -> None:
    """A CSV of five numbers, four words of six kinds each, and a label that a few of both tell."""
    random = np.random.default_rng(0)
    numbers, words = random.standard_normal((rows, 5)), random.integers(0, 6, (rows, 4))
    told = numbers[:, 0] + (words[:, 0] > 2) + random.standard_normal(rows) > 0.5
    with open(path, "w") as file:
        print("a,b,c,d,e,p,q,r,s,label", file=file)
        for values, kinds, yes in zip(numbers, words, told, strict=True):
            cells = [*(f"{value:.4f}" for value in values), *("uvwxyz"[kind] for kind in kinds), "yes" if yes else "no"]
            print(",".join(cells), file=file)


def fit(name: str, patience: str, *measured: str) -> tuple[float, dict[str, list[float]], list[str]]:
    """CPU seconds of a fit, our imports included, and of each form of a kernel that it compiled; with `measured`, the
    kind of training, too.
    """
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "STREAMMARGIN_PATIENCE": patience}
        table = os.path.join(cache, "rows.csv")
        command = [sys.executable, "-c", FIT, name, {**CASES, **OTHERS}[name], table, *measured]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed: {done.stderr.strip()[-500:]}")
    seconds, kernels, converged, *kind = json.loads(done.stdout.splitlines()[-1])
    assert converged, name
    return seconds, kernels, kind


def measure(path: str, only: str) -> None:
    """Write the kernels of each kind of training: of each name as many forms as a case has, with the most seconds.

    only: words of the cases, whose kernels are added to those of the file.
    """
    kinds: dict[str, dict[str, list[float]]] = (
        json.loads(Path(path).read_text()) if only and Path(path).exists() else {}
    )
    for name in (name for name in [*CASES, *OTHERS] if only in name):
        _, kernels, kind = fit(name, "0", "measured")
        print(f"{name}: {' '.join(kind)}, {sum(map(len, kernels.values()))} kernels", flush=True)
        if not kind:
            continue  # nothing was compiled
        [known] = [kinds.setdefault(one, {}) for one in kind]
        for kernel, forms in kernels.items():
            both = zip_longest(forms, known.get(kernel, []), fillvalue=0.0)
            known[kernel] = [max(pair) for pair in both]
        lines = (f"{json.dumps(kind)}: {json.dumps(known, sort_keys=True)}" for kind, known in sorted(kinds.items()))
        Path(path).write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patience", default="2,0", metavar="S,S")
    parser.add_argument("--kernels", type=int, default=8, metavar="N")
    parser.add_argument("--only", default="", help="cases with these words")
    parser.add_argument("--measure", metavar="FILE", help="write the kernels of each kind of training to it")
    options = parser.parse_args()
    if options.measure:
        return measure(options.measure, options.only)
    patiences = options.patience.split(",")
    longest: dict[str, float] = {}
    print(f"| first fit | {' | '.join(f'patience {one} s' for one in patiences)} |\n|---|{'---|' * len(patiences)}")
    for name in (name for name in CASES if options.only in name):
        cells = []
        for patience in patiences:
            seconds, kernels, _ = fit(name, patience)
            cells.append(f"{seconds:.2f} CPU s, {len(kernels)} kernels compiled")
            for kernel, forms in kernels.items():
                longest[kernel] = max(sum(forms), longest.get(kernel, 0.0))
        print(f"| {name} | {' | '.join(cells)} |")
    print()
    for kernel, taken in sorted(longest.items(), key=lambda one: -one[1])[: options.kernels]:
        print(f"{taken:6.1f} CPU s  {kernel}")


if __name__ == "__main__":
    main()
