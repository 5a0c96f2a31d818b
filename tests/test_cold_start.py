"""What is imported when, and what is compiled when."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import streammargin

PACKAGE = Path(streammargin.__file__).parent

# a kernel that calls a loss and operations on rows; prints the gap of a row and how often it had to be compiled
KERNEL = """
import logging, numpy as np
logging.basicConfig(format="%(message)s")
from streammargin.compiled.sdca import ASCENT_FIGURES, PASS_GAP, sdca_turns
from streammargin.losses import terms
from streammargin.penalties.mirror_maps import make_norm
from streammargin.rows.blocks import DenseBlock
from streammargin.rows.labels import Labels, numbered_from
from streammargin.rows.visits import all_at_once
block, one = DenseBlock(np.full((1, 2), 0.25), 0.0), np.array([0])
labels = Labels(np.zeros(1, np.int16), np.ones(1, int), np.ones((1, 1)), np.empty(0), np.empty(0))
turns, theta, figures = all_at_once(block, numbered_from(0), one, 1), np.ones((1, 3)), np.zeros((1, ASCENT_FIGURES))
sdca_turns(turns, labels, terms("hinge"), make_norm(2.0), one, np.zeros((1, 1)), np.zeros((1, 1), np.uint8), 0,
           np.ones(1), theta, theta, np.zeros(1), None, np.zeros(1), 1.0, figures)
stats = sdca_turns.stats
print(round(float(figures[0, PASS_GAP]), 9), sum(stats.cache_misses.values()), sum(stats.cache_hits.values()))
"""

TRAIN = """
import sys, numpy as np, pkgutil, importlib, scipy.sparse as sp, streammargin as sm, streammargin.compiled
X = np.random.default_rng(0).standard_normal((50, 5)); y = np.sign(X[:, 0])
result = sm.train((sp.csr_matrix(X), y), scale="maxabs", bias=1.0)
result.model.predict(X)
misses = hits = 0
for found in pkgutil.iter_modules(streammargin.compiled.__path__):
    for name, value in vars(importlib.import_module("streammargin.compiled." + found.name)).items():
        if hasattr(value, "stats") and not isinstance(value, type):
            misses += sum(value.stats.cache_misses.values()); hits += sum(value.stats.cache_hits.values())
print(misses, hits, int("numba.typed.typeddict" in sys.modules))
"""


def run(code, path=None, *arguments, **environment):
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | {"STREAMMARGIN_SHIPPED": "0"}
    env.update({k: str(v) for k, v in environment.items()})
    if path is not None:
        env["PYTHONPATH"] = str(path)
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=env, capture_output=True, text=True, cwd=path)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["train"], ["train", "none.h5"], ["--version"]])
def test_help_and_usage_errors_import_nothing_slow(arguments):
    code = f"import sys; from streammargin.cli.main import main; main({arguments}); print(sorted(sys.modules))"
    loaded = run(code).stdout
    for name in ("numba", "h5py", "scipy"):
        assert f"'{name}'" not in loaded


def test_info_imports_no_numba(blobs_file):
    code = "import sys; from streammargin.cli.main import main; main(['info', sys.argv[1]]); print(sorted(sys.modules))"
    assert "'numba'" not in run(code, None, blobs_file).stdout


def test_arrow_is_imported_when_a_table_is_read(tmp_path):
    """It takes a quarter of a second, more than half of a warm command."""
    (tmp_path / "t.csv").write_text("a,y\n1,0\n2,1\n")
    code = (
        "import sys, numpy as np, streammargin as sm\n"
        "X = np.array([[1.0], [2.0]]); y = np.array([0, 1])\n"
        "model = sm.train((X, y)).model; model.predict(X); model.evaluate((X, y)); model.save('m.npz')\n"
        "sm.load_model('m.npz').decision_function(X)\n"
        "print('pyarrow' in sys.modules)\n"
        "sm.load_model('m.npz').evaluate('t.csv', y='y')\n"
        "print('pyarrow' in sys.modules)"
    )
    assert run(code, tmp_path).stdout.split() == ["False", "True"]


@pytest.mark.slow
def test_the_second_process_compiles_nothing(tmp_path):
    first = [int(number) for number in run(TRAIN, NUMBA_CACHE_DIR=tmp_path).stdout.split()]
    second = [int(number) for number in run(TRAIN, NUMBA_CACHE_DIR=tmp_path).stdout.split()]
    assert first[0] > 0 and first[1] == 0
    assert second[0] == 0 < second[1] <= first[0]  # kernels that others call are cached with these
    assert (first[2], second[2]) == (1, 0)  # nor does it import what only compiling needs


@pytest.mark.slow
@pytest.mark.parametrize(
    "solver, loss", [("prox-newton", "squared_error"), ("prox-newton", "hinge"), ("newton", "hinge")]
)
def test_steps_of_second_order_do_not_load_linear_algebra_of_others(solver, loss):
    """Array expressions in a kernel import scipy.linalg with it: 20 MB that no memory budget knows of."""
    code = (
        "import sys, numpy as np, streammargin as sm\n"
        "X = np.random.default_rng(0).standard_normal((300, 6)); y = np.sign(X[:, 0])\n"
        f"sm.train((X, y), solver={solver!r}, loss={loss!r}, passes=5)\n"
        "print('scipy.linalg' in sys.modules)"
    )
    run(code)  # compiles, which does load it
    assert run(code).stdout.split() == ["False"]


@pytest.mark.slow
def test_an_edited_loss_or_row_operation_is_never_stale(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "streammargin", ignore=shutil.ignore_patterns("__pycache__"))
    cache = tmp_path / "cache"
    assert run(KERNEL, tmp_path, NUMBA_CACHE_DIR=cache).stdout.split() == ["1.5", "1", "0"]
    assert run(KERNEL, tmp_path, NUMBA_CACHE_DIR=cache).stdout.split() == ["1.5", "0", "1"]
    for file, head, body, after in (
        ("rows/blocks.py", "def dense_dot(x: np.ndarray, w: np.ndarray) -> float:", "return 0.0", "1.0"),
        ("losses/hinges.py", "def gap(self, alpha: float, u: float, cap: float) -> float:", "    return 7.0", "7.0"),
    ):
        path = tmp_path / "streammargin" / file
        text = path.read_text()
        assert text.count(head) == 1
        path.write_text(text.replace(head, f"{head}\n    {body}"))
        assert run(KERNEL, tmp_path, NUMBA_CACHE_DIR=cache).stdout.split() == [after, "1", "0"]


# a kernel of a loss that does not come with the package, and then one of a loss that does
OWN = """
from typing import NamedTuple
import numpy as np
from streammargin.compiled.overloads import expose
from streammargin.compiled.predict import total_loss
from streammargin.losses import terms
{definition}
expose(Steep)
print(total_loss(Steep(3.0), np.ones((2, 1))), total_loss(terms("hinge"), np.zeros((2, 1))))
print(sum(total_loss.stats.cache_misses.values()), sum(total_loss.stats.cache_hits.values()))
"""
STEEP = """
from typing import NamedTuple
class Steep(NamedTuple):
    rate: float
    def primal(self, margin, cost):
        return self.doubled(cost) * margin
    def doubled(self, value):
        return 2.0 * self.rate * value
