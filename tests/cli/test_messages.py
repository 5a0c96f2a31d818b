"""Messages for a terminal: what files hold in their names does not steer it."""

import io
import os
import sys

import h5py
import numpy as np
import pytest
from conftest import write_h5

import streammargin as sm
from streammargin.cli import info
from streammargin.cli.main import main, report
from streammargin.sinks.console import Console
from streammargin.wording import printable

EVIL = "\x1b]0;owned\x07\u202egnp\u2066\x9b1A"
SAFE = printable(EVIL)


def test_what_steers_a_terminal_is_escaped_and_scripts_are_left():
    assert SAFE == "\\x1b]0;owned\\x07\\u202egnp\\u2066\\x9b1A" and printable(SAFE) == SAFE
    text = "می\u200cخواهم नि ß 日本 👩\u200d🔬"
    assert printable(text) == text


@pytest.mark.parametrize("number", [2, 15])
def test_a_signal_that_arrow_heard_ends_a_command_as_any_other(number, capsys):
    pa = pytest.importorskip("pyarrow")
    assert report(pa.lib.ArrowCancelled("Operation cancelled", number), False, "streammargin") == 128 + number
    assert f"stopped by signal {number}" in capsys.readouterr().err


def label(tmp_path, X, y):
    write_h5(tmp_path / "a.h5", X, np.array([f"{EVIL}{c}".encode() for c in y]))
    sm.train((X, np.where(y > 0, "a", "b"))).model.save(tmp_path / "m.npz")
    return ["evaluate", "m.npz", "a.h5"]


def group(tmp_path, X, y):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_group(EVIL)
    return ["train", "a.h5"]


def link(tmp_path, X, y):
    os.symlink(EVIL, tmp_path / "a.h5")
    return ["train", "a.h5"]


def file_name(tmp_path, X, y):
    (tmp_path / f"{EVIL}.h5").write_text("no rows")
    return ["train", f"{EVIL}.h5"]


def classes(tmp_path, X, y):
    write_h5(tmp_path / "a.h5", X, np.array([f"{EVIL}{c}".encode() for c in y]))
    return ["info", "a.h5"]


@pytest.mark.parametrize("way", [label, group, link, file_name, classes])
@pytest.mark.parametrize("more", [[], ["--debug"]])
def test_names_in_files_do_not_reach_the_terminal(way, more, tmp_path, blobs, here):
    done = here(*way(tmp_path, *blobs), *more, cwd=tmp_path)
    told = done.stdout + done.stderr
    assert SAFE[:12] in told and not set(told) & set(EVIL) - set(SAFE), told


def test_nor_do_they_by_the_console(tmp_path):
    with open(tmp_path / "told", "w+", encoding="utf-8") as stream:
        Console(stream=stream)({"event": "warning", "code": "library", "message": f"no {EVIL}"})
        stream.seek(0)
        assert stream.read() == f"warning: no {SAFE}\n"


def test_a_note_replaces_the_line_of_progress(tmp_path, monkeypatch):
    """A reader tells how far it is and then a note, on the same terminal."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(Console, "_due", lambda self, growth=0.0: True)
    (tmp_path / "t.csv").write_text("a,y\n" + "1,0\n2,1\n" * 9)
    assert main(["train", str(tmp_path / "t.csv"), "-o", str(tmp_path / "m.npz"), "--tol", "0.5"]) == 0
    told = sys.stderr.getvalue()
    assert "\r\x1b[K18 rows written\r\x1b[Kno loss was given" in told, told


def test_a_library_that_does_not_fit_is_a_lack_of_memory(monkeypatch, capsys):
    """A process with ulimit -v could not load scipy.linalg, and called it unexpected."""

    def run(options):
        raise ImportError("/scipy/linalg/_flapack.so: failed to map segment from shared object")

    monkeypatch.setattr(info, "run", run)
    assert main(["info", "a.h5"]) == 1
    assert "error: out of memory (/scipy/linalg/_flapack.so" in capsys.readouterr().err
