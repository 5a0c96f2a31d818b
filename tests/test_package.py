"""The front door of the package."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from reference import bare
from reference.datasets import noisy
from reference.training import binary

import streammargin
import streammargin as sm
from streammargin import packages


def test_importing_costs_nothing():
    code = "import sys, streammargin; print(sorted({'numba', 'scipy', 'h5py', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'tarin'"):
        streammargin.tarin  # noqa: B018
    assert "train" in dir(streammargin)


def loaded(code):
    """Which of the modules that take their time are loaded by this line."""
    line = f"import sys; import streammargin as sm; {code}; print(*sorted({{'numba', 'h5py'}} & set(sys.modules)))"
    return subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    "code",
    [
        "sm.losses.terms('hinge').primal(0.5, 1.0)", "sm.losses.LOSSES", "sm.penalties.PENALTIES", "sm.penalties",
        "sm.solvers", "sm.solvers.names()", "sm.solvers.roles.Rows", "dir(sm)",
    ],
)  # fmt: skip
def test_losses_penalties_and_names_of_solvers_are_there_without_a_compiler(code):
    assert "numba" not in loaded(code)


def test_rooms_are_there_by_name():
    assert {"losses", "penalties", "solvers", "Source", "open_source"} <= set(dir(sm))
    assert sm.losses.terms("hinge").primal(-1.0, 2.0) == 4.0
    assert "l1" in sm.penalties.PENALTIES and "newton" in sm.solvers.names()
    assert isinstance(sm.open_source(noisy()), sm.Source)
    with pytest.raises(AttributeError, match="no attribute 'Slover'"):
        sm.solvers.Slover  # noqa: B018
    assert all(getattr(sm.solvers, name) is not None for name in dir(sm.solvers))


@sm.solvers.roles.state
class Mean(sm.solvers.Certified):
    """total: the sum of the rows of one side, less those of the other; seen: how many."""

    total: sm.solvers.roles.Shared[sm.solvers.roles.f8]
    seen: sm.solvers.roles.Count = 0


class Means(sm.solvers.CertifiedBySweep[Mean]):
    """The difference of the means of two classes."""

    name = "means"
    requires = ("primal",)
    state_class = Mean

    def visit(self, problem, state, active):
        return sm.solvers.Visit("pass", self.add, (active,), alone=True, end=self.report)

    def add(self, problem, state, active, block, first):
        rows = slice(first, first + block.rows())
        state.total[0, :-1] += np.where(state.labels.codes[rows] == problem.outputs.positive[0], 1.0, -1.0) @ block.X
        state.seen += block.rows()

    def report(self, problem, state, active):
        return sm.solvers.PassReport(np.full(problem.count, np.inf), 0)

    def frozen(self, problem, state, k):
        return state.total[k] / state.seen

    def weights(self, problem, state):
        return state.total / state.seen


def test_a_solver_of_the_users_own_derives_from_what_is_offered():
    X, y = noisy()
    X += 1.0
    result = sm.train((X, y), solver=Means(), C=0.1, passes=3)
    w = np.where(y == result.model.classes_[1], 1.0, -1.0) @ X / len(y)
    np.testing.assert_allclose(result.model.coef_[0], w, rtol=1e-12)
    assert result.certificate["primal"] == pytest.approx(binary(X, y, C=0.1).primal(w), rel=1e-12)
    assert result.passes == 3 and result.reason == "passes"


def test_an_interrupt_that_hdf5plugin_swallows_is_raised(monkeypatch, caplog):
    """It catches whatever is raised while it registers a filter, and logs the traceback."""
    log = logging.getLogger("hdf5plugin._utils")

    def imported(name):
        try:
            raise KeyboardInterrupt
        except:  # noqa: E722  # as it does
            log.error("Cannot register filter")

    monkeypatch.setattr(packages.importlib, "import_module", imported)
    with pytest.raises(KeyboardInterrupt):
        packages.register_filters()
    assert not caplog.records and not log.filters


def test_a_loss_needs_what_the_base_class_of_a_solver_calls_and_no_more():
    data, hinge = noisy(), sm.losses.terms("hinge")
    called = sm.solvers.CertifiedBySweep.requires
    for lacking in called:
        loss = bare.own(bare.stub(hinge, [name for name in called if name != lacking]))
        with pytest.raises(sm.UsageError, match=f"means needs the method {lacking} of a loss, which Stub lacks"):
            sm.train(data, solver=Means(), loss=loss, passes=1)
    least = sm.train(data, solver=Means(), loss=bare.own(bare.stub(hinge, called)), passes=1)
    assert least.certificate == sm.train(data, solver=Means(), passes=1).certificate


def test_another_system_is_refused_in_a_sentence():
    code = "import sys; sys.platform = 'win32'; import streammargin"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and last.startswith("ImportError: streammargin needs Linux or macOS") and "WSL" in last


def test_a_package_that_is_installed_meanwhile_is_found(tmp_path, monkeypatch):
    """Its entry points are looked for again, which is saved while the folders of packages are as they were."""
    monkeypatch.syspath_prepend(tmp_path)
    os.utime(tmp_path, (1, 1))
    before = packages.points_of("streammargin.sources")
    assert packages.points_of("streammargin.sources") is before and "theirs" not in {point.name for point in before}
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[streammargin.sources]\ntheirs = theirs\n")
    os.utime(tmp_path, (2, 2))
    assert "theirs" in {point.name for point in packages.points_of("streammargin.sources")}


@pytest.mark.parametrize(
    ("tag", "said"), [("", ""), ("v0.0.0", "pyproject.toml has another version"), ("1.0", "no tag")]
)
def test_a_tag_has_notes_if_all_files_name_its_version(tag, said):
    command = Path(__file__).parents[1] / ".ci" / "notes"
    done = subprocess.run(["bash", command, tag or f"v{sm.__version__}"], capture_output=True, text=True)
    assert (done.returncode == 0) == (not said) and said in done.stderr
    assert ("- **Train**" in done.stdout) == (not said)
