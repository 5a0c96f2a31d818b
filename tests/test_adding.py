"""A loss, a solver and a format are one file each and at most one line elsewhere, word by word as the page says."""

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
    assert [Path(name).parent.name for name in files] == ["losses", "penalties", "papers", "sources"]
    assert lines == ["streammargin/solvers/registry.py", "streammargin/sources/open.py"]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_what_was_added_trains(extended, tmp_path, number):
    environment = {**os.environ, "PYTHONPATH": str(extended), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "error", "-c", EXAMPLES[number]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_what_was_added_is_on_the_command_line(extended, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(extended), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "streammargin", "train", "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert "wide_hinge" in done.stdout and "all-rows" in done.stdout
