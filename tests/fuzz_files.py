"""Valid files of every kind that a command reads, for tests/fuzz.py to mutate."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import scipy.sparse as sp

ROWS = 60
PLUGINS = {"blosc": "Blosc", "zstd": "Zstd"}  # kinds that hdf5plugin packs
PLAIN, KINDS, DATA, RATINGS, TABLE = "plain.h5", "kinds.npy", "data.h5", "ratings.csv", "table.csv"  # beside others


def rows(sparse: bool) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((ROWS, 8)).astype(np.float32)
    X *= generator.random(X.shape) < (0.4 if sparse else 1.0)
    return X, np.where(X[:, 0] + X[:, 1] > 0.0, 1, -1)


def hdf5(path: Path, sparse: bool, block: int = 0, **storage: object) -> None:
    X, y = rows(sparse)
    with h5py.File(path, "w", userblock_size=block) as file:
        if sparse:
            matrix, group = sp.csr_matrix(X), file.create_group("X")
            group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": X.shape})
            for name in ("data", "indices", "indptr"):
                group.create_dataset(name, data=getattr(matrix, name), **storage)
        else:
            file.create_dataset("X", data=X, **storage)
        file["y"] = y if not storage else np.array([f"class {label}" for label in y], dtype=h5py.string_dtype())
        file["sample_weight"] = np.ones(ROWS)


def packed(path: Path, name: str) -> None:
    import hdf5plugin

    hdf5(path, False, chunks=(16, 8), **getattr(hdf5plugin, name)())


def obs(path: Path) -> None:
    """anndata's file: sparse rows, labels that are categories, texts in attributes."""
    X, y = rows(True)
    matrix = sp.csr_matrix(X)
    with h5py.File(path, "w") as file:
        group, obs = file.create_group("X"), file.create_group("obs")
        group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": X.shape})
        for name in ("data", "indices", "indptr"):
            group.create_dataset(name, data=getattr(matrix, name), chunks=(32,), compression="lzf", shuffle=True)
        obs.attrs.update({"encoding-type": "dataframe", "_index": "_index", "column-order": ["y"]})
        obs["_index"] = np.array([f"cell {k}" for k in range(ROWS)], dtype=h5py.string_dtype())
        obs["y/codes"] = ((y + 1) // 2).astype(np.int8)
        obs["y/categories"] = np.array(["low", "high"], dtype=h5py.string_dtype())


def var(path: Path) -> None:
    """Rows whose columns have names, as this package writes them."""
    from streammargin.sources.hdf5.columns import write_names

    hdf5(path, False)
    with h5py.File(path, "a") as file:
        write_names(file, np.array([f"gene {k}" for k in range(file["X"].shape[1])]))


def csc(path: Path) -> None:
    matrix = sp.csc_matrix(rows(True)[0])
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csc_matrix", "shape": matrix.shape})
        group["data"], group["indices"], group["indptr"] = matrix.data, matrix.indices, matrix.indptr


def text(path: Path, pack: Callable[[bytes], bytes] = bytes, csv: bool = False) -> None:
    X, y = rows(not csv)
    if csv:
        lines = ["a,b,c,d,e,f,g,h,label"] + [
            ",".join(f"{v:.4g}" for v in [*row, label]) for row, label in zip(X, y, strict=True)
        ]
    else:
        lines = [
            f"{label} " + " ".join(f"{j + 1}:{row[j]:.4g}" for j in np.flatnonzero(row))
            for row, label in zip(X, y, strict=True)
        ]
    path.write_bytes(pack(("\n".join(lines) + "\n").encode()))


def npz(path: Path) -> None:
    with open(path, "wb") as file:
        sp.save_npz(file, sp.csr_matrix(rows(True)[0]))


def market(path: Path) -> None:
    import scipy.io

    scipy.io.mmwrite(path, sp.csc_matrix(rows(True)[0]))


def savez(path: Path) -> None:
    X, y = rows(False)
    np.savez_compressed(path, X=X, y=y)


def arrow(path: Path) -> None:
    """A table of numbers, words and gaps, in the format that the name says."""
    import pyarrow as pa
    from pyarrow import csv, feather, ipc, parquet

    X, y = rows(False)
    numbers = {f"x{k}": pa.array(column.astype(float), mask=column > 2.0) for k, column in enumerate(X.T)}
    words = pa.array(np.array(["Rome", "Oslo", "Bern"])[np.arange(ROWS) % 3]).dictionary_encode()
    table = pa.table({**numbers, "city": words, "label": np.where(y > 0, "yes", "no")})
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=20)
    elif path.suffix == ".feather":
        feather.write_feather(table, path, compression="lz4", chunksize=20)
    elif path.suffix == ".csv":
        csv.write_csv(table.set_column(8, "city", words.dictionary_decode()), path)
    else:
        with ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table, 20)


