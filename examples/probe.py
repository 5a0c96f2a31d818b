"""A linear probe of embeddings, end to end: a path of C with held-out errors, its report and an export.

    python -m examples.probe [--rows 20000 --columns 256 --classes 50] [--dir DIR] [-C 0.1,1,10] [--beside]

The embeddings are generated: a mean of each class and noise, rows of length 1, lists in Parquet. One command trains at
all values of C in the same reads. It keeps the one with the fewest held-out errors, and writes a report. Another one
exports the model. Needs the extra tables.

With --beside, scikit-learn has the same rows in memory, and CPU seconds of one thread are told. Its lbfgs takes the
same values of C, and SGDClassifier its usual sweep.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np


def write(path: str, X: np.ndarray, y: np.ndarray) -> None:
    """A column of lists, as datasets write embeddings, and the labels."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    lists = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    pq.write_table(pa.table({"embedding": lists, "label": y}), path)


def run(*command: object) -> None:
    """A command of the program, and its CPU seconds."""
    words = [str(word) for word in command]
    print(f"\n$ streammargin {shlex.join(words)}", flush=True)
    before = os.times()
    subprocess.run([sys.executable, "-m", "streammargin", *words], check=True)
    used = os.times()
    seconds = used.children_user + used.children_system - before.children_user - before.children_system
    print(f"# {seconds:.1f} CPU s")


def beside(train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray], costs: list[float]) -> None:
    """Held-out errors and CPU seconds of scikit-learn."""
    from sklearn.linear_model import LogisticRegression, SGDClassifier

    sides: list[tuple[str, Any]] = [(f"lbfgs, C = {C:g}", LogisticRegression(C=C, max_iter=1_000)) for C in costs]
    sides += [(f"SGD, alpha = {alpha:g}", SGDClassifier(loss="log_loss", alpha=alpha, random_state=0))
              for alpha in (1e-6, 1e-5, 1e-4, 1e-3)]  # fmt: skip
    for name, model in sides:
        begun = time.process_time()
        model.fit(*train)
        seconds = time.process_time() - begun
        print(f"{name:<20} held-out error {1.0 - model.score(*test):.4f}, {seconds:.1f} CPU s", flush=True)


def main() -> None:
    """Make the embeddings, and run the commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000, help="rows of the training (%(default)s)")
    parser.add_argument("--columns", type=int, default=256, help="numbers of a row (%(default)s)")
    parser.add_argument("--classes", type=int, default=50, help="classes (%(default)s)")
    parser.add_argument("--noise", type=float, default=5.0, help="of a number, beside a mean of 1 (%(default)s)")
    parser.add_argument("-C", default="0.1,1,10,100", help="values of C (%(default)s)")
    parser.add_argument("--dir", default="probe", help="where files are written (%(default)s)")
    parser.add_argument("--beside", action="store_true", help="run scikit-learn as well")
    given = parser.parse_args()
    os.makedirs(given.dir, exist_ok=True)
    os.chdir(given.dir)
    random, rows = np.random.default_rng(0), given.rows + given.rows // 4
    y = random.integers(0, given.classes, rows)
    X = random.standard_normal((given.classes, given.columns))[y]
    X += given.noise * random.standard_normal(X.shape)
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    parts = (X[: given.rows], y[: given.rows]), (X[given.rows :], y[given.rows :])
    for name, part in zip(("train", "test"), parts, strict=True):
        write(f"{name}.parquet", *part)
    run("train", "train.parquet", "--y", "label", "--loss", "logistic", "-C", given.C, "--valid", "test.parquet",
        "--threads", "1", "--log-json", "log.jsonl", "-o", "probe.npz", "--force")  # fmt: skip
    run("report", "probe.npz", "log.jsonl", "--test", "test.parquet", "-o", "probe.html", "--force")
    run("export", "probe.npz", "--to", "json", "-o", "probe.json", "--force")  # or onnx, which needs skl2onnx
    if given.beside:
        print("\n# scikit-learn")
        beside(*parts, [float(C) for C in given.C.split(",")])


if __name__ == "__main__":
    main()
