"""Vowpal Wabbit from its own cache: online steps, a setting being a number of passes; L-BFGS for the logistic loss."""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

from examples.benchmarks.sides import Side

PASSES = (1, 2, 5, 10, 20, 50)
STEP = 1 << 12  # rows that are written at a time


def write_text(X: Any, y: Any, path: str) -> None:
    """Rows as Vowpal Wabbit reads them; a column is named by its number, which is its place in the weights."""
    import numpy as np
    import pyarrow as pa
    import scipy.sparse as sp
    from pyarrow import compute

    with open(path, "wb") as file:
        for start in range(0, X.shape[0], STEP):
            rows = sp.csr_matrix(X[start : start + STEP])
            columns, values = (pa.array(each).cast("string") for each in (rows.indices, rows.data.astype(np.float32)))
            pairs = compute.binary_join_element_wise(columns, values, ":")
            lines = compute.binary_join(pa.ListArray.from_arrays(rows.indptr.astype(np.int32), pairs), " ")
            labels = pa.array(y[start : start + STEP]).cast("string")
            lines = compute.binary_join_element_wise(labels, lines, " | ")
            file.write("".join(f"{line}\n" for line in lines.to_pylist()).encode("ascii"))


def read_weights(path: str, d: int) -> Any:
    """The weights (1, d) of a readable model."""
    import numpy as np

    W = np.zeros((1, d))
    with open(path, encoding="ascii", errors="replace") as file:
        for line in file:
            place, _, rest = line.partition(":")
            if place.isdigit() and rest:
                W[0, int(place)] = float(rest.split()[0])
    return W


def bits(d: int) -> int:
    """The least -b with a place for every column."""
    return max(1, (d - 1).bit_length())


def prepare(X: Any, y: Any, threads: int) -> Any:
    """A folder with the rows as text and as cache; (folder, rows, columns)."""
    from vowpalwabbit import Workspace

    if y.min() == 0:
        raise ValueError("Vowpal Wabbit is compared on two classes only")
    folder = tempfile.TemporaryDirectory()
    text = os.path.join(folder.name, "rows")
    write_text(X, y, text)
    Workspace(f"-d {text} --cache_file {text}.cache -k -b {bits(X.shape[1])} --noconstant --quiet").finish()
    os.unlink(text)
    return folder, X.shape[0], X.shape[1]


def solve(data: Any, loss: str, C: float, passes: int, limit: float) -> tuple[Any, dict[str, Any]]:
    """`passes` over the cache, at its default steps."""
    from vowpalwabbit import Workspace

    folder, rows, d = data
    base = os.path.join(folder.name, "rows")
    if loss == "logistic":  # its online steps weigh the penalty by row, L-BFGS by the sum
        how = f"--bfgs --passes {passes + 1} --l2 {1.0 / C!r}"
    else:
        how = f"--passes {passes} --l2 {1.0 / (C * rows)!r}"
    started = time.perf_counter()
    common = f"-d {base} --cache_file {base}.cache -b {bits(d)} --noconstant --quiet --holdout_off --random_seed 0"
    Workspace(f"{common} --loss_function {loss} {how} --predict_only_model --readable_model {base}.txt").finish()
    seconds = time.perf_counter() - started
    return read_weights(f"{base}.txt", d), {"passes": passes, "seconds": seconds}


SIDES = {"Vowpal Wabbit": Side(("hinge", "logistic"), PASSES, prepare, solve)}
