"""The core works without the methods of the papers, and without the folder for dask: nothing of it needs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import streammargin
from streammargin.solvers.registry import names

PACKAGE = Path(streammargin.__file__).parent
FENCED = ["solvers/papers", "dask"]
TRAIN = """
import numpy as np
import streammargin as sm
from streammargin.solvers.registry import make_solver, names

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
y = np.where(X[:, 0] > 0.0, 1, -1)
X[:, 0] += y
for name in names()[1:]:
    solver = make_solver(name)
    kernel = {"kernel": "rbf"} if solver.kernels else {}
    result = sm.train((X, y), solver=name, C=solver.default_C, tol=0.1, passes=30, **kernel)
    assert result.certificate["gap"] is not None or result.certificate["margin_gap"] is not None, name
print(sm.__file__, *names())
"""


def without(folder, place):
    """A copy of the package without this folder; it shares files, and kernels that are compiled."""
    for path in PACKAGE.rglob("*"):
        inside = path.relative_to(PACKAGE)
        if (
            "__pycache__" in inside.parts
            or inside.is_relative_to(folder)
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
    assert gone or folder == "dask"  # which has no words