"""


@pytest.mark.slow
def test_a_kernel_of_a_loss_from_elsewhere_is_cached_with_the_file_that_defines_it(tmp_path):
    (tmp_path / "steep.py").write_text(STEEP)
    code, cache = OWN.format(definition="from steep import Steep"), tmp_path / "cache"
    assert run(code, tmp_path, NUMBA_CACHE_DIR=cache).stdout.split() == ["12.0", "2.0", "2", "0"]
    assert run(code, tmp_path, NUMBA_CACHE_DIR=cache).stdout.split() == ["12.0", "2.0", "0", "2"]
    # of another length: Python takes bytecode for new if a file changes within a second and keeps its size
    (tmp_path / "steep.py").write_text(STEEP.replace("2.0 * self", "4.00 * self"))
    assert run(code, tmp_path, NUMBA_CACHE_DIR=cache).stdout.split() == ["24.0", "2.0", "1", "1"]


@pytest.mark.slow
def test_a_loss_of_a_script_is_compiled_by_every_run_and_costs_the_others_nothing(tmp_path):
    code = OWN.format(definition=STEEP)
    assert run(code, NUMBA_CACHE_DIR=tmp_path).stdout.split() == ["12.0", "2.0", "2", "0"]
    assert run(code, NUMBA_CACHE_DIR=tmp_path).stdout.split() == ["12.0", "2.0", "1", "1"]


@pytest.mark.slow
def test_a_loss_that_has_gone_costs_the_others_nothing(tmp_path):
    (tmp_path / "steep.py").write_text(STEEP)
    cache = tmp_path / "cache"
    run(OWN.format(definition="from steep import Steep"), tmp_path, NUMBA_CACHE_DIR=cache)
    (tmp_path / "steep.py").unlink()
    done = run(OWN.format(definition=STEEP), tmp_path, NUMBA_CACHE_DIR=cache)
    assert done.stdout.split() == ["12.0", "2.0", "1", "1"]


@pytest.mark.slow
def test_read_only_install_without_home_works_with_one_warning(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "streammargin", ignore=shutil.ignore_patterns("__pycache__"))
    # nobody, the superuser included, can make a folder where a file stands
    for folder in (tmp_path / "streammargin").rglob("*"):
        if folder.is_dir():
            (folder / "__pycache__").touch()
    nowhere = "/dev/null/home"
    done = run(KERNEL, tmp_path, HOME=nowhere, XDG_CACHE_HOME=nowhere, PYTHONDONTWRITEBYTECODE=1)
    assert done.stdout.split()[0] == "1.5"
    assert done.stderr.count("compiled kernels cannot be cached") == 1 and done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_cached_kernel_that_was_cut_short_is_compiled_again(tmp_path):
    assert run(KERNEL, NUMBA_CACHE_DIR=tmp_path).stdout.split() == ["1.5", "1", "0"]
    for ending in ("*.nbc", "*.nbi"):
        for path in tmp_path.rglob(ending):
            path.write_bytes(path.read_bytes()[:40])
        done = run(KERNEL, NUMBA_CACHE_DIR=tmp_path)
        assert done.stdout.split()[0] == "1.5" and "Traceback" not in done.stderr
        assert run(KERNEL, NUMBA_CACHE_DIR=tmp_path).stdout.split() == ["1.5", "0", "1"]


@pytest.mark.slow
def test_processes_that_compile_side_by_side_leave_a_cache_that_works(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "streammargin", ignore=shutil.ignore_patterns("__pycache__"))
    code = """
import sys, numpy as np
from streammargin.compiled.vectors import square
assert square(np.array([1, 2], sys.argv[1])) == 5
"""
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for _ in range(2):  # cold, side by side; then whatever they left
        runs = [subprocess.Popen([sys.executable, "-c", code, kind], env=env, cwd=tmp_path) for kind in ("f4", "f8")]
        assert [run.wait() for run in runs] == [0, 0]
