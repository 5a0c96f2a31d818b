"""CellTypist on the files of `examples.cells`, in its exact mode and by SGD, on all genes or on 300 of each type.

    python -m examples.benchmarks.cell_typist FOLDER exact|sgd [--select] [-C 0.1] [--save MODEL]

It runs with celltypist alone (pip install celltypist), on one thread. It reads and normalises as its users do, with
scanpy; sparse rows are scaled without centring. CPU seconds are those of reading and training, and the peak is that of
the process after them.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

import anndata
import celltypist
import scanpy


def cells(folder: str, name: str) -> Any:
    """The cells of a file, normalised."""
    found = anndata.read_h5ad(os.path.join(folder, name))
    found.X = found.layers.pop("counts")
    scanpy.pp.normalize_total(found, target_sum=1e4)
    scanpy.pp.log1p(found)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("mode", choices=("exact", "sgd"))
    parser.add_argument("--select", action="store_true", help="refit the union of the 300 largest weights")
    parser.add_argument("-C", type=float, default=0.1, help="of the exact mode (%(default)s)")
    parser.add_argument("--save", help="write the model")
    given = parser.parse_args()
    begun = time.process_time()
    model = celltypist.train(cells(given.folder, "counts.h5ad"), "cell_type", with_mean=False, n_jobs=1, C=given.C,
                             use_SGD=given.mode == "sgd", feature_selection=given.select)  # fmt: skip
    used, peak = time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    new = cells(given.folder, "new.h5ad")
    new.X = new.X.toarray()  # sparse ones fail in `annotate` without centring
    found = celltypist.annotate(new, model).predicted_labels["predicted_labels"].astype(str).to_numpy()
    wrong = [(found != new.obs[column].astype(str).str.replace("true", "type")).mean()
             for column in ("cell_type", "true_type")]  # fmt: skip
    print(f"{given.mode}: {len(model.features)} genes, error {wrong[0]:.4f}, by true types {wrong[1]:.4f}, training "
          f"{used:.1f} CPU s, peak {peak} MiB")  # fmt: skip
    if given.save:
        model.write(given.save)


if __name__ == "__main__":
    main()
