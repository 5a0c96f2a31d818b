"""What docs/architecture.md names is there."""

import re
from pathlib import Path

import pytest

import streammargin
from streammargin.solvers.registry import make_solver

PACKAGE = Path(streammargin.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "architecture.md").read_text()


def test_every_file_that_is_named_exists():
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    places = (PACKAGE, PACKAGE / "solvers", PACKAGE.parent)  # `registry.py` is of solvers
    assert len(named) > 60
    assert not {name for name in named if not any((place / name).is_file() for place in places)}


def test_every_folder_has_its_line():
    others = ("__pycache__", "data_tools")  # the latter stands beside the package in a checkout
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name not in others}
    assert set(re.findall(r"^\| `(\w+)/` \|", PAGE, re.MULTILINE)) == folders


@pytest.mark.parametrize("part", ["solvers", "driver"])
def test_every_room_inside_of_a_part_has_its_line(part):
    rooms = {path.name for path in (PACKAGE / part).iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert set(re.findall(rf"^\| `{part}/(\w+)/` \|", PAGE, re.MULTILINE)) == rooms


def test_stages_that_are_drawn_are_those_of_the_methods():
    for name in ("ascent", "active-set", "newton", "pdprox"):
        stages = list(make_solver(name).stages())
        table, *_ = re.findall(rf"^\| `{name}` \| .*\n(?:\| \| .*\n)*", PAGE, re.MULTILINE)
        assert re.findall(r"^\| [^|]*\| `(\w+)` ", table, re.MULTILINE) == stages


@pytest.mark.parametrize(
    "file, what",
    [
        ("solvers/base.py", "requires"),
        ("solvers/problem.py", "def reached"),
        ("solvers/base.py", "def refusals"),
        ("solvers/base.py", "blocks_per_step"),
        ("solvers/coordinate/dual_ascent.py", "def _visit"),
        ("solvers/proof/sweep.py", "def certify_block"),
        ("sources/base.py", "def read"),
        ("model/base.py", "def evaluate"),
        ("model/io.py", "def load_model"),
        ("model/file.py", "def read_model"),
        ("sources/labels.py", "def class_values"),
        ("sources/labels.py", "def number_values"),
        ("sources/labels.py", "def census"),
        ("sources/checks.py", "def check_block"),
        ("sources/open.py", "def open_source"),
        ("training/problem.py", "def read_labels"),
        ("training/problem.py", "def make_problem"),
        ("training/rows.py", "def train_rows"),
        ("training/prepare.py", "def prepare"),
        ("reading/plan.py", "def make_plan"),
        ("reading/prefetch.py", "def _fill"),
        ("driver/status/stopping.py", "def due"),
        ("driver/loop/runs.py", "def run"),
        ("driver/loop/run.py", "def step"),
        ("compiled/sdca.py", "loss.step"),
    ],
)
def test_what_is_named_beside_a_file_stands_in_it(file, what):
    assert what.split()[-1] in PAGE and what in (PACKAGE / file).read_text()
