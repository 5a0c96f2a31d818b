"""Valid files, mutated, given to every command that reads them: python tests/fuzz.py [CASES] [SEED] [KIND ...].

Each case runs its commands in a process of its own, forked after the imports, with limits of memory and time. A command
may succeed, or end with a documented exit code, one sentence and no output. Anything else is a finding, a death by a
signal included, and is named by its seed and case. KIND is one of KINDS below. With NUMBA_BOUNDSCHECK=1 in the
environment the kernels look at every index too (they compile anew). The tests run a few cases of each
(tests/test_fuzz.py), `.ci/slow` 2,000; this script counts them.
"""

from __future__ import annotations

import bz2
import collections
import contextlib
import gc
import gzip
import lzma
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

import numpy as np
from fuzz_files import (
    DATA,
    GOES_ON,
    PLAIN,
    PLUGINS,
    RATINGS,
    TABLE,
    arrow,
    beside,
    cells,
    csc,
    dense,
    hdf5,
    hive,
    in_groups,
    market,
    npz,
    obs,
    of_three,
    packed,
    ratings,
    rows,
    savez,
    sparse,
    text,
    trained,
    unfinished,
    var,
)
from fuzz_files import KINDS as LABELS

FINE = ("read", "refused")
REFUSED = (2, 65, 66, 73, 74)  # exit codes of a command that names what it does not take
SECONDS = 120  # of a processor, for the commands of a case
HANGS = 600  # seconds: a case that takes longer hangs, however busy the machine is
ROOM = 2 << 30  # bytes of address space beyond those of the process that forks
LONGEST = 1500  # characters of a sentence
MODEL, OUT = "m.npz", "out.h5"


Commands = tuple[tuple[str, ...], ...]


class Kind(NamedTuple):
    """name: of the file that is mutated, in an empty folder; write: the valid file, and what must lie beside it.

    commands: what reads it, from that folder, until a command refuses it; "data": one of streammargin-data.
    """

    name: str
    write: Callable[[Path], None]
    commands: Commands


def train(name: str, *options: str) -> Commands:
    """A few passes, out of core if the rows are more, and what reads the rows again."""
    learn = ("train", name, "-o", MODEL, "--passes", "3", "--memory", "64M", *options)
    labels = [part for k in range(len(options)) if options[k] == "--y" for part in options[k : k + 2]]
    return (("info", name), learn, ("evaluate", MODEL, name, *labels), ("predict", MODEL, name))


def ordered(name: str, *options: str) -> Commands:
    """The same for rows that are read front to back."""
    return train(name, *options)[1:]


def convert(name: str) -> Commands:
    """The converter, to a file beside it."""
    return (("data", "convert", name, OUT),)


def of_model(write: Callable[[Path], None], *options: str, data: str = DATA) -> Kind:
    """A model that is trained on these rows with these options, and all commands that read one."""
    commands = (("info", MODEL), ("predict", MODEL, data), ("evaluate", MODEL, data), ("verify", MODEL, data))
    return Kind(MODEL, lambda path: trained(path, data, write, *options), commands)


def _going_on(name: str, without: str = "") -> Kind:
    """A file that an unfinished training left behind, and the same training again; without: one that is removed."""
    again = (*GOES_ON, "--passes", "4", "--force")

    def write(path: Path) -> None:
        home = path.parents[len(Path(name).parts) - 1]
        unfinished(home)
        if without:
            (home / without).unlink()

    return Kind(name, write, (again,))


_FOLDER = "hive/year=2020/size=large"
_Y = ("--y", LABELS)
_OF_TABLE = ("--y", "label", "--missing", "mean")
_OF_RATINGS = (("complete", RATINGS, "-o", MODEL, "--passes", "9"), ("predict", MODEL, RATINGS))


def _cells(name: str) -> Kind:
    return Kind(f"cells/{name}", cells, ordered("cells", "--y", "cells/kinds.csv:kind"))


