"""Every command that writes, in places that fail: python tests/places.py [STEPS] [PLACE ...].

Places are a disk that becomes full after any number of bytes, files that may not grow, and a folder that is read-only.
Others are a process whose memory is limited, and a folder in which the same command runs twice at once. A command may
succeed, or end with a documented exit code and one sentence. It leaves each file as it was, or new and whole. Disks and
folders need the right to mount.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from fuzz import in_child, said
from fuzz_files import DATA, GOES_ON, RATINGS, TABLE, arrow, dense, obs, ratings, trained, unfinished

PAGE = 4096
NAMES = {  # a name for the command -> its arguments
    "train": ("train", DATA, "-o", "new.npz", "--passes", "3", "--log-json", "new.jsonl"),
    "train a table": ("train", TABLE, "-o", "new.npz", "--y", "label", "--missing", "mean", "--passes", "3"),
    "train with a checkpoint": (*GOES_ON, "--passes", "4", "--force"),
    "complete": ("complete", RATINGS, "-o", "new.npz", "--passes", "9"),
    "convert": ("data", "convert", TABLE, "new.h5", "--y", "label", "--missing", "mean"),
    "split": ("data", "split", DATA, "new.h5", "test.h5", "--force"),
    "shuffle": ("data", "shuffle", DATA, "new.h5", "--force"),
    "generate": ("data", "generate", "new.h5", "--rows", "300", "--features", "20"),
    "predict to CSV": ("predict", "own.npz", DATA, "-o", "new.csv", "--decision"),
    "predict to Parquet": ("predict", "own.npz", DATA, "-o", "new.parquet", "--decision"),
    "train with a report": (
        *("train", DATA, "-o", "new.npz", "--passes", "3", "--report", "new.html", "--coef", "new.csv"),
        *("--cv", "3", "-c", "0.1,1", "--calibrate", "sigmoid", "--loss", "hinge"),
    ),
    "report": ("report", "own.npz", "--test", DATA, "-o", "new.html"),
    "export to JSON": ("export", "own.npz", "--to", "json", "-o", "new.json"),
    "export to CSV": ("export", "own.npz", "--to", "csv", "-o", "new.csv"),
    "predict to obs": ("predict", "own.npz", "cells.h5ad", "-o", "new.h5ad", "--obs", "kind"),
}


def prepared(folder: Path) -> None:
    """All files that these commands read."""
    unfinished(folder)
    trained(folder / "own.npz", DATA, dense, "--passes", "3")
    obs(folder / "cells.h5ad")
    ratings(folder / RATINGS)
    arrow(folder / "table.parquet")


def copied(source: Path, folder: Path) -> dict[str, bytes]:
    """Copy all files; their contents by name."""
    shutil.copytree(source, folder, dirs_exist_ok=True)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def whole(path: Path) -> bool:
    """Whether this output can be read to its end."""
    import h5py
    from pyarrow import parquet

    with contextlib.suppress(Exception):
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as archive:
                return archive.testzip() is None and len(np.load(path).files) > 0
        if path.suffix in (".h5", ".h5ad"):
            with h5py.File(path) as file:
                file.visititems(lambda name, node: node[()] if isinstance(node, h5py.Dataset) else None)
            return True
        if path.suffix == ".parquet":
            return parquet.read_table(path).num_rows > 0
        if path.suffix == ".json":
            return bool(json.loads(path.read_text()))
        if path.suffix == ".html":
            return path.read_text().rstrip().endswith("</html>")
        return path.suffix != ".csv" or path.read_text().endswith("\n")
    return False


def judged(folder: Path, before: dict[str, bytes], found: str) -> str:
    """What was found of a command, or what it left behind."""
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or name.startswith("state") or name.endswith((".jsonl", "filler")):
            continue  # the files of a checkpoint are compared when it is read, and a log grows
        if name in before and path.read_bytes() == before[name]:
            continue
        if name.endswith(".part") or not whole(path):
            return f"{found}, and leaves {name} damaged"
    return found


def _mounted(folder: Path, *options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", *options, "none", folder], check=True)


def full(source: Path, folder: Path, name: str, step: int) -> str:
    """On a disk that has room for step pages more."""
    _mounted(folder, "-o", "size=64m")
    try:
        before = copied(source, folder)
        with open(folder / "filler", "wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, (os.statvfs(folder).f_bavail - step) * PAGE)
        found = in_child(lambda: said(str(folder), [NAMES[name]]))
        os.unlink(folder / "filler")
        return judged(folder, before, found)
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def read_only(source: Path, folder: Path, name: str, step: int) -> str:
    """In a folder that nobody may write."""
    _mounted(folder)
    try:
        before = copied(source, folder)
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        return judged(folder, before, in_child(lambda: said(str(folder), [NAMES[name]])))
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def short(source: Path, folder: Path, name: str, step: int) -> str:
    """In a process whose files may have a few pages."""
    before = copied(source, folder)

    def limited() -> str:
        resource.setrlimit(resource.RLIMIT_FSIZE, ((step + 1) * PAGE,) * 2)
        return said(str(folder), [NAMES[name]])

    return judged(folder, before, in_child(limited))


def memory(source: Path, folder: Path, name: str, step: int) -> str:
    """In a process that may take a little more than it has; below that Python cannot start threads, and waits."""
    before = copied(source, folder)

    def limited() -> str:
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (step + 1 << 26),) * 2)
        return said(str(folder), [NAMES[name]])

    found = judged(folder, before, in_child(limited))
    return "refused" if "ends with 1: " in found and "out of memory" in found else found


def twice(source: Path, folder: Path, name: str, step: int) -> str:
    """Two processes at once."""
    before = copied(source, folder)

    def both() -> str:
        out, into = os.pipe()
        child = os.fork()
        found = said(str(folder), [NAMES[name]])
        if not child:
            os.write(into, found.encode()[:4000])
            os._exit(0)
        other = os.read(out, 4000).decode()
        os.waitpid(child, 0)
        return found if found not in ("read", "refused") else other

    return judged(folder, before, in_child(both))


PLACES = {"full": full, "short": short, "read-only": read_only, "memory": memory, "twice": twice}


def run(steps: int, places: list[str]) -> int:
    """Every command in these places, in so many steps; prints what is wrong; the number of findings."""
    findings = cases = 0
    with tempfile.TemporaryDirectory() as home:
        source = Path(home) / "source"
        source.mkdir()
        prepared(source)
        for name, command in NAMES.items():  # all is imported before a process is forked
            with tempfile.TemporaryDirectory() as copy, contextlib.chdir(home):
                shutil.copytree(source, copy, dirs_exist_ok=True)
                errors = os.dup(2)
                assert (found := said(copy, [command])) == "read", (name, found)
                os.dup2(errors, 2)
        for place in places:
            for name in NAMES:
                for step in range(steps if place in ("full", "short", "memory") else 3):
                    folder = Path(tempfile.mkdtemp(dir=home))
                    found = PLACES[place](source, folder, name, step)
                    shutil.rmtree(folder)
                    cases += 1
                    if found not in ("read", "refused"):
                        findings += 1
                        print(f"{place}, {name}, step {step}: {found}", flush=True)
    print(f"{cases} cases, {findings} findings")
    return findings


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(run(int(given[0]) if given else 20, given[1:] or list(PLACES)) > 0)
