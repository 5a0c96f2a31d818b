"""Valid files, mutated, given to every reader: python tests/fuzz.py [CASES] [SEED] [KIND ...].

Each case runs its reader to the end, in a process that may die of it: an error of streammargin is fine and so is
success; anything else, a death by a signal included, is a finding, named by its seed and case. KIND is one of
KINDS below. With NUMBA_BOUNDSCHECK=1 in the environment the kernels look at every index too (they compile anew).
The tests run a few cases of each (tests/test_fuzz.py); this script runs many, and counts them.
"""

from __future__ import annotations

import bz2
import collections
import gzip
import logging
import lzma
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import h5py
import numpy as np
import scipy.sparse as sp

ROWS = 60
FINE = ("read", "refused")
PLUGINS = {"blosc": "Blosc", "lz4": "LZ4"}  # kinds that hdf5plugin packs
LIMIT = 600.0  # seconds: a case that takes longer hangs, however busy the machine is


def _rows(sparse: bool) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((ROWS, 8)).astype(np.float32)
    X *= generator.random(X.shape) < (0.4 if sparse else 1.0)
    return X, np.where(X[:, 0] + X[:, 1] > 0.0, 1, -1)


def _hdf5(path: Path, sparse: bool, block: int = 0, **storage: object) -> None:
    X, y = _rows(sparse)
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


def _packed(path: Path, name: str) -> None:
    import hdf5plugin

    _hdf5(path, False, chunks=(16, 8), **getattr(hdf5plugin, name)())


def _virtual(path: Path) -> None:
    X, y = _rows(False)
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[:] = h5py.VirtualSource("plain.h5", "X", X.shape, dtype=X.dtype)
    with h5py.File(path, "w", libver="latest") as file:
        file.create_virtual_dataset("X", layout)
        file["y"] = y


def _obs(path: Path) -> None:
    """anndata's file: sparse rows, labels that are categories, texts in attributes."""
    X, y = _rows(True)
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


def _var(path: Path) -> None:
    """Rows whose columns have names, as this package writes them."""
    from streammargin.sources.hdf5.names import write_names

    _hdf5(path, False)
    with h5py.File(path, "a") as file:
        write_names(file, np.array([f"gene {k}" for k in range(file["X"].shape[1])]))


