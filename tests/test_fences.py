"""The core works without the methods of the papers, and without the folder for dask: nothing of it needs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import streammargin
from streammargin.solvers.registry import names

PACKAGE = Path(streammargin.__file__).parent
FENCED = ["solvers/papers", "dask", "tables"]
NEEDED = {"tables": ["dask"]}  # what goes with a folder
TRAIN = """
from importlib.util import find_spec
import numpy as np
import streammargin as sm
from streammargin.solvers.base import KERNELS, MATRICES
from streammargin.solvers.registry import make_solver, names

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
y = np.where(X[:, 0] > 0.0, 1, -1)
X[:, 0] += y
for name in names()[1:]:
    solver = make_solver(name)
    if MATRICES in solver.takes:  # of what the readers of tables read
        ratings = np.arange(40) % 5, np.arange(40) // 5, X[:, 0]
        assert not find_spec("streammargin.tables") or sm.complete(ratings, solver=name).converged
        continue
    kernel = {"kernel": "rbf"} if KERNELS in solver.takes else {}
    result = sm.train((X, y), solver=name, C=solver.default_C, tol=0.1, passes=30, **kernel)
    assert result.certificate["gap"] is not None or result.certificate["margin_gap"] is not None, name
print(sm.__file__, *names())
"""


def without(folder, place):
    """A copy of the package without this folder; it shares files, and kernels that are compiled."""
    gone = [folder, *NEEDED.get(folder, [])]
    place.mkdir(parents=True)
    for path in PACKAGE.rglob("*"):
        inside = path.relative_to(PACKAGE)
        if (
            "__pycache__" in inside.parts
            or any(map(inside.is_relative_to, gone))
            or inside.parts[0] in ("compiled", "data_tools")
        ):
            continue
        if path.is_dir():
            (place / inside).mkdir(parents=True)
        else:
            (place / inside).symlink_to(path)
    (place / "compiled").symlink_to(PACKAGE / "compiled")
    return place


@pytest.mark.parametrize("folder", FENCED)
def test_the_core_trains_without_a_fenced_folder(folder, tmp_path):
    without(folder, tmp_path / "streammargin")
    ran = subprocess.run(
        [sys.executable, "-c", TRAIN], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    file, *words = ran.stdout.split()
    gone = {path.stem.replace("_", "-") for path in (PACKAGE / folder).glob("*.py")} & set(names())
    assert file.startswith(str(tmp_path)) and set(words) == set(names()) - gone
    assert gone or folder in ("dask", "tables")  # which have no words


TESTS = Path(__file__).parent
CORE = [  # tests of trainings, rows, models and events that need no fenced folder
    "rows", "model/test_model_files.py", "driver/status/test_stopping_and_events.py", "driver/status/test_path.py",
    "solvers/coordinate/test_ascent.py", "solvers/newton/test_newton_shards.py", "sinks",
    "solvers/test_contract.py::test_three_holders_of_rows_have_the_figures_of_one",
]  # fmt: skip
RUN = """
import sys, pytest, streammargin
print(streammargin.__file__)
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("folder", FENCED)
def test_the_tests_of_the_core_pass_without_a_fenced_folder(folder, tmp_path):
    package = without(folder, tmp_path / "streammargin")
    root = TESTS.parent
    asked = ["-c", root / "pyproject.toml", "--rootdir", root, "-n", "0", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, "-c", RUN, *asked, *(TESTS / name for name in CORE)], capture_output=True, text=True,
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr
    assert ran.stdout.splitlines()[0] == str(package / "__init__.py") and not (package / folder).exists()


FILES = """
import logging, os, sys
import numpy as np
import streammargin as sm
from streammargin.cli.main import main

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 3))
y = np.where(X[:, 0] > 0.0, "yes", "no")
sm.write_hdf5(((X[k : k + 20], y[k : k + 20]) for k in range(0, 60, 20)), "a.h5")
assert main(["train", "a.h5", "--valid", "a.h5", "--checkpoint", "c", "-o", "m.npz", "-q"]) == 0
assert main(["train", "a.h5", "-C", "0.1,1", "--valid", "a.h5", "--scale", "std", "-o", "several.npz", "-q"]) == 0
assert main(["predict", "m.npz", "a.h5", "-o", "o.txt"]) == 0
assert main(["evaluate", "m.npz", "a.h5", "--json"]) == 0
assert main(["verify", "m.npz", "a.h5"]) == 0
assert main(["info", "m.npz"]) == 0
model = sm.load_model("m.npz")
assert model.predict(X).tolist() == model.predict("a.h5").tolist() and model.schema is None
assert model.evaluate((X, y))["accuracy"] == np.mean(model.predict(X) == y)
sm.train(((X, y) for _ in range(3)), solver="perceptron", C=float("inf"), classes=["no", "yes"])
open("t.csv", "w").write("a,b,c,y\\n1,2,3,no\\n")
for words in (["train", "t.csv", "-o", "t.npz"], ["predict", "m.npz", "t.csv"], ["train", "-", "-o", "t.npz"],
              ["train", "a.h5", "--drop", "b", "-o", "t.npz"]):
    assert main(words) in (2, 65, 66), words
print("streammargin.tables" in sys.modules, sm.__file__)
"""


def test_files_are_trained_on_and_scored_without_tables(tmp_path):
    without("tables", tmp_path / "streammargin")
    ran = subprocess.run(
        [sys.executable, "-c", FILES], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == f"False {tmp_path / 'streammargin' / '__init__.py'}"


WITHOUT_ARROW = """
import sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pyarrow":
            raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
sys.meta_path.insert(0, Nothing())

import numpy as np
import scipy.sparse as sp
import streammargin as sm
from streammargin.cli.main import main
from streammargin.data_tools.main import main as tools

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 3))
y = np.where(X[:, 0] > 0.0, 1, -1)
np.savez("a.npz", X=X, y=y)
open("a.svm", "w").writelines(f"{label} 1:{row[0]!r} 3:{row[2]!r}\\n" for label, row in zip(y, X.tolist()))
assert tools(["convert", "a.svm", "a.h5"]) == 0
for name in ("a.npz", "a.svm", "a.h5"):
    assert main(["train", name, "-o", "m.npz", "-q", "--force"]) == 0
    assert main(["evaluate", "m.npz", name, "--json"]) == 0
    assert main(["predict", "m.npz", name, "-o", "o.txt", "--force"]) == 0
    assert main(["verify", "m.npz", name]) == 0
assert sm.train((X, y), cv=3).converged
assert sm.train(((X, y) for _ in range(3)), spool=".", C=0.1).converged
open("t.csv", "w").write("a,b,c,y\\n1,2,3,no\\n2,2,3,yes\\n")
for words in (["train", "t.csv", "--y", "y", "-o", "t.npz"], ["predict", "m.npz", "t.csv"],
              ["predict", "m.npz", "a.h5", "-o", "o.parquet"], ["evaluate", "m.npz", "t.csv", "--y", "y"]):
    print(*words, file=sys.stderr)
    assert main(words) == 2, words
assert "pyarrow" not in sys.modules
"""


def test_all_but_tables_works_without_pyarrow(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_ARROW], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    refused = [line for line in ran.stderr.splitlines() if line.startswith("streammargin: error")]
    assert len(refused) == 4 and all("pip install 'streammargin[tables]'" in line for line in refused), ran.stderr
