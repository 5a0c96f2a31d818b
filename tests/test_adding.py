"""A loss, a penalty and a solver are one file each, a format one file and one line, word by word as the page says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import streammargin

PACKAGE = Path(streammargin.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "adding.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
FILE, LINE = re.compile(r"# file: (\S+)\n"), re.compile(r"# line: (\S+), after (.*)\n")
EXAMPLES = [block for block in BLOCKS if not FILE.match(block) and not LINE.match(block)]


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A folder with a copy of the package to which everything of the page was added."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(PACKAGE, folder / "streammargin", ignore=shutil.ignore_patterns("__pycache__"))
    for block in BLOCKS:
        if found := FILE.match(block):
            assert not (folder / found[1]).exists()
            (folder / found[1]).write_text(block[found.end() :])
        elif found := LINE.match(block):
            path, added = folder / found[1], block[found.end() :]
            assert added.count("\n") == 1, "one line"
            parts = re.split(f"({re.escape(found[2])})", path.read_text())
            assert len(parts) == 3, f"{found[2]} is not there once in {path}"
            path.write_text(parts[0] + parts[1] + "\n" + added + parts[2].lstrip("\n"))
    return folder


def test_there_is_one_of_each():
    files = [found[1] for block in BLOCKS if (found := FILE.match(block))]
    lines = [found[1] for block in BLOCKS if (found := LINE.match(block))]
    assert [Path(name).parent.name for name in files] == ["losses", "penalties", "", "papers", "sources"]
    assert lines == ["streammargin/sources/open.py"]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_what_was_added_trains(extended, tmp_path, number):
    environment = {**os.environ, "PYTHONPATH": str(extended), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "error", "-c", EXAMPLES[number]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("word, name", [
    ("losses", "wide_hinge:width"), ("penalties", "downward:factor"), ("solvers", "  all-rows:width"),
])  # fmt: skip
def test_what_was_added_is_on_the_command_line(word, name, extended, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(extended), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "streammargin", word]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert name in done.stdout, done.stderr


def test_words_of_a_package_are_found_by_its_entry_points(extended, tmp_path):
    """In the shell too; a word of ours is never theirs, and asks no package."""
    (tmp_path / "theirs.py").write_text(
        "from streammargin.losses.wide import WideHinge\n"
        "from streammargin.penalties.downward import Downward\n"
        "from streammargin.solvers.streams.perceptron import Perceptron\n"
        "from streammargin.sources.arrays import ArraySource\n"
        "class Broader(WideHinge): pass\n"
        "class Below(Downward): pass\n"
        "class Theirs(Perceptron): name = 'theirs'\n"
        "def sniff(path, start): return start.startswith(b'THEIRS')\n"
        "def open_file(path, x, y, weights): return ArraySource([[1.0, 2.0], [-1.0, 0.5]], [1, -1], weights, path)\n"
    )
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[streammargin.losses]\nbroader = theirs:Broader\nhinge = theirs:Broader\n"
        "[streammargin.penalties]\nbelow = theirs:Below\nnone = theirs:sniff\n"
        "[streammargin.solvers]\ntheirs = theirs:Theirs\n[streammargin.sources]\ntheirs = theirs\n"
    )
    (tmp_path / "data.bin").write_bytes(b"THEIRS")
    environment = {**os.environ, "PYTHONPATH": f"{extended}:{tmp_path}", "NUMBA_DISABLE_JIT": "1"}

    def run(*words):
        command = [sys.executable, "-m", "streammargin", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)

    assert run("train", "data.bin", "--loss", "broader:2", "--penalty", "below:3", "-o", "m.npz").returncode == 0
    assert streammargin.load_model(tmp_path / "m.npz").header["loss"] == "broader:2"
    done = run("train", "data.bin", "--solver", "theirs:average", "--loss", "hinge", "-o", "n.npz")
    assert done.returncode == 0, done.stderr
    header = streammargin.load_model(tmp_path / "n.npz").header
    assert header["solver"] == "theirs:average" and header["loss"] == "hinge"
    wrong = run("train", "data.bin", "--penalty", "none")
    assert wrong.returncode == 2 and "the entry point none of streammargin.penalties is no subclass" in wrong.stderr
