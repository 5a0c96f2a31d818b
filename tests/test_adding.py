"""A loss, a penalty, a solver and a format are one file each, with a line for one of these, as the page says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from reference.linear import names

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
    folders = ["losses", "penalties", "", "", "", "transforms", "papers", "sources", "matrices"]
    assert [Path(name).parent.name for name in files] == folders
    assert lines == ["streammargin/sources/open.py"]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_what_was_added_trains(extended, tmp_path, number):
    environment = {**os.environ, "PYTHONPATH": str(extended), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "error", "-c", EXAMPLES[number]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


MEET = """
import sys
import numpy as np
import streammargin as sm
from streammargin.solvers.registry import names
from ridge import Ridge

X = np.random.default_rng(0).standard_normal((40, 3))
noisy = np.sign(X[:, 0] + 0.5 * np.random.default_rng(1).standard_normal(40))
clear = np.sign(X[:, 0])
X[:, 0] += clear
np.save("rows.npy", np.column_stack([clear, X]))
ways = {
    "loss": ({"loss": "wide_hinge:2"}, {"loss": "hinge"}, 0.5, 2.0),
    "any": ({"penalty": "downward:1"}, {"penalty": "l1"}, 1.0, 1.0),
    "strongly convex": ({"penalty": Ridge(2)}, {}, 0.5, 1.0),
}
for solver in names():
    if solver in ("smo", "completion", "factors", "splitting"):  # which find no linear models
        continue
    if sys.argv[1] == "source":
        model, same = (sm.train(data, solver=solver, passes=50).model for data in ("rows.npy", (X, clear)))
        assert np.array_equal(model.coef_, same.coef_)
        print(solver)
        continue
    own, known, share, factor = ways[sys.argv[1]]
    try:
        found = sm.train((X, noisy), solver=solver, C=1.0, bias=0, tol=1e-7, passes=9000, **own)
    except sm.UsageError as error:
        print(error, file=sys.stderr)
        continue
    same = sm.train((X, noisy), C=share, bias=0, tol=1e-7, passes=9000, **known).model
    assert found.converged and np.allclose(found.model.coef_, factor * same.coef_, atol=5e-3), solver
    print(solver)
"""
COORDINATE, NEWTON = {"ascent", "sdca"}, {"newton", "prox-newton"}


@pytest.mark.parametrize("what, served", [
    ("loss", {"auto", "asdca", "pdprox", *COORDINATE, *NEWTON}), ("any", {"auto", "pdprox", *NEWTON}),
    ("strongly convex", {"auto", "pdprox", *COORDINATE, *NEWTON}),
    pytest.param("source", None, marks=pytest.mark.slow),
])  # fmt: skip
def test_what_was_added_meets_every_solver_that_serves_it(what, served, extended, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(extended), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", MEET, what], env=environment, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == (served or {*names(), "all-rows"}), done.stderr
    if what == "any":
        assert "does not take" in done.stderr and "momentum is for l2 and lp" in done.stderr


@pytest.mark.parametrize("word, name", [
    ("losses", "wide_hinge:width"), ("penalties", "downward:factor"), ("solvers", "  all-rows:width"),
])  # fmt: skip
def test_what_was_added_is_on_the_command_line(word, name, extended, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(extended), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "streammargin", word]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert name in done.stdout, done.stderr


@pytest.mark.slow
def test_words_of_a_package_are_found_by_its_entry_points(extended, tmp_path):
    """In the shell too; a word of ours is never theirs, and asks no package."""
    (tmp_path / "theirs.py").write_text(
        "from streammargin.losses.wide import POSITIVE, Loss, WideHinge\n"
        "from streammargin.words import needed\n"
        "from streammargin.penalties.downward import Downward\n"
        "from streammargin.solvers.streams.perceptron import Perceptron\n"
        "from streammargin.sources.arrays import ArraySource\n"
        "class Broader(WideHinge): pass\n"
        "class Below(Downward): pass\n"
        "class Theirs(Perceptron): name = 'theirs'\n"
        "class Costly(Loss):\n    cost: float = needed(POSITIVE, 'no default')\n    def terms(self): pass\n"
        "import os\n"
        "def sniff(path, start): return start.startswith(b'THEIRS') or os.path.exists(os.path.join(path, '.theirs'))\n"
        "def open_file(path, x, y, weights): return ArraySource([[1.0, 2.0], [-1.0, 0.5]], [1, -1], weights, path)\n"
    )
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[streammargin.losses]\nbroader = theirs:Broader\nhinge = theirs:Broader\ncostly = theirs:Costly\n"
        "[streammargin.penalties]\nbelow = theirs:Below\nnone = theirs:sniff\n"
        "called = theirs:Below\nlost = nowhere:Below\nsplit = theirs:Nothing\n"
        "[streammargin.solvers]\ntheirs = theirs:Theirs\n[streammargin.sources]\ntheirs = theirs\nzero = math\n"
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
    (tmp_path / "rows.d").mkdir()
    (tmp_path / "rows.d" / ".theirs").touch()
    assert run("train", "rows.d/", "--loss", "hinge").returncode == 0 and run("info", "rows.d").returncode == 0
    assert streammargin.load_model(tmp_path / "rows.model.npz").coef_.shape == (1, 2)
    header = streammargin.load_model(tmp_path / "n.npz").header
    assert header["solver"] == "theirs:average" and header["loss"] == "hinge"
    wrong = run("train", "data.bin", "--penalty", "none")
    assert wrong.returncode == 2 and "the entry point none of streammargin.penalties is not a subclass" in wrong.stderr
    for word, why in (
        ("called", "is the class Below, whose name is below"), ("lost", "nowhere:Below raises ModuleNotFoundError"),
        ("split", "cannot be loaded: theirs:Nothing raises AttributeError"), ("belov", "did you mean --penalty below?"),
    ):  # fmt: skip
        wrong = run("penalties", word)
        assert wrong.returncode == 2 and why in wrong.stderr, wrong.stderr
    (tmp_path / "other.bin").write_bytes(b"OTHER")
    wrong = run("info", "other.bin")
    assert wrong.returncode == 2 and "names math, which has no functions sniff and open_file" in wrong.stderr
    assert "of installed packages: broader, costly\n" in run("losses").stdout
    assert "of installed packages: theirs\n" in run("solvers").stdout
    assert "theirs takes C = inf; the losses hinge; the penalties l2, lp; streams" in run("solvers", "theirs").stdout
    known = run("losses", "costly")
    assert known.returncode == 0 and "cost (must be given)" in known.stdout
