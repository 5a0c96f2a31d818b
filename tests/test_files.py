"""Outputs: there is the old file or the whole new one, whatever happens."""

import contextlib
import itertools
import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
from conftest import call, write_h5

import streammargin as sm
from streammargin import files
from streammargin.cli.main import main
from streammargin.data_tools.main import main as tools
from streammargin.errors import OutputError
from streammargin.kinds import InputName
from streammargin.losses import FAMILY as LOSSES
from streammargin.options.table import TABLE
from streammargin.penalties import FAMILY as PENALTIES


@contextlib.contextmanager
def interrupted_at(step):
    """Raise KeyboardInterrupt at one instruction of the module, as a signal would; yields whether it has struck."""
    struck, seen = [], itertools.count()

    def trace(frame, event, argument):
        if frame.f_code.co_filename not in (files.__file__, contextlib.__file__):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and not struck and next(seen) == step:
            struck.append(frame.f_lineno)
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        yield struck
    finally:
        sys.settrace(None)


# an interrupt may strike between an open() and its `with`: the file is then closed when it is collected
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("existing", [False, True])
def test_an_interrupt_at_any_instruction_leaves_the_old_file_or_the_new(tmp_path, existing):
    target = tmp_path / "out"
    old = "old" if existing else None
    results = set()
    for step in itertools.count():
        if existing:
            target.write_text("old")
        with (
            contextlib.suppress(KeyboardInterrupt),
            interrupted_at(step) as struck,
            files.replacing(str(target), force=True) as name,
            open(name, "w") as file,
        ):
            file.write("new")
        names = os.listdir(tmp_path)
        assert set(names) <= {"out"}, (step, struck, names)
        found = target.read_text() if names else None
        assert found in (old, "new"), (step, struck)
        results.add(found)
        target.unlink(missing_ok=True)
        if not struck:
            break
    assert results == {old, "new"} and step > 200


def test_an_interrupt_at_any_instruction_leaves_no_folder(tmp_path):
    for step in itertools.count():
        with (
            contextlib.suppress(KeyboardInterrupt),
            interrupted_at(step) as struck,
            files.temporary_folder(str(tmp_path / "out")) as name,
            open(os.path.join(name, "0.X"), "w") as file,
        ):
            file.write("rows")
        assert not os.listdir(tmp_path), (step, struck)
        if not struck:
            break
    assert step > 100


def test_outputs_have_the_rights_of_any_new_file(tmp_path):
    with files.replacing(str(tmp_path / "out")):
        pass
    (tmp_path / "other").touch()
    assert os.stat(tmp_path / "out").st_mode == os.stat(tmp_path / "other").st_mode


def test_an_output_that_appears_meanwhile_is_not_replaced(tmp_path):
    target = tmp_path / "out"
    with pytest.raises(OutputError, match="out appeared while it was written"), files.replacing(str(target)) as name:
        with open(name, "w") as file:
            file.write("second")
        target.write_text("first")
    assert target.read_text() == "first" and os.listdir(tmp_path) == ["out"]


def test_a_file_system_without_links_replaces_nothing_either(tmp_path, monkeypatch):
    monkeypatch.setattr(files.os, "link", lambda *names: (_ for _ in ()).throw(PermissionError()))
    with files.replacing(str(tmp_path / "out")) as name, open(name, "w") as file:
        file.write("new")
    assert (tmp_path / "out").read_text() == "new"
    with pytest.raises(OutputError, match="appeared"), files.replacing(str(tmp_path / "other")):
        (tmp_path / "other").write_text("first")
    assert (tmp_path / "other").read_text() == "first"


def test_what_a_killed_process_left_goes_with_the_next_run_on_the_same_output(tmp_path):
    code = (
        "import os, sys; from streammargin import files\n"
        "with files.temporary_folder(sys.argv[1]) as folder, files.replacing(sys.argv[1]) as name:\n"
        "    open(folder + '/0.X', 'w').write('rows'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")])
    left = os.listdir(tmp_path)
    assert len(left) == 2 and all(name.startswith(".streammargin-") for name in left)
    with files.replacing(str(tmp_path / "other")):  # another output's files are none of its business
        assert set(left) < set(os.listdir(tmp_path))
    with files.replacing(str(tmp_path / "out")) as first, open(first, "w"):
        with files.temporary_folder(str(tmp_path / "out")) as second:  # nor what a living process has
            assert os.path.exists(first) and os.path.exists(second)
        assert not set(left) & set(os.listdir(tmp_path))


