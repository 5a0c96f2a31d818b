"""A wheel with kernels: built, installed where nothing else is, and trained with from an empty cache."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numba
import numpy as np
import pytest

import streammargin as sm

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.compiles,
    pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled"),
]

# the last line has where the package is, the functions compiled, what was found, and what was logged of kernels
TELL = """
import json, logging, sys
from numba.core import event
compiled, logged = [], []
class Count(event.Listener):
    def on_start(self, event): compiled.append(event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event): pass
event.register("numba:compile", Count())
class Keep(logging.Handler):
    def emit(self, record): logged.append(record.getMessage())
logging.getLogger("streammargin").addHandler(Keep())
logging.getLogger("streammargin").setLevel(logging.INFO)
import streammargin as sm
%s
said = [line for line in logged if "those of the package" in line]
print(json.dumps([sm.__file__, compiled, found, said]))
"""
DIGITS = (
    TELL
    % """
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
found = [sm.MarginClassifier(loss=loss).fit(X, y).score(X, y) for loss in sys.argv[1:]]
"""
)
ONE_KERNEL = (
    TELL
    % """
import numpy as np
from streammargin.compiled.vectors import square
found = square(np.array([0.0, 1.0]))
"""
)


def run(*command, cwd="/", code=0, **environment):
    """The lines that a command prints which ends with this exit code, in an environment without our settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "STREAMMARGIN_"))}
    kept.pop("PYTHONPATH", None)
    done = subprocess.run(command, cwd=cwd, env={**kept, **environment}, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel with a few kernels."""
    home = tmp_path_factory.mktemp("wheel")
    dist = home / "dist"
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(dist), cwd=ROOT)
    assert not (ROOT / "build" / "lib").exists()
    (plain,) = dist.iterdir()
    script = str(ROOT / "examples" / "ship_kernels.py")
    out = run(sys.executable, script, str(plain), "--out", str(home), "--quick", "--kinds", "dense:float64")
    (wheel,) = home.glob("*.whl")
    assert str(wheel) in out[-1] and out[-1].endswith(" CPU s") and f"-cp3{sys.version_info.minor}-none-" in wheel.name
    return wheel


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """(python, site-packages) of an environment with the wheel and its dependencies only."""
    env = tmp_path_factory.mktemp("installed") / "env"
    run(sys.executable, "-m", "venv", "--without-pip", str(env))
    (site,) = env.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text("\n".join({str(Path(numba.__file__).parents[1]), *sys.path[-1:]}))
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)
    return str(env / "bin" / "python"), site


def told(installed, cache, script, *arguments, **environment):
    """(functions compiled, what was found, what was logged) by a script."""
    python, site = installed
    environment |= {
        "NUMBA_CACHE_DIR": str(cache),
        "STREAMMARGIN_PATIENCE": "0",
    }  # what is not there is compiled at once
    where, *others = json.loads(run(python, "-c", script, *arguments, **environment)[-1])
    assert Path(where).parent == site / "streammargin"
    return others


def trained(installed, cache, **environment):
    """The same of ten digits with both losses."""
    compiled, scores, said = told(installed, cache, DIGITS, "hinge", "logistic", **environment)
    assert min(scores) > 0.95
    return compiled, said


def test_digits_are_trained_from_an_empty_cache_and_nothing_is_compiled(installed, tmp_path):
    assert trained(installed, tmp_path) == ([], [])
    assert not list(tmp_path.rglob("*.nb?"))


def test_the_record_of_the_wheel_is_true(installed):
    _, site = installed
    for line in (next(site.glob("*.dist-info")) / "RECORD").read_text().splitlines():
        name, _, size = line.rsplit(",", 2)
        assert not size or (site / name).stat().st_size == int(size)


@pytest.mark.parametrize("change, why", [
    ({"numba": "0.1"}, "they are for Numba 0.1"),
    ({"sources": "others"}, "the sources of the package were changed"),
    ({"features": ["no-such-feature"]}, "this processor lacks no-such-feature"),
])  # fmt: skip
def test_what_does_not_fit_is_compiled_and_one_line_says_why(installed, tmp_path, change, why):
    (path,) = (installed[1] / "streammargin/compiled/objects").glob("*/kernels.json")
    assert told(installed, tmp_path, ONE_KERNEL) == [[], 1, []]
    text = path.read_text()
    path.write_text(json.dumps({**json.loads(text), **change}))
    try:
        compiled, found, said = told(installed, tmp_path, ONE_KERNEL)
    finally:
        path.write_text(text)
    assert (compiled[0], found, len(said)) == ("square", 1, 1) and why in said[0]


def test_a_read_only_install_without_a_home_finds_them(installed, tmp_path):
    _, site = installed
    (site / "streammargin/compiled/__pycache__").rename(site / "streammargin/compiled/kept")
    (site / "streammargin/compiled/__pycache__").touch()  # nobody can make a folder where a file stands
    try:
        nowhere = "/dev/null/home"
        environment = {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "PYTHONDONTWRITEBYTECODE": "1"}
        assert trained(installed, "/dev/null/cache", **environment) == ([], [])
    finally:
        (site / "streammargin/compiled/__pycache__").unlink()
        (site / "streammargin/compiled/kept").rename(site / "streammargin/compiled/__pycache__")


def test_info_names_them(installed):
    found = json.loads(run(installed[0], "-m", "streammargin", "info", "--kernels", "--json")[-1])
    (one,) = found["shipped"]
    assert one["unused"] is None and one["kernels"] > 10 and one["numba"] == numba.__version__


def test_the_check_names_what_a_wheel_lacks(installed, tmp_path):
    check = [installed[0], str(ROOT / "examples/kernel_check.py"), "--rows", "digits", "--penalties", "l2"]
    kept = {"NUMBA_CACHE_DIR": str(tmp_path), "STREAMMARGIN_PATIENCE": "0"}
    named, last = run(*check, "--losses", "logistic", code=1, **kept)  # this wheel has all classes at once
    assert named.startswith("digits, logistic l2 ovr: ")
    assert last == "3 fits, 0 refused; these kernels were compiled"
    assert run(*check, "--losses", "logistic", **kept) == ["3 fits, 0 refused; nothing was compiled"]


def test_they_are_measured_beside_native_ones(wheel, tmp_path):
    X = np.random.default_rng(0).standard_normal((60, 300))
    sm.write_hdf5([(X, np.where(X[:, 0] > 0, 1, -1))], tmp_path / "D.h5")
    few = ["--work", str(tmp_path), "--sets", "D", "--losses", "hinge", "--C", "1", "--no-steps"]
    shown = run(sys.executable, "-m", "examples.benchmarks.shipped", str(wheel), str(tmp_path), *few, cwd=ROOT)
    title, problem, milliseconds, _, _, bits = (cell.strip() for cell in shown[2].strip("|").split("|"))
    assert (title, problem) == ("D", "hinge C=1") and int(milliseconds) > 0 and bits in ("same", "others")
    said, _, compiled = shown[-1].partition(": ")
    assert said == "compiled beside the kernels of the wheel" and "sdca_turns" not in compiled  # which it has
