"""The picture of a terminal has what a command shows there: the last progress line, and the lines that stay."""

import sys

import pytest

from examples.terminal_picture import COLUMNS, lines_of, shown

WRITES = r"""
import os, sys
assert sys.stderr.isatty()
sys.stderr.write("reading a.h5\nplan\n")
for line in ("pass 1  50%", "compiling: 1 kernel done in 1.0s", "pass 2  90%", "certificate  10%"):
    sys.stderr.write("\r\x1b[K" + line)
sys.stderr.write(f"\r\x1b[Kconverged on {os.get_terminal_size(2).columns} columns\nwritten\n")
"""


def test_the_last_pass_and_what_stays_are_drawn(tmp_path):
    told = shown([sys.executable, "-c", WRITES], tmp_path)
    assert lines_of(told) == ["plan", "pass 2  90%", f"converged on {COLUMNS} columns", "written"]


def test_a_command_that_fails_is_not_drawn(tmp_path):
    with pytest.raises(RuntimeError, match="no such thing"):
        shown([sys.executable, "-c", "raise SystemExit('no such thing')"], tmp_path)
