"""Train with two workers of this machine, as on a cluster: python examples/dask_local.py [FILE.h5 ...]

Without a file it makes two. Elsewhere only the cluster is another one: `Client("tcp://SCHEDULER:8786")`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster

import streammargin as sm


def write_rows(folder: Path) -> list[str]:
    """Two files of 100,000 rows each, with labels that a tenth of the rows has wrong."""
    random, files = np.random.default_rng(0), []
    w = random.standard_normal(30)
    for number in (1, 2):
        X = random.standard_normal((100_000, 30)).astype(np.float32)
        y = np.where((w @ X.T > 0.0) ^ (random.random(len(X)) < 0.1), 1, -1)
        sm.write_hdf5([(X, y)], path := str(folder / f"part-{number}.h5"))
        files.append(path)
    return files


def main(files: list[str]) -> None:
    """Train, and say what was proven."""
    with tempfile.TemporaryDirectory() as folder:
        files = files or write_rows(Path(folder))
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            result = sm.dask.train(client, files, memory="128M")
        print(f"{result.reason} after {result.passes} rounds, certified gap {result.certificate.gap:.1e}")
        print(f"training error {result.certificate.train_error:.4f} on {len(files)} files")


if __name__ == "__main__":  # workers import this file
    main(sys.argv[1:])
