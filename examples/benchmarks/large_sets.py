"""Sets for the benchmarks out of core: generated ones of gigabytes, real rows many times over with noise."""

from __future__ import annotations

import os
from typing import Any

import h5py
import numpy as np

from examples.benchmarks.sets import SETS, Set, generated, make
from streammargin.sources.batch import Batch
from streammargin.sources.hdf5.write import writing

STEP = 1 << 16  # rows
COPIES, NOISE = 50, 0.1


def _by_label(rows: int, **options: Any) -> Any:
    """The generated rows with all of the smaller label first."""

    def write(data: str, path: str, fewer: int | None) -> None:
        mixed = f"{path}.mixed.h5"
        generated(rows, **options)(data, mixed, fewer)
        with (
            h5py.File(mixed) as file,
            writing(path, True, np.float32, options.get("sparse", False), options["features"]) as writer,
        ):
            y = file["y"][:]
            for label in np.unique(y):
                for start in range(0, len(y), STEP):
                    here = np.flatnonzero(y[start : start + STEP] == label)
                    writer.append(_rows(file["X"], start, min(start + STEP, len(y)), here, y))
        os.unlink(mixed)

    return write


def _rows(node: Any, start: int, stop: int, here: np.ndarray, y: np.ndarray) -> Batch:
    """Rows start + here of a stored matrix."""
    labels = y[start + here]
    if isinstance(node, h5py.Dataset):
        return Batch(node[start:stop][here], None, None, None, labels, None)
    indptr = node["indptr"][start : stop + 1]
    low, high = int(indptr[0]), int(indptr[-1])
    chosen = np.zeros(stop - start, bool)
    chosen[here] = True
    kept = np.repeat(chosen, np.diff(indptr))
    bounds = np.concatenate([[0], np.cumsum(np.diff(indptr)[here])])
    return Batch(None, node["data"][low:high][kept], node["indices"][low:high][kept], bounds, labels, None)


def _copies(data: str, path: str, fewer: int | None) -> None:
    """rcv1sub's training rows many times over, every value times 1 + noise, in an order of their own each time."""
    inner = make("rcv1sub", data, os.path.dirname(path))
    with h5py.File(inner) as file:
        y, indptr = file["y"][:], file["X/indptr"][:]
        values, columns, d = file["X/data"][:], file["X/indices"][:], int(file["X"].attrs["shape"][1])
    rows = min(len(y), fewer or len(y))
    lengths = np.diff(indptr)
    with writing(path, True, np.float32, sparse=True, features=d) as writer:
        for copy in range(COPIES):
            random = np.random.default_rng([0, copy])
            order = random.permutation(len(y))[:rows]
            places = np.concatenate([np.arange(indptr[i], indptr[i + 1]) for i in order])
            noisy = values[places] * (1.0 + NOISE * random.standard_normal(len(places)))
            bounds = np.concatenate([[0], np.cumsum(lengths[order])])
            writer.append(Batch(None, noisy.astype(np.float32), columns[places], bounds, y[order], None))


WIDE, NARROW = ({"features": d, "seed": seed, "noise": 0.1} for d, seed in ((200, 11), (100, 12)))
CSR_WIDE, CSR_NARROW = ({**shape, "sparse": True, "nonzeros": shape["features"] // 5} for shape in (WIDE, NARROW))
LARGE = {
    "dense200": Set("2,500,000 x 200, dense", generated(2_500_000, **WIDE)),
    "dense200-sorted": Set("the same, sorted by label", _by_label(2_500_000, **WIDE)),
    "csr200": Set("2,500,000 x 200, 20% nonzeros", generated(2_500_000, **CSR_WIDE)),
    "csr200-sorted": Set("the same, sorted by label", _by_label(2_500_000, **CSR_WIDE)),
    "dense100": Set("4,000,000 x 100, dense", generated(4_000_000, **NARROW)),
    "csr100": Set("4,000,000 x 100, 20% nonzeros", generated(4_000_000, **CSR_NARROW)),
    "B": SETS["B"],
    "rcv50": Set("rcv1 subset, 50 noisy copies", _copies, "rcv1sub/rcv1sub.binary.bz2", test=True),
    "a9a": SETS["a9a"],
    "covtype20k": SETS["covtype20k"],
}
