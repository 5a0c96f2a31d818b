"""However a command ends, its outputs are whole or not there, and what it cannot do it refuses before it starts."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import HANGS, call, write_h5
from test_convert import random_matrix
from test_convert_bad_input import csc_file

import streammargin
from streammargin.data_tools import main as command
from streammargin.data_tools.generate import generate
from streammargin.data_tools.split import split
from streammargin.errors import OutputError, ReadWriteError, UsageError
from streammargin.sources.hdf5.write import RowWriter


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    """in.h5 (dense) and csc.h5 in the working directory."""
    monkeypatch.chdir(tmp_path)
    write_h5(tmp_path / "in.h5", np.eye(40), np.arange(40) % 2)
    csc_file(tmp_path / "csc.h5", random_matrix(2).tocsc())


VERBS = [
    ["generate", "out.h5", "--rows", "50"],
    ["shuffle", "in.h5", "out.h5"],
    ["split", "in.h5", "out.h5", "test.h5"],
    ["convert", "csc.h5", "out.h5"],
]


# The command, which gets a signal when it writes rows, and says whether there is a file then.
STRUCK = """
import os, signal, sys
from streammargin.data_tools.__main__ import main
from streammargin.sources.hdf5.write import RowWriter

def append(writer, batch, write=RowWriter.append):
    print(any(name.endswith(".part") for name in os.listdir()), flush=True)
    os.kill(os.getpid(), int(sys.argv[0]))
    write(writer, batch)

RowWriter.append = append
sys.argv = sys.argv[1:]
sys.exit(main())
"""


@pytest.mark.parametrize("number, what", [(signal.SIGTERM, "terminated"), (signal.SIGHUP, "hung up")])
@pytest.mark.parametrize("arguments", VERBS, ids=lambda arguments: arguments[0])
def test_a_signal_leaves_nothing(inputs, arguments, number, what):
    words = [sys.executable, "-c", STRUCK, str(int(number)), *arguments]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANGS)
    assert (done.returncode, done.stdout) == (128 + number, "True\n")
    assert sorted(os.listdir()) == ["csc.h5", "in.h5"] and done.stderr == f"streammargin-data: {what}\n"


@pytest.mark.parametrize("place", ["import_module", "build_parser"])
def test_an_interrupt_while_starting_is_no_traceback(monkeypatch, capsys, place):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command.importlib if place == "import_module" else command, place, interrupted)
    assert command.main(["convert", "a", "b"]) == 130
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("force", [False, True])
def test_split_writes_both_parts_or_none(inputs, monkeypatch, failing, force):
    if force:
        for name in ("a.h5", "b.h5"):
            with open(name, "w") as file:
                file.write("old")
    real, closed = RowWriter.close, []

    def close(self):
        closed.append(self)
        if len(closed) == failing + 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self)

    monkeypatch.setattr(RowWriter, "close", close)
    with pytest.raises(ReadWriteError, match="free some space"):
        split("in.h5", "a.h5", "b.h5", force=force)
    assert sorted(os.listdir()) == (["a.h5", "b.h5"] if force else []) + ["csc.h5", "in.h5"]
    for name in ("a.h5", "b.h5") if force else ():
        with open(name) as file:
            assert file.read() == "old"


def test_generate_looks_at_the_free_space_first(tmp_path):
    with pytest.raises(OutputError, match=r"out.h5 would take .*T and .* has .* free"):
        generate(str(tmp_path / "out.h5"), rows=99999999999999999999)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"features": 99999999999}, "features must be at most 2147483647"),
        ({"features": 99999999999, "sparse": True}, "features must be at most 2147483647"),
        ({"features": 2**30}, "a row of 4G is too long"),
        ({"features": 2**30, "nonzeros": 2**30, "sparse": True}, "a row of 8G is too long"),
        ({"features": 2**31 - 1, "classes": 32767, "sparse": True}, "lower features or classes"),
        ({"classes": 40_000}, "at most 32767"),
    ],
)
def test_generate_refuses_what_memory_cannot_hold(tmp_path, wrong, message):
    with pytest.raises(UsageError, match=message):
        generate(str(tmp_path / "out.h5"), rows=10, **wrong)
    assert os.listdir(tmp_path) == []


def test_many_classes_keep_their_labels(tmp_path):
    generate(str(tmp_path / "a"), rows=3000, features=3, classes=1000, noise=1.0)
    with h5py.File(tmp_path / "a") as file:
        assert file["y"][:].min() >= 0 and 900 < file["y"][:].max() < 1000


def test_a_full_standard_error_changes_no_exit_code(tmp_path, blobs_file):
    for arguments, code in (([blobs_file, tmp_path / "out.h5"], 0), ([tmp_path / "gone.h5", tmp_path / "no.h5"], 66)):
        with open("/dev/full", "w") as full:
            done = call("convert", *arguments, module="streammargin.data_tools", capture_output=False, stderr=full)
        assert done.returncode == code


@pytest.mark.slow  # builds a wheel
def test_the_tools_are_installed_inside_of_the_package(tmp_path):
    """Whether or not a checkout has the link to them: an archive of one may have a file in its place."""
    root = Path(streammargin.__file__).parents[1]
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, tmp_path)
    for name in ("streammargin", "data_tools"):
        shutil.copytree(root / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for step in ("with", "without"):
        done = subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", step], cwd=tmp_path)
        assert done.returncode == 0
        (wheel,) = (tmp_path / step).iterdir()
        names = {name for name in zipfile.ZipFile(wheel).namelist() if "data_tools" in name}
        assert names == {f"streammargin/data_tools/{path.name}" for path in (root / "data_tools").glob("*.py")}
        (tmp_path / "streammargin" / "data_tools").unlink(missing_ok=True)
