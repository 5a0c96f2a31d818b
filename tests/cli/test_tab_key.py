"""What the Tab key offers, asked as bash asks."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("argcomplete")


def offered(line, folder):
    """The completions of a line, by its program."""
    answer = folder / "answer"
    module = {"streammargin": "streammargin", "streammargin-data": "streammargin.data_tools"}[line.split()[0]]
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
             "COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"}  # fmt: skip
    path = os.pathsep.join(sys.path)  # the process works in an empty folder
    done = subprocess.run([sys.executable, "-m", module], env={**os.environ, "PYTHONPATH": path, **asked}, cwd=folder,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0 and not done.stdout, done.stderr
    return {word.strip() for word in answer.read_text().split("\n") if word.strip()}


@pytest.mark.parametrize("line, words", [
    ("streammargin tr", {"train"}),
    ("streammargin train rows.h5 --los", {"--loss"}),
    ("streammargin train rows.h5 --loss hu", {"huber"}),
    ("streammargin train rows.h5 --scale ", {"none", "maxabs", "std", "std:clip=10", "auto"}),
    ("streammargin losses sq", {"squared_hinge", "squared_error"}),
    ("streammargin solvers prox", {"prox-newton"}),
    ("streammargin predict model.npz rows.h5 --unk", {"--unknown"}),
    ("streammargin-data con", {"convert"}),
])  # fmt: skip
def test_the_tab_key_offers_what_may_follow(line, words, tmp_path):
    assert offered(line, tmp_path) == words


def test_files_are_offered_where_a_file_is_named(tmp_path):
    (tmp_path / "rows.h5").touch()
    assert "rows.h5" in offered("streammargin train ro", tmp_path)