def test_no_file_that_is_read_is_written(tmp_path, blobs, here):
    """Each option that reads, by the table: a new one is here, or the first line fails."""
    X, y = blobs
    reading = {line.name: line.kind for line in TABLE if isinstance(line.kind, InputName)}
    words = {cls for family in (LOSSES, PENALTIES) for cls in family.classes.values()}
    reading |= {
        one.name: one.metadata["kind"]
        for cls in words
        for one in cls.entries()
        if isinstance(one.metadata["kind"], InputName)
    }
    given = {
        "x": (["--x", "rows"], ["a.h5"]),
        "y": (["--y", "labels.h5:y"], ["labels.h5"]),
        "sample_weight": (["--sample-weight", "w.npy"], ["w.npy"]),
        "mask": (["--mask", "kind.h5:kind=1"], ["kind.h5"]),
        "valid": (["--valid", "valid.h5"], ["valid.h5"]),
        "groups": (["--penalty", "group:g.txt"], ["g.txt"]),
        "init": (["--init", "first.npz"], ["first.npz"]),
    }
    assert {*given, "epsilon", "tasks"} == set(reading)
    for line in TABLE:  # whoever takes a name of data or of a file says so by its kind
        words = (line.kind.metavar or "").replace(":", "|").replace("=", "|").split("|")
        assert (line.name in reading) == bool({"NAME", "FILE", "DATA", "MODEL", "COLUMN"} & set(words)), line.name
    np.save(tmp_path / "w.npy", np.ones(len(y)))
    np.save(tmp_path / "epsilon.npy", np.ones(len(y)))
    np.save(tmp_path / "tasks.npy", np.arange(len(y)) % 2)
    sm.train((X, y)).model.save(tmp_path / "first.npz")
    for name in ("a.h5", "labels.h5", "valid.h5", "g.h5", "kind.h5"):
        write_h5(tmp_path / name, X, y, g=np.arange(10) // 2, kind=np.arange(len(y)) % 2)
    (tmp_path / "g.txt").write_text("".join(f"{column // 2}\n" for column in range(10)))
    for name in ("a.h5", "valid.h5"):
        with h5py.File(tmp_path / name, "a") as file:
            file.move("X", "rows")
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    everything = [word for words, _ in given.values() for word in words]
    protected = {"a.h5", *(name for _, names in given.values() for name in names)}
    asked = [(everything, name) for name in sorted(protected)]
    asked += [
        ([*everything, "--penalty", "group:g.h5:g"], "g.h5"),
        ([*everything, "--penalty", "exclusive:labels.h5:g"], "labels.h5"),
        ([*everything, "--loss", "interpolate:epsilon.npy"], "epsilon.npy"),
        ([*everything, "--tasks", "tasks.npy"], "tasks.npy"),
    ]
    for words, name in asked:
        for output in (["-o", name], ["-o", "m.npz", "--log-json", name]):
            done = here("train", "a.h5", *words, *output, "--force", cwd=tmp_path)
            assert done.returncode == 2 and "is an input as well" in done.stderr, (name, output, done.stderr)
    for verb in (["convert", "a.h5"], ["shuffle", "a.h5"], ["split", "a.h5", "b.h5"]):
        for name in ("a.h5", "labels.h5"):
            words = [name, "--x", "rows", "--y", "labels.h5:y", "--force"]
            done = call(*verb, *words, module="streammargin.data_tools", cwd=tmp_path)
            assert done.returncode == 2 and "is an input as well" in done.stderr, (verb, done.stderr)
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before
    done = here("train", "a.h5", *everything, "-o", "m.npz", "-q", cwd=tmp_path)  # and all of it can be trained on
    assert done.returncode == 0, done.stderr
    for name in ("m.npz", "a.h5"):
        done = here("predict", "m.npz", "a.h5", "--x", "rows", "-o", name, "--force", cwd=tmp_path)
        assert done.returncode == 2 and "is an input as well" in done.stderr, (name, done.stderr)


def test_a_link_of_the_outputs_name_is_replaced_itself(tmp_path):
    (tmp_path / "data").write_text("rows")
    (tmp_path / "out").symlink_to("data")
    with pytest.raises(OutputError, match="out exists"), files.replacing(str(tmp_path / "out")):
        pass
    (tmp_path / "lost").symlink_to("nowhere")
    with pytest.raises(OutputError, match="lost exists"), files.replacing(str(tmp_path / "lost")):
        pass
    with files.replacing(str(tmp_path / "out"), force=True) as name:
        write_text(name)
    assert (tmp_path / "data").read_text() == "rows" and not (tmp_path / "out").is_symlink()
    (tmp_path / "folder").mkdir()
    (tmp_path / "way").symlink_to("folder")  # of a folder a link is followed
    with files.replacing(str(tmp_path / "way" / "out")) as name:
        write_text(name)
    assert os.listdir(tmp_path / "folder") == ["out"]


def write_text(name):
    with open(name, "w") as file:
        file.write("new")


@pytest.mark.parametrize("kind", ["link", "hard link", "moved"])
@pytest.mark.parametrize("verb", ["convert", "shuffle", "split", "predict"])
def test_an_output_that_becomes_an_input_while_it_is_written_is_not_replaced(verb, kind, tmp_path, blobs, monkeypatch):
    X, y = blobs
    data, out = write_h5(tmp_path / "a.h5", X, y), tmp_path / "out.h5"
    sm.train((X, y)).model.save(tmp_path / "m.npz")
    before = (tmp_path / "a.h5").read_bytes()

    def check(path, still_apart=files.check_still_apart):
        if kind == "moved":
            os.rename(data, out)
        elif kind == "link":
            out.symlink_to(data)
        else:
            out.hardlink_to(data)
        still_apart(path)

    monkeypatch.setattr(files, "check_still_apart", check)
    others = {"split": ["other.h5"], "predict": []}.get(verb, [])
    words = ["m.npz", "a.h5", "-o", "out.h5"] if verb == "predict" else ["a.h5", *others, "out.h5"]
    monkeypatch.chdir(tmp_path)
    run = main if verb == "predict" else tools
    assert run([verb, *words, "--force"]) == 73
    assert out.read_bytes() == before and set(os.listdir(tmp_path)) <= {"a.h5", "m.npz", "out.h5"}


@pytest.mark.parametrize("ending", ["", "-x", "-1-2", "-99999999-0123456789abcdef.npz"])
def test_a_hidden_name_that_is_not_ours_is_let_be(ending, tmp_path):
    other = tmp_path / (files._prefix(str(tmp_path / "out")) + ending)
    other.write_text("mine")
    with files.replacing(str(tmp_path / "out")) as name:
        write_text(name)
    assert other.read_text() == "mine"


@pytest.mark.parametrize(
    "error, raised", [(MemoryError, MemoryError), (OutputError, OutputError), (KeyError, sm.DataError)]
)
def test_memory_that_runs_out_is_no_damage(error, raised):
    with pytest.raises(raised), files.reading("a.npz", "is damaged", "write it again"):
        raise error("no")