def cells(path: Path) -> None:
    """A folder of single cells: the matrix, names of genes and barcodes, and labels by barcode."""
    import scipy.io

    X, y = rows(True)
    cells = [f"ACGT{k}-1" for k in range(ROWS)]
    scipy.io.mmwrite(path.parent / "matrix.mtx", sp.csc_matrix(X.T))
    genes = [f"ENSG{k}\tgene {k}\tGene Expression\n" for k in range(X.shape[1])]
    (path.parent / "features.tsv").write_text("".join(genes))
    (path.parent / "barcodes.tsv").write_text("".join(f"{cell}\n" for cell in cells))
    kinds = [f"{cell},{'low' if label < 0 else 'high'}\n" for cell, label in zip(cells, y, strict=True)]
    (path.parent / "kinds.csv").write_text("".join(["cell,kind\n", *kinds]))


def hive(path: Path) -> None:
    """Two folders whose names are columns; the rows of both are the same."""
    other = path.parents[2] / "year=2021" / "size=small" / path.name
    other.parent.mkdir(parents=True, exist_ok=True)
    arrow(other)
    shutil.copy(other, path)


def beside(folder: Path) -> None:
    """Rows and labels that other files of the folder need."""
    hdf5(folder / PLAIN, False)
    np.save(folder / KINDS, rows(True)[1])


def ratings(path: Path) -> None:
    """Ratings of 12 users and 5 films: a table of a user, a film and a whole number each."""
    lines = (f"u{k % 12},f{k % 5},{1 + k % 4}\n" for k in range(ROWS))
    path.write_text("user,film,value\n" + "".join(lines))


def of_three(path: Path) -> None:
    """Rows of three classes."""
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = rows(False)[0], np.arange(ROWS) % 3


def in_groups(path: Path) -> None:
    """Rows of two groups, each with a task of its own."""
    X, y = rows(False)
    with h5py.File(path, "w") as file:
        file["X"], file["y"], file["group"] = X, y, np.arange(ROWS) % 2


def sparse(path: Path) -> None:
    """Sparse rows."""
    hdf5(path, True)


def dense(path: Path) -> None:
    """Dense rows."""
    hdf5(path, False)


def trained(path: Path, data: str, write: Callable[[Path], None], *options: str) -> None:
    """A model of rows that lie beside it."""
    write(path.with_name(data))
    command("complete" if data == RATINGS else "train", str(path.with_name(data)), "-o", str(path), *options)


def unfinished(folder: Path) -> None:
    """A training of two passes that may go on: its table, model, log, spool and state."""
    arrow(folder / TABLE)
    with contextlib.chdir(folder):
        command(*GOES_ON, "--passes", "1")


def command(*arguments: str) -> None:
    """Run a command that must succeed."""
    from streammargin.cli.main import main

    code = main([*arguments, "-q"])
    if code:
        raise SystemExit(f"streammargin {' '.join(arguments)} ended with {code}")


# a training of the table that has a checkpoint, a log and a spool
GOES_ON = ("train", TABLE, "-o", "m.npz", "--y", "label", "--missing", "mean", "--checkpoint", "state",
           "--log-json", "log.jsonl", "--tol", "1e-9", "--solver", "ascent")  # fmt: skip
