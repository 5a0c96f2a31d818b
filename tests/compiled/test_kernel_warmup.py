"""Compiling ahead of time leaves nothing to compile later."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import call

from streammargin.compiled.warmup import warmup

pytestmark = [pytest.mark.slow, pytest.mark.compiles]


def test_after_warmup_nothing_is_compiled():
    tests = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": tests, "STREAMMARGIN_SHIPPED": "0"}  # all of them, not the others alone
    command = [sys.executable, "-W", "error", "-m", "reference.warmed"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_command_finds_nothing_left_to_compile():
    done = call("warmup", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_warmup_says_how_far_it_is():
    said = []
    warmup(said.append)
    total = len(said)
    assert [what.split(":")[0] for what in said] == [f"{number} of {total}" for number in range(1, total + 1)]
    kinds = {f"{a} {b} rows" for a in ("dense", "sparse") for b in ("float32", "float64")}
    assert {what.split(" for ")[1] for what in said} == kinds
