"""streammargin-data generate OUT.h5: rows drawn about a hidden separator, as many as are wanted."""

from __future__ import annotations

import argparse
import os
from typing import NamedTuple

import numpy as np

from streammargin.cli.options import named, number
from streammargin.data_tools.rows import BATCH_BYTES, check_name, check_seed
from streammargin.errors import UsageError
from streammargin.files import check_output
from streammargin.matching import MAX_CLASSES
from streammargin.sizes import format_size, parse_size
from streammargin.sources.batch import Batch
from streammargin.sources.hdf5.write import writing
from streammargin.tables.matrices.compressed import check_space

_LARGEST_ROW = 1 << 30  # a few of them are in memory at a time


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of generate."""
    parser.add_argument("output", metavar="OUT.h5")
    parser.add_argument("--rows", type=int, metavar="N", help="number of rows (default 10000)")
    parser.add_argument("--size", metavar="SIZE", help="size of the file, instead of --rows (1G = 2^30 bytes)")
    parser.add_argument("--features", type=int, default=100, metavar="D", help="number of columns (default 100)")
    parser.add_argument(
        "--sparse", action="store_true", help="sparse rows of norm 1, with few frequent columns and many rare ones"
    )
    parser.add_argument("--nonzeros", type=int, default=50, metavar="K", help="values of a sparse row (default 50)")
    parser.add_argument("--separable", type=number, metavar="MARGIN",
                        help="least distance of a row from the separator (default: classes overlap)")  # fmt: skip
    parser.add_argument("--noise", type=number, default=0.1, metavar="SHARE",
                        help="share of rows with a random label, if classes overlap (default 0.1)")  # fmt: skip
    parser.add_argument("--classes", type=int, default=2, metavar="K", help="number of classes (default 2)")
    parser.add_argument(
        "--dtype", default="float32", choices=["float32", "float64"], help="type of the values (default float32)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default 0)")
    parser.add_argument("--force", action="store_true", help="replace an existing OUT.h5")


def run(options: argparse.Namespace) -> str:
    """Generate the file asked for on the command line; returns what to say about it."""
    rows = generate(**named(generate, options))
    return f"{options.output}: {rows} rows, {options.features} columns"


def generate(
    output: str,
    *,
    rows: int | None = None,
    size: str | int | None = None,
    features: int = 100,
    sparse: bool = False,
    nonzeros: int = 50,
    separable: float | None = None,
    noise: float = 0.1,
    classes: int = 2,
    dtype: str = "float32",
    seed: int = 0,
    force: bool = False,
) -> int:
    """Write rows (n, features) and labels (-1 and 1, or 0 .. classes - 1); returns n.

    Dense rows are standard normal. Sparse rows have norm 1 and `nonzeros` columns with the frequencies of words. Labels
    follow hidden normal weights; a share `noise` of them is random. With `separable` (two classes only), rows closer to
    the separator are moved along its normal until their margin is `separable`. The same arguments give the same file.
    """
    item, filled = np.dtype(dtype).itemsize, min(nonzeros, features) if sparse else 0
    row_bytes = (filled * (item + 4) + 9) if sparse else features * item + 1
    if rows is not None and size is not None:
        raise UsageError("give either `rows` or `size`, not both")
    count = rows if rows is not None else 10_000 if size is None else parse_size(size) // row_bytes
    if count < 1 or features < 1 or nonzeros < 1:
        raise UsageError("`rows`, `features` and `nonzeros` must be at least 1 (and `size` enough for one row)")
    _check_sizes(features, classes, row_bytes, item)
    if not 0.0 <= noise <= 1.0:
        raise UsageError(f"`noise` is a share of the rows between 0 and 1, not {noise}")
    if separable is not None and not (0.0 < separable < np.inf and classes == 2):
        raise UsageError("`separable` takes a positive margin and two classes")
    check_seed(seed)
    check_name(output)
    check_output(output, force)
    check_space(output, count * (row_bytes + 7))  # the labels are stored in 8 bytes
    hidden = np.random.default_rng([seed, 0]).standard_normal((features, 1 if classes == 2 else classes))
    drawing = _Drawing((hidden / np.linalg.norm(hidden, axis=0)).astype(dtype), filled, classes, separable, noise)
    step = max(1, BATCH_BYTES // row_bytes)
    with writing(output, force, dtype, sparse, features) as writer:
        writer.of = count
        for each, start in enumerate(range(0, count, step), 1):
            writer.append(drawing.rows(np.random.default_rng([seed, each]), min(step, count - start)))
    return count


def _check_sizes(features: int, classes: int, row_bytes: int, item: int) -> None:
    """UsageError if rows, or their separators in values of `item` bytes, are too large."""
    if not 2 <= classes <= MAX_CLASSES:
        raise UsageError(f"`classes` must be at least 2 and at most {MAX_CLASSES}, not {classes}")
    if features >= 2**31:
        raise UsageError(f"`features` must be at most {2**31 - 1}, not {features}")
    if row_bytes > _LARGEST_ROW:
        raise UsageError(
            f"a row of {format_size(row_bytes)} is too long, at most {format_size(_LARGEST_ROW)}; "
            "lower `features`, or take `sparse=True` with fewer `nonzeros`"
        )
    separators = features * (1 if classes == 2 else classes) * (8 + 8 + item)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # of this machine
    if separators > memory:
        raise UsageError(
            f"the separators of {features} features and {classes} classes take {format_size(separators)}, "
            f"and this machine has {format_size(memory)} of memory; lower `features` or `classes`"
        )


class _Drawing(NamedTuple):
    """The parameters of drawn rows: hidden weights (d, 1 or classes), each of norm 1, and as for `generate`.

    nonzeros: 0 for dense rows.
    """

    hidden: np.ndarray
    nonzeros: int
    classes: int
    separable: float | None
    noise: float

    def rows(self, generator: np.random.Generator, m: int) -> Batch:
        """The next m rows, with labels."""
        batch, scores = (self._sparse if self.nonzeros else self._dense)(generator, m)
        two = self.classes == 2
        labels = np.where(scores[:, 0] > 0.0, 1, -1) if two else np.argmax(scores, axis=1)
        if self.separable is not None:
            _push_apart(batch, labels, scores[:, 0], self.hidden[:, 0], self.separable)
        else:
            random = generator.choice(np.array([-1, 1]) if two else self.classes, m)
            labels = np.where(generator.random(m) < self.noise, random, labels)
        return batch._replace(labels=labels.astype(np.int8 if self.classes <= 127 else np.int16))

    def _dense(self, generator: np.random.Generator, m: int) -> tuple[Batch, np.ndarray]:
        """Rows and their scores."""
        X = generator.standard_normal((m, len(self.hidden)), dtype=self.hidden.dtype)
        return Batch(X, None, None, None, None, None), X @ self.hidden

    def _sparse(self, generator: np.random.Generator, m: int) -> tuple[Batch, np.ndarray]:
        d, k, hidden = len(self.hidden), self.nonzeros, self.hidden
        # sorted uniforms, bent towards 0 as word frequencies are, then spread so that no column comes twice
        places = np.sort(generator.random((m, k), dtype=np.float32), axis=1).astype(np.float64)
        columns = (places**4 * (d - k + 1)).astype(np.int32)
        np.minimum(columns, d - k, out=columns)
        columns += np.arange(k, dtype=np.int32)
        values = generator.random((m, k), dtype=np.float32) + np.float32(0.1)
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        values = values.astype(hidden.dtype)
        scores = np.stack([np.einsum("ij,ij->i", values, hidden[columns, c]) for c in range(hidden.shape[1])], axis=1)
        indptr = np.arange(m + 1, dtype=np.int64) * k
        return Batch(None, values.ravel(), columns.ravel(), indptr, None, None), scores


def _push_apart(batch: Batch, labels: np.ndarray, scores: np.ndarray, w: np.ndarray, margin: float) -> None:
    """Move rows in place, within their own nonzeros, until y x.w >= margin (||w|| = 1)."""
    # a little more than asked, so that rounding to the stored type does not undo it
    missing = np.maximum(0.0, margin * (1.0 + 1e-5) - labels * scores.astype(np.float64)) * labels
    if batch.X is not None:
        np.add(batch.X, missing[:, None] * w, out=batch.X, casting="same_kind")
        return
    assert batch.data is not None and batch.indices is not None and batch.indptr is not None
    rows = len(labels)
    here = w[batch.indices].reshape(rows, -1).astype(np.float64)
    values = batch.data.reshape(rows, -1)
    values += (here * (missing / np.einsum("ij,ij->i", here, here))[:, None]).astype(values.dtype)