def _table(path: Path) -> None:
    """anndata's file before 0.7: obs is a table with texts, its codes have their categories in uns."""
    X, y = _rows(False)
    kinds = [("index", h5py.string_dtype()), ("y", np.int8)]
    with h5py.File(path, "w") as file:
        file["X"] = X
        file["obs"] = np.array([(f"cell {k}", code) for k, code in enumerate((y + 1) // 2)], kinds)
        file["uns/y_categories"] = np.array(["low", "high"], dtype=h5py.string_dtype())


def _csc(path: Path) -> None:
    matrix = sp.csc_matrix(_rows(True)[0])
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csc_matrix", "shape": matrix.shape})
        group["data"], group["indices"], group["indptr"] = matrix.data, matrix.indices, matrix.indptr


def _text(path: Path, pack: Callable[[bytes], bytes] = bytes, csv: bool = False) -> None:
    X, y = _rows(not csv)
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


def _npz(path: Path) -> None:
    with open(path, "wb") as file:
        sp.save_npz(file, sp.csr_matrix(_rows(True)[0]))


def _market(path: Path) -> None:
    import scipy.io

    scipy.io.mmwrite(path, sp.csc_matrix(_rows(True)[0]))


def _savez(path: Path) -> None:
    X, y = _rows(False)
    np.savez_compressed(path, X=X, y=y)


def _arrow(path: Path) -> None:
    """A table of numbers, words and gaps, in the format that the name says."""
    import pyarrow as pa
    from pyarrow import csv, feather, ipc, parquet

    X, y = _rows(False)
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


def _cells(path: Path) -> None:
    """A folder of single cells: the matrix, names of genes and barcodes, and labels by barcode."""
    import scipy.io

    X, y = _rows(True)
    cells = [f"ACGT{k}-1" for k in range(ROWS)]
    scipy.io.mmwrite(path.parent / "matrix.mtx", sp.csc_matrix(X.T))
    genes = [f"ENSG{k}\tgene {k}\tGene Expression\n" for k in range(X.shape[1])]
    (path.parent / "features.tsv").write_text("".join(genes))
    (path.parent / "barcodes.tsv").write_text("".join(f"{cell}\n" for cell in cells))
    kinds = [f"{cell},{'low' if label < 0 else 'high'}\n" for cell, label in zip(cells, y, strict=True)]
    (path.parent / "kinds.csv").write_text("".join(["cell,kind\n", *kinds]))


def _hive(path: Path) -> None:
    """Two folders whose names are columns; the rows of both are the same."""
    other = path.parents[2] / "year=2021" / "size=small" / path.name
    other.parent.mkdir(parents=True, exist_ok=True)
    _arrow(other)
    shutil.copy(other, path)  # whose name Arrow may not take


def _model(path: Path) -> None:
    from streammargin.model.linear import LinearModel

    names = np.array([f"gene {k}" for k in range(8)], object)
    LinearModel(np.ones((1, 8)), np.zeros(1), np.array(["a", "b"]), {"loss": "hinge"}, names).save(path, force=True)


def train(path: str) -> None:
    """All that a training reads, and a few steps, out of core too."""
    import streammargin as sm
    from streammargin.sources.open import open_source

    with open_source(path) as source:
        source.layout(), source.fingerprint()
    result = sm.train(path, passes=3, memory="64M")
    result.model.evaluate(path)


def convert(path: str) -> None:
    """The converter, to a file beside it."""
    from streammargin.data_tools.convert import convert

    convert(path, path + ".out.h5", force=True)
    os.unlink(path + ".out.h5")


def ordered(path: str) -> None:
    """All that a training on a table or on rows of numbers reads, and that scoring reads."""
    import streammargin as sm

    own = path.endswith((".svm", ".csv", ".parquet", ".feather", ".arrows", "xy.npz"))
    named = {"y": "label", "missing": "mean"} if "table" in path else {}
    model = sm.train(path, **(named if own else {"y": _rows(True)[1]}), passes=3, memory="64M").model
    model.predict(path)


def cells(path: str) -> None:
    """All files of a folder of single cells, of which this is one."""
    import streammargin as sm

    folder = os.path.dirname(path)
    sm.train(folder, y=f"{folder}/kinds.csv:kind", passes=3, memory="64M").model.predict(folder)


def hive(path: str) -> None:
    """The table in the folders above this file, as a whole and as a list."""
    import streammargin as sm

    whole = Path(path).parents[2]
    model = sm.train(str(whole), y="label", missing="mean", passes=3, memory="64M").model
    model.predict([str(file) for file in sorted(whole.rglob("*.parquet"))])


def hive_names(path: str) -> None:
    """A table in two folders, one of which is called as this file says."""
    name = Path(path).read_bytes().replace(b"\0", b"0").strip(b"/")[:200]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / os.fsdecode(name) / "size=small" / "table.parquet"
        if Path(folder) not in Path(os.path.normpath(file)).parents:  # by ".."
            return
        file.parent.mkdir(parents=True)
        _hive(file)
        hive(str(file))


def predict(path: str) -> None:
    """A model file, and scores with it."""
    import streammargin as sm

    sm.load_model(path).predict(_rows(False)[0])


def labels(path: str) -> None:
    """Labels in a .npy file."""
    import streammargin as sm

    sm.train(str(Path(path).with_name("plain.h5")), y=path, passes=3)


# kind -> (name of the valid file, what writes it, what reads it)
KINDS: dict[str, tuple[str, Callable[[Path], None], Callable[[str], None]]] = {
    "dense": ("a.h5", lambda path: _hdf5(path, False), train),
    "chunked": ("a.h5", lambda path: _hdf5(path, False, chunks=(16, 8)), train),
    "gzip": ("a.h5", lambda path: _hdf5(path, False, chunks=(16, 8), compression="gzip"), train),
    "szip": ("a.h5", lambda path: _hdf5(path, False, chunks=(16, 8), compression="szip"), train),
    "lzf": ("a.h5", lambda path: _hdf5(path, False, chunks=(16, 8), compression="lzf", shuffle=True), train),
    "user-block": ("a.h5", lambda path: _hdf5(path, True, 512, chunks=(32,), compression="gzip"), train),
    "blosc": ("a.h5", lambda path: _packed(path, PLUGINS["blosc"]), train),
    "lz4": ("a.h5", lambda path: _packed(path, PLUGINS["lz4"]), train),
    "virtual": ("a.h5", _virtual, train),
    "obs": ("a.h5", _obs, train),
    "table": ("a.h5", _table, train),
    "var": ("a.h5", _var, train),
    "csr": ("a.h5", lambda path: _hdf5(path, True), train),
    "csr-gzip": ("a.h5", lambda path: _hdf5(path, True, chunks=(32,), compression="gzip"), train),
    "csc": ("a.h5", _csc, convert),
    "svmlight": ("a.txt", _text, convert),
    "csv": ("a.csv", lambda path: _text(path, csv=True), convert),
    "text-gzip": ("a.gz", lambda path: _text(path, gzip.compress), convert),
    "text-bzip2": ("a.bz2", lambda path: _text(path, bz2.compress), convert),
    "text-xz": ("a.xz", lambda path: _text(path, lzma.compress), convert),
    "npz": ("a.npz", _npz, convert),
    "svmlight-train": ("a.svm", _text, ordered),
    "mtx": ("a.mtx", _market, ordered),
    "mtx-convert": ("a.mtx", _market, convert),
    "rows-npy": ("X.npy", lambda path: np.save(path, _rows(False)[0]), ordered),
    "savez": ("xy.npz", _savez, ordered),
    "csv-table": ("table.csv", _arrow, ordered),
    "parquet": ("table.parquet", _arrow, ordered),
    "feather": ("table.feather", _arrow, ordered),
    "stream": ("table.arrows", _arrow, ordered),
    "cells": ("cells-m/matrix.mtx", _cells, cells),
    "cells-features": ("cells-f/features.tsv", _cells, cells),
    "cells-barcodes": ("cells-b/barcodes.tsv", _cells, cells),
    "cells-labels": ("cells-k/kinds.csv", _cells, cells),
    "hive": ("hive/year=2020/size=large/table.parquet", _hive, hive),
    "hive-names": ("name.txt", lambda path: path.write_bytes(b"year=2020"), hive_names),
    "model": ("m.npz", _model, predict),
    "npy": ("y.npy", lambda path: np.save(path, _rows(False)[1]), labels),
}
_NUMBERS = (0, 1, 2**7, 2**8 - 1, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


def mutated(whole: bytes, chance: random.Random) -> bytes:
    """The bytes with some changed: single ones, whole numbers, pieces cut out, doubled or exchanged."""
    raw = bytearray(whole)
    for _ in range(chance.choice((1, 1, 2, 4))):
        place = chance.randrange(len(raw)) if chance.random() < 0.5 else chance.randrange(min(len(raw), 3000))
        how = chance.randrange(6)
        if how <= 1:
            raw[place] = chance.randrange(256)
        elif how == 2:
            raw[place] ^= 1 << chance.randrange(8)
        elif how == 3:
            size = chance.choice((2, 4, 8))
            raw[place : place + size] = (chance.choice(_NUMBERS) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        elif how == 4:
            del raw[place : place + chance.choice((1, 8, 100, len(raw)))]
        else:
            other, size = chance.randrange(len(raw)), chance.choice((4, 8, 64))
            raw[place : place + size] = raw[other : other + size]
        if not raw:
            return b"\0"
    return bytes(raw)


def valid_files(folder: Path, kinds: list[str]) -> dict[str, bytes]:
    """The content of a valid file of each kind."""
    _hdf5(folder / "plain.h5", False)
    found = {}
    for kind in kinds:
        name, write, read = KINDS[kind]
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write(folder / name)
        read(str(folder / name))  # it is valid
        found[kind] = (folder / name).read_bytes()
    return found


def one(folder: Path, kind: str, content: bytes) -> str:
    """Read a file of this content: "read", "refused", or what else came of it."""
    from streammargin.errors import StreamMarginError

    name, write, read = KINDS[kind]
    if not (folder / name).parent.exists():  # with the valid files beside it
        (folder / name).parent.mkdir(parents=True)
        write(folder / name)
    (folder / name).write_bytes(content)
    logging.getLogger("streammargin").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            read(str(folder / name))
    except StreamMarginError as error:
        return "refused" if "\n" not in str(error) and len(str(error)) < 1000 else f"the message {error!s:.200}"
    except BaseException as error:
        return f"{type(error).__name__}: {error!s:.200}"
    return "read"


def _answer(pipe: Connection, folder: str) -> None:
    valid_files(Path(folder), [])
    while True:
        pipe.send(one(Path(folder), *pipe.recv()))


class Reader:
    """A process that reads files, and may die of it or hang; it begins anew then."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None

    def __enter__(self) -> Reader:
        self._folder = tempfile.TemporaryDirectory()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end()
        self._folder.cleanup()

    def _end(self) -> int | None:
        if self._process is None:
            return None
        self._process.kill()
        self._process.join()
        code, self._process = self._process.exitcode, None
        return code

    def read(self, kind: str, content: bytes) -> str:
        """What came of a file of this content, as `one` says it; "hung", or "ended by" a signal."""
        patience = LIMIT
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, other = context.Pipe()
            self._process = context.Process(target=_answer, args=(other, self._folder.name), daemon=True)
            self._process.start()
            other.close()
            patience += 120.0  # it imports and compiles
        self._pipe.send((kind, content))
        try:
            if self._pipe.poll(patience):
                return self._pipe.recv()
        except EOFError:
            self._process.join()
            return f"ended by {self._end()}"
        self._end()
        return "hung"


def run(cases: int, seed: int, kinds: list[str]) -> int:
    """Cases 0..cases of this seed; prints the counts; the number of findings."""
    tally: collections.Counter[tuple[str, str]] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        whole = valid_files(Path(folder), kinds)
    with Reader() as reader:
        for case in range(cases):
            kind = kinds[case % len(kinds)]
            found = reader.read(kind, mutated(whole[kind], random.Random(f"{seed} {case}")))
            tally[kind, found if found in FINE else "FINDING"] += 1
            if found not in FINE:
                print(f"seed {seed}, case {case} ({kind}): {found}", flush=True)
    for (kind, found), count in sorted(tally.items()):
        print(f"{kind:<12} {found:<8} {count}")
    findings = sum(count for (_, found), count in tally.items() if found == "FINDING")
    checked = "with" if os.environ.get("NUMBA_BOUNDSCHECK") == "1" else "without"
    print(f"{cases} cases {checked} bounds checks in the kernels, {findings} findings")
    return findings


if __name__ == "__main__":
    given = sys.argv[1:]
    chosen = given[2:] or list(KINDS)
    sys.exit(run(int(given[0]) if given else 1000, int(given[1]) if len(given) > 1 else 0, chosen) > 0)