FILES: dict[str, Kind] = {
    "dense": Kind("a.h5", dense, train("a.h5")),
    "chunked": Kind("a.h5", lambda path: hdf5(path, False, chunks=(16, 8)), train("a.h5")),
    "gzip": Kind("a.h5", lambda path: hdf5(path, False, chunks=(16, 8), compression="gzip"), train("a.h5")),
    "szip": Kind("a.h5", lambda path: hdf5(path, False, chunks=(16, 8), compression="szip"), train("a.h5")),
    "lzf": Kind("a.h5", lambda path: hdf5(path, False, chunks=(16, 8), compression="lzf", shuffle=True), train("a.h5")),
    "user-block": Kind("a.h5", lambda path: hdf5(path, True, 512, chunks=(32,), compression="gzip"), train("a.h5")),
    "blosc": Kind("a.h5", lambda path: packed(path, PLUGINS["blosc"]), train("a.h5")),
    "zstd": Kind("a.h5", lambda path: packed(path, PLUGINS["zstd"]), train("a.h5")),
    "obs": Kind("a.h5ad", obs, train("a.h5ad", "--y", "obs/y")),
    "var": Kind("a.h5", var, train("a.h5")),
    "csr": Kind("a.h5", sparse, train("a.h5")),
    "csr-gzip": Kind("a.h5", lambda path: hdf5(path, True, chunks=(32,), compression="gzip"), train("a.h5")),
    "csc": Kind("a.h5", csc, convert("a.h5")),
    "svmlight": Kind("a.txt", text, convert("a.txt")),
    "csv": Kind("a.csv", lambda path: text(path, csv=True), convert("a.csv")),
    "text-gzip": Kind("a.gz", lambda path: text(path, gzip.compress), convert("a.gz")),
    "text-bzip2": Kind("a.bz2", lambda path: text(path, bz2.compress), convert("a.bz2")),
    "text-xz": Kind("a.xz", lambda path: text(path, lzma.compress), convert("a.xz")),
    "npz": Kind("a.npz", npz, convert("a.npz")),
    "svmlight-train": Kind("a.svm", text, ordered("a.svm")),
    "mtx": Kind("a.mtx", market, ordered("a.mtx", *_Y)),
    "mtx-convert": Kind("a.mtx", market, convert("a.mtx")),
    "rows-npy": Kind("X.npy", lambda path: np.save(path, rows(False)[0]), ordered("X.npy", *_Y)),
    "savez": Kind("xy.npz", savez, ordered("xy.npz")),
    "csv-table": Kind(TABLE, arrow, ordered(TABLE, *_OF_TABLE)),
    "parquet": Kind("table.parquet", arrow, ordered("table.parquet", *_OF_TABLE)),
    "feather": Kind("table.feather", arrow, ordered("table.feather", *_OF_TABLE)),
    "stream": Kind("table.arrows", arrow, ordered("table.arrows", *_OF_TABLE)),
    "cells": _cells("matrix.mtx"),
    "cells-features": _cells("features.tsv"),
    "cells-barcodes": _cells("barcodes.tsv"),
    "cells-labels": _cells("kinds.csv"),
    "hive": Kind(f"{_FOLDER}/table.parquet", hive, ordered("hive", *_OF_TABLE)),
    "hive-csv": Kind(f"{_FOLDER}/table.csv", hive, ordered("hive", *_OF_TABLE)),
    "ratings": Kind(RATINGS, ratings, _OF_RATINGS),
    "npy": Kind("y.npy", lambda path: np.save(path, rows(False)[1]), train(PLAIN, "--y", "y.npy")[1:]),
    "model": of_model(var, "--passes", "3"),
    "model-csr": of_model(sparse, "--passes", "3", "--scale", "maxabs"),
    "model-of-three": of_model(of_three, "--loss", "logistic"),
    "model-of-tasks": of_model(in_groups, "--tasks", "group"),
    "model-of-table": of_model(arrow, *_OF_TABLE, data=TABLE),
    "model-kernel": of_model(dense, "--kernel", "rbf:0.5", "--tol", "0.1"),
    "model-kernel-csr": of_model(sparse, "--kernel", "poly:2", "--tol", "0.1"),
    "model-rff": of_model(dense, "--map", "rff:16", "--passes", "3"),
    "model-nystroem": of_model(dense, "--map", "nystroem:16", "--passes", "3"),
    "model-of-ratings": of_model(ratings, "--passes", "9", data=RATINGS),
    "checkpoint": _going_on("state/slot-a", without="state/slot-b"),  # which would take its place
    "spool": _going_on(f"{TABLE}.rows.h5"),
    "log": _going_on("log.jsonl"),
}  # fmt: skip
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


def valid_folder(folder: Path, kind: str) -> bytes:
    """Fill a folder with a valid file of this kind and what lies beside it; the content of that file."""
    name, write, _ = FILES[kind]
    beside(folder)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    write(folder / name)
    return (folder / name).read_bytes()


