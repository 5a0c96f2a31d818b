"""The pictures of the site that need no long runs are drawn, from tables that still have what they show."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the pictures need matplotlib (the extra `examples`)")
ROOT = Path(__file__).parents[2]


def test_pictures_are_those_that_are_committed(tmp_path):
    names = ("times", "memory", "sparse", "classes", "kernels")
    command = [sys.executable, "-m", "examples.site_pictures", "--only", ",".join(names), "--out", tmp_path / "new"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in names:
        drawn, committed = (folder / f"{name}.svg" for folder in (tmp_path / "new", ROOT / "docs" / "pictures"))
        marks = [path.read_text().count('href="#m') for path in (drawn, committed)]  # points and ticks
        assert marks[0] == marks[1] > 5, name
