"""What do tables cost? CPU seconds to write the spool of each format and to score it, beside pyarrow and pandas.

    python -m examples.benchmarks.tables [--rows 300000] [--columns 20] [--repeats 3] [--training | --peaks]

One table of numbers, two columns of words and a label is written as CSV, Parquet and Feather. These are timed in turns,
with the CPU seconds of all threads of the process, and the least of the repeats counts:

spool    ours: the file to rows of numbers in HDF5, words as categories, as `train` does it before its first pass;
score    ours: labels of all rows from the file, in blocks;
pyarrow  reading the file into memory;
pandas   reading the file into memory, and words to columns of numbers by get_dummies;
scored   the same, and the product with the weights.

A second table has files of numbers: `spool` beside the reader of scikit-learn, SciPy or NumPy, which holds all rows.

`--training` prints another table only: CPU seconds of `streammargin train` with 256M, from Parquet with its spool and
from HDF5. They run in turns, a process each. For it take rows and columns such as 1000000 and 100.

`--peaks` prints peak memory in MiB of `streammargin train` from each format, with budgets of 256M, 24M and 17M. The
peak of the same command on 100 rows is subtracted. It is what the system reports of a process, the largest of the
repeats. Numbers alone are Parquet with 60 columns.

Prints tables in Markdown. A ratio is ours over theirs: spool over pandas, score over scored.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.io
import scipy.sparse as sp
from pyarrow import csv, feather, parquet
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import streammargin as sm
from streammargin.tables.matrices.base import How
from streammargin.tables.open import open_table
from streammargin.tables.spool import OfMatrix, OfTable
from streammargin.tables.table import Asked, with_roles

WORDS = {"city": [f"city{k}" for k in range(40)], "work": ["private", "state", "own"]}


def table(rows: int, columns: int) -> pd.DataFrame:
    """Numbers with 6 digits, words, and labels that depend on both."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{k}": random.normal(0.0, 1.0, rows).round(6) for k in range(columns)})
    for name, words in WORDS.items():
        frame[name] = random.choice(words, rows)
    noisy = frame["x0"] + (frame["work"] == "own") + random.normal(0.0, 0.5, rows)
    return frame.assign(y=np.where(noisy > 0.5, "yes", "no"))


def files(folder: str, frame: pd.DataFrame) -> dict[str, tuple[str, Callable[[str], Any], Callable[[str], Any]]]:
    """Path, pyarrow's reader and pandas' reader of each format."""
    paths = {name: os.path.join(folder, f"table.{name}") for name in ("csv", "parquet", "feather")}
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    csv.write_csv(arrow, paths["csv"])
    parquet.write_table(arrow, paths["parquet"])
    feather.write_feather(arrow, paths["feather"], chunksize=1 << 16)
    return {
        "csv": (paths["csv"], csv.read_csv, pd.read_csv),
        "parquet": (paths["parquet"], parquet.read_table, pd.read_parquet),
        "feather": (paths["feather"], feather.read_table, pd.read_feather),
    }


def spool(path: str, folder: str) -> None:
    """Write the spool of a table, anew."""
    target = os.path.join(folder, "rows.h5")
    OfTable(with_roles(open_table(path), Asked(y="y"))).write(target, True)


def numbers(folder: str, rows: int) -> dict[str, tuple[str, Callable[[str], Any]]]:
    """Path and usual reader of files of sparse rows with 100 columns, and of dense ones with 20."""
    X = sp.random(rows, 100, 0.1, "csr", np.float32, np.random.default_rng(0))
    y = np.arange(rows) % 2
    paths = {name: os.path.join(folder, name) for name in ("a.svm", "a.mtx", "sparse.npz", "dense.npy")}
    dump_svmlight_file(X, y, paths["a.svm"], zero_based=False)
    scipy.io.mmwrite(paths["a.mtx"], X)
    sp.save_npz(paths["sparse.npz"], X, compressed=False)
    np.save(paths["dense.npy"], np.random.default_rng(0).random((rows, 20), np.float32))
    readers = {"a.svm": load_svmlight_file, "a.mtx": scipy.io.mmread, "sparse.npz": sp.load_npz, "dense.npy": np.load}
    return {name: (paths[name], readers[name]) for name in paths}


def spool_numbers(path: str, folder: str) -> None:
    """Write the spool of a file of numbers, anew."""
    with contextlib.ExitStack() as stack:
        OfMatrix([path], How(path, stack)).write(os.path.join(folder, "rows.h5"), True)


def long_table(path: str, rows: int, columns: int) -> None:
    """Numbers in float32 and noisy labels, in row groups of 200,000."""
    random = np.random.default_rng(0)
    weights = random.normal(size=columns)
    writer = None
    for start in range(0, rows, 200_000):
        X = random.normal(size=(min(200_000, rows - start), columns)).astype(np.float32)
        y = np.where(X @ weights / np.sqrt(columns) + random.normal(size=len(X)) > 0, "yes", "no")
        part = pa.table({**{f"x{k}": X[:, k] for k in range(columns)}, "y": y})
        writer = writer or parquet.ParquetWriter(path, part.schema)
        writer.write_table(part, row_group_size=200_000)
    assert writer is not None
    writer.close()