def said(folder: str, commands: Sequence[Sequence[str]]) -> str:
    """Run commands in a folder, in this process: "read", "refused", or what else came of them."""
    from streammargin.cli.main import main
    from streammargin.data_tools.main import main as data_main

    os.chdir(folder)
    for command in commands:
        before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
        with tempfile.TemporaryFile() as told:
            os.dup2(told.fileno(), 2)  # what libraries print, too
            with open(2, "w", closefd=False) as errors, contextlib.redirect_stderr(errors):
                code = data_main(command[1:]) if command[0] == "data" else main(command)
                gc.collect()
            told.seek(0)
            lines = told.read().decode(errors="replace").splitlines()
        what = " ".join(command)
        if fault := next((line for line in lines if line.startswith(("Traceback", "Exception ignored"))), ""):
            return f"{what} prints {fault} {lines[-1]:.200}"
        if code not in (0, *REFUSED):
            return f"{what} ends with {code}: {' '.join(lines[-1:]):.300}"
        if code:
            left = [str(path) for path in Path().rglob("*.part")] + [
                name for name in (MODEL, OUT) if Path(name) not in before and Path(name).exists()
            ]
            if left:
                return f"{what} ends with {code} and leaves {left[0]}"
            return "refused" if lines and len(lines[-1]) < LONGEST else f"{what} says {' '.join(lines[-1:]):.200}"
    return "read"


def in_child(work: Callable[[], str]) -> str:
    """What a function returns in a process that is forked for it, or "ended by" the signal that it died of."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        found = "nothing"
        try:
            signal.alarm(HANGS)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            found = work()
        except BaseException as error:
            found = f"{type(error).__name__}: {error!s:.200}"
        finally:
            os.write(into, found.encode()[:4000])
            os._exit(0)
    os.close(into)
    with open(out, "rb") as pipe:
        found = pipe.read().decode(errors="replace")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return found if not code else f"ended by {signal.Signals(-code).name if code < 0 else code}"


def one(folder: str, kind: str, content: bytes) -> str:
    """Give a file of this content, in a copy of the folder, to its commands, with limits of memory and time."""
    place = tempfile.mkdtemp(dir=folder)
    shutil.copytree(Path(folder) / kind, place, dirs_exist_ok=True)
    (Path(place) / FILES[kind].name).write_bytes(content)

    def limited() -> str:
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + ROOM,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
        return said(place, FILES[kind].commands)

    found = in_child(limited)
    shutil.rmtree(place)
    return found


def _answer(pipe: Connection, folder: str) -> None:
    """Answer what comes of files, after each kind was read once in this process, so that all is imported."""
    known: dict[str, str] = {}
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    while True:
        kind, content = pipe.recv()
        if kind not in known:
            place = Path(folder) / kind
            place.mkdir(exist_ok=True)  # there already if a process before this one died
            valid_folder(place, kind)
            with tempfile.TemporaryDirectory() as copy, contextlib.chdir(folder):
                shutil.copytree(place, copy, dirs_exist_ok=True)
                known[kind] = said(copy, FILES[kind].commands)
            gc.collect()
            gc.freeze()
        valid = known[kind] == "read"
        pipe.send(one(folder, kind, content) if valid else f"the valid file is not read: {known[kind]}")


class Reader:
    """A process that imports everything, and forks one for each file."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None

    def __enter__(self) -> Reader:
        self._folder = tempfile.TemporaryDirectory()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._folder.cleanup()

    def read(self, kind: str, content: bytes) -> str:
        """What came of a file of this content: "read", "refused", or a finding."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, other = context.Pipe()
            self._process = context.Process(target=_answer, args=(other, self._folder.name))
            self._process.start()
            other.close()
        self._pipe.send((kind, content))
        try:
            return self._pipe.recv()
        except EOFError:
            self._process.join()
            code, self._process = self._process.exitcode, None
            return f"ended by {code}"


def run(cases: int, seed: int, kinds: list[str]) -> int:
    """Cases 0..cases of this seed; prints the counts; the number of findings."""
    tally: collections.Counter[tuple[str, str]] = collections.Counter()
    whole = {}
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            whole[kind] = valid_folder(Path(folder), kind)
    with Reader() as reader:
        for case in range(cases):
            kind = kinds[case % len(kinds)]
            found = reader.read(kind, mutated(whole[kind], random.Random(f"{seed} {case}")))
            tally[kind, found if found in FINE else "FINDING"] += 1
            if found not in FINE:
                print(f"seed {seed}, case {case} ({kind}): {found}", flush=True)
    for (kind, found), count in sorted(tally.items()):
        print(f"{kind:<16} {found:<8} {count}")
    findings = sum(count for (_, found), count in tally.items() if found == "FINDING")
    checked = "with" if os.environ.get("NUMBA_BOUNDSCHECK") == "1" else "without"
    print(f"{cases} cases {checked} bounds checks in the kernels, {findings} findings")
    return findings


if __name__ == "__main__":
    given = sys.argv[1:]
    chosen = given[2:] or list(FILES)
    sys.exit(run(int(given[0]) if given else 1000, int(given[1]) if len(given) > 1 else 0, chosen) > 0)
