"""What docs/architecture.md names is there."""

import re
from pathlib import Path

import pytest

import streammargin

PACKAGE = Path(streammargin.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "architecture.md").read_text()


def test_every_file_that_is_named_exists():
    named = set(re.findall(r"`((?:streammargin|tests)/[\w/]+\.\w+)`", PAGE))
    assert len(named) > 20
    assert not {name for name in named if not (PACKAGE.parent / name).is_file()}


def test_every_folder_has_its_line():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert set(re.findall(r"^\| `(\w+)/` \|", PAGE, re.MULTILINE)) == folders


@pytest.mark.parametrize(
    "file, what",
    [
        ("solvers/base.py", "requires"),
        ("solvers/base.py", "def reached"),
        ("solvers/base.py", "def check"),
        ("solvers/base.py", "together"),
        ("solvers/coordinate/sdca.py", "def visit_rows"),
        ("solvers/proof/sweep.py", "def certify_block"),
        ("sources/base.py", "def read"),
        ("model/base.py", "def evaluate"),
        ("compiled/sdca.py", "loss.step"),
    ],
)
def test_what_is_named_beside_a_file_stands_in_it(file, what):
    assert what.split()[-1] in PAGE and what in (PACKAGE / file).read_text()