# a small process starts the command: a child begins with the peak of its parent
LAUNCH = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:])
_, status, used = os.wait4(child.pid, 0)
assert status == 0
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def process(data: str, folder: str, memory: str = "256M") -> tuple[float, float]:
    """CPU seconds and peak MiB of a training, in a process of its own."""
    command = [sys.executable, "-m", "streammargin", "train", data, "-o", os.path.join(folder, "m.npz"), "--memory",
               memory, "--force", "-q"]  # fmt: skip
    launch = [sys.executable, "-S", "-c", LAUNCH, *command]
    seconds, peak = subprocess.run(launch, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return float(seconds), float(peak) / 1024


def peaks(folder: str, rows: int, repeats: int) -> None:
    """Print the table of peak memory."""
    wide = os.path.join(folder, "numbers.parquet")
    long_table(wide, rows, 60)
    frame = table(rows, 20)
    given = {"numbers, Parquet": wide, **{name: found[0] for name, found in files(folder, frame).items()}}
    few = {"numbers, Parquet": os.path.join(folder, "few.parquet")}
    parquet.write_table(parquet.read_table(wide).slice(0, 100), few["numbers, Parquet"])
    os.mkdir(os.path.join(folder, "few"))
    few |= {name: found[0] for name, found in files(os.path.join(folder, "few"), frame.head(100)).items()}
    del frame

    def peak(path: str, memory: str) -> float:
        found = []
        for _ in range(repeats):
            if os.path.exists(spool := os.path.join(folder, f"{os.path.basename(path)}.rows.h5")):
                os.unlink(spool)
            found.append(process(path, folder, memory)[1])
        return max(found)

    for path in given.values():  # compiles
        process(path, folder)
    print(f"| `--memory` | {' | '.join(given)} |\n|---|{'---|' * len(given)}")
    for memory in ("256M", "24M", "17M"):
        found = [peak(given[name], memory) - peak(few[name], memory) for name in given]
        print(f"| {memory} | {' | '.join(f'{each:.0f}' for each in found)} |", flush=True)


def training(folder: str, rows: int, columns: int, repeats: int) -> None:
    """Print the table of trainings."""
    path = os.path.join(folder, "long.parquet")
    long_table(path, rows, columns)
    spool = f"{path}.rows.h5"
    turns = []
    for _ in range(1 + repeats):  # the first compiles
        if os.path.exists(spool):
            os.unlink(spool)
        turns.append((process(path, folder)[0], process(spool, folder)[0]))
    own, plain = (min(column) for column in zip(*turns[1:], strict=True))
    print("| MB | Parquet and spool | HDF5 | ratio |\n|---|---|---|---|")
    size = os.path.getsize(path) / 1e6
    print(f"| {size:.0f} | {own:.2f} | {plain:.2f} | {own / plain:.2f} |")


def seconds(work: Callable[[], Any]) -> float:
    """CPU seconds of all threads."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Time everything in turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--peaks", action="store_true")
    options = parser.parse_args()
    if options.peaks:
        with tempfile.TemporaryDirectory() as folder:
            peaks(folder, options.rows, options.repeats)
        return
    if options.training:
        with tempfile.TemporaryDirectory() as folder:
            training(folder, options.rows, options.columns, options.repeats)
        return
    frame = table(options.rows, options.columns)
    model = sm.train(frame.head(20_000), y="y", tol=1e-2).model
    print("| format | MB | spool | score | pyarrow | pandas | scored | spool / pandas | score / scored |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, (path, arrow, pandas) in files(folder, frame).items():

            def columns(path: str = path, pandas: Callable[[str], Any] = pandas) -> pd.DataFrame:
                return pd.get_dummies(pandas(path).drop(columns="y"), dtype=np.float32)

            works: dict[str, Callable[[], Any]] = {
                "spool": lambda path=path: spool(path, folder),
                "score": lambda path=path: model.predict(path),
                "pyarrow": lambda path=path, arrow=arrow: arrow(path),
                "pandas": columns,
                "scored": lambda columns=columns: columns().to_numpy(np.float32) @ model.coef_[0] > 0.0,
            }
            turns = [{key: seconds(work) for key, work in works.items()} for _ in range(options.repeats)]
            least = {key: min(turn[key] for turn in turns) for key in works}
            cells = [f"{least[key]:.2f}" for key in works]
            ratios = [f"{least[one] / least[other]:.2f}" for one, other in (("spool", "pandas"), ("score", "scored"))]
            print(f"| {name} | {os.path.getsize(path) / 1e6:.0f} | {' | '.join(cells + ratios)} |", flush=True)
        print("\n| file | MB | spool | usual reader | ratio |\n|---|---|---|---|---|")
        for name, (path, usual) in numbers(folder, options.rows).items():
            pairs = [
                (
                    seconds(lambda path=path: spool_numbers(path, folder)),
                    seconds(lambda path=path, usual=usual: usual(path)),
                )
                for _ in range(options.repeats)
            ]
            own, theirs = (min(column) for column in zip(*pairs, strict=True))
            size = os.path.getsize(path) / 1e6
            print(f"| {name} | {size:.0f} | {own:.2f} | {theirs:.2f} | {own / theirs:.1f} |", flush=True)


if __name__ == "__main__":
    main()
