"""An atlas of cells, end to end: raw counts to marker genes and annotated cells, within a quarter of the file.

    python -m examples.cells [--cells 5000 --genes 2000 --types 10] [--top 300] [-C 0.1] [--path 0.002,0.005]

The counts are generated, in chunks: a cell has some 1,500, of which the twenty markers of its type have 2%. Batches
differ in their rates, and 3% of the labels are wrong. Then come commands of the program, each in a process of its own.
They train on all genes, and again on those with the largest weights of each type. They evaluate by type on new cells,
and predict. Beside them l21 takes whole genes, along a path: each C begins at the weights of the one before. Errors
count the labels as they are, and the true types. It needs the extra anndata.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
from typing import Any

import numpy as np

CHUNK, BATCHES, MARKERS, WRONG = 1_000, 4, 20, 0.03


def shares(genes: int, types: int, random: np.random.Generator) -> np.ndarray:
    """The share of each gene in the counts of a cell, summed up, by type and batch (types, BATCHES, genes)."""
    rate = np.tile(random.gamma(0.5, 2.0, genes), (types, 1))
    for one in rate:
        one[random.choice(genes, MARKERS, replace=False)] += 0.02 * genes / MARKERS
    rates = rate[:, None] * np.exp(0.3 * random.standard_normal((BATCHES, genes)))
    return np.cumsum(rates / rates.sum(axis=2, keepdims=True), axis=2)


def write(path: str, cells: int, share: np.ndarray, random: np.random.Generator) -> None:
    """A file of cells with raw counts as a layer, their type as it was labelled, the true one, and the batch."""
    import anndata as ad
    import h5py
    import pandas as pd
    import scipy.sparse as sp

    types, _, genes = share.shape
    kind, batch = random.integers(0, types, cells), random.integers(0, BATCHES, cells)
    label = np.where(random.random(cells) < WRONG, random.integers(0, types, cells), kind)
    columns = {"cell_type": label, "true_type": kind, "batch": batch}
    obs = pd.DataFrame({name: pd.Categorical([f"{name[-4:]} {k:02}" for k in of]) for name, of in columns.items()},
                       index=[f"cell {row}" for row in range(cells)])  # fmt: skip
    ad.AnnData(obs=obs, var=pd.DataFrame(index=[f"g{gene}" for gene in range(genes)])).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        for low in range(0, cells, CHUNK):
            depth = 1 + random.poisson(1_500 * random.gamma(4.0, 0.25, min(CHUNK, cells - low)))
            drawn = [np.searchsorted(share[kind[low + row], batch[low + row], :-1], random.random(count))
                     for row, count in enumerate(depth)]  # fmt: skip
            entries = np.ones(depth.sum(), np.float32), np.concatenate(drawn), np.append(0, np.cumsum(depth))
            counts = sp.csr_matrix(entries, shape=(len(depth), genes))
            counts.sum_duplicates()
            if low:
                ad.io.sparse_dataset(file["layers/counts"]).append(counts)
            else:
                ad.io.write_elem(file.require_group("layers"), "counts", counts)


def run(*command: object, to: str | None = None) -> None:
    """A command of the program, and what it took. to: a file of what it prints."""
    words = [str(word) for word in command]
    shown = shlex.join(word if len(word) < 60 else f"{word[:50]}..." for word in words)
    print(f"\n$ streammargin {shown}" + (f" > {to}" if to else ""), flush=True)
    if (child := os.fork()) == 0:  # the command line of a new program cannot have thousands of names
        from streammargin.cli.main import main as streammargin

        if to:
            os.dup2(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os._exit(streammargin(words))
    _, status, used = os.wait4(child, 0)
    print(f"# {used.ru_utime + used.ru_stime:.1f} CPU s, at most {used.ru_maxrss >> 10} MiB in memory", flush=True)
    if status:
        raise SystemExit(f"it ended with the code {os.waitstatus_to_exitcode(status)}")


def largest(model: str, count: int, to: str) -> dict[str, list[dict[str, Any]]]:
    """The genes of the largest weights of each type, as their standard deviations count; to: where they are written."""
    run("info", model, "--top", count, "--json", to=to)
    with open(to) as file:
        return {one["label"]: one["features"] for one in json.load(file)["top_features"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("--cells", 5_000), ("--genes", 2_000), ("--types", 10), ("--top", 300)):
        parser.add_argument(name, type=int, default=default, help="(%(default)s)")
    parser.add_argument("-C", default="0.1", help="of both trainings (%(default)s)")
    parser.add_argument("--path", default="0.002,0.005", help="values of C for l21, in rising order (%(default)s)")
    parser.add_argument("--dir", default="cells", help="where files are written (%(default)s)")
    given = parser.parse_args()
    os.makedirs(given.dir, exist_ok=True)
    os.chdir(given.dir)
    random = np.random.default_rng(0)
    share = shares(given.genes, given.types, random)
    write("counts.h5ad", given.cells, share, random)
    write("new.h5ad", 1 + given.cells // 10, share, random)
    print(f"counts.h5ad has {(size := os.path.getsize('counts.h5ad') >> 20)} MiB")
    rows = ["--x", "layers/counts", "--memory", f"{max(64, size // 4)}M"]  # small files need 64M
    train = ["train", "counts.h5ad", "--y", "obs/cell_type", *rows, "--transform", "total:10000,log1p",
             "--loss", "logistic", "--valid", "new.h5ad", "--force"]  # fmt: skip
    run(*train, "-C", given.C, "-o", "all.npz")
    union = sorted({gene["name"] for genes in largest("all.npz", given.top, "top.json").values() for gene in genes})
    print(f"# {len(union)} of {given.genes} genes are kept")
    run(*train, "-C", given.C, "-o", "types.npz", "--columns", ",".join(union))
    with open("markers.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["type", "gene", "weight"])
        for kind, genes in largest("types.npz", MARKERS, "markers.json").items():
            table.writerows([kind, gene["name"], gene["weight"]] for gene in genes if gene["weight"] > 0)
    before: list[str] = []
    for C in given.path.split(","):
        run(*train, "--penalty", "l21", "--tol", "0.01", "-C", C, *before, "-o", f"l21_{C}.npz")
        before = ["--init", f"l21_{C}.npz"]
    for column in ("cell_type", "true_type"):
        run("evaluate", "types.npz", "new.h5ad", "--y", f"obs/{column}", *rows)
    run("predict", "types.npz", "new.h5ad", *rows, "--obs", "predicted", "--probability", "-o", "annotated.h5ad",
        "--force")  # fmt: skip


if __name__ == "__main__":
    main()
