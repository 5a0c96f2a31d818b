"""Runs the code of a page, from top to bottom, as its reader would."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LONGEST = 900  # seconds of one block, however busy the machine is


def blocks(path):
    """(language, code) of each fenced block of a page that is Python or shell."""
    return [(found[1], found[2]) for found in BLOCK.finditer(path.read_text())]


def commands(folder):
    """A folder with our two commands and Python, so that a shell finds them as after an installation."""
    folder.mkdir()
    for name, words in (
        ("streammargin", " -m streammargin"),
        ("streammargin-data", " -m streammargin.data_tools"),
        ("python", ""),
    ):
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)}{words} "$@"\n')
        path.chmod(0o755)
    return folder


def shell(code, folder, bin_folder):
    """Run code by bash in a folder; the first command that fails ends it. Returns what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "-e", "-u", "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LONGEST)
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def run(path, folder, bin_folder):
    """All blocks of a page in a folder, which must be the working directory; Python ones share their names."""
    scope = {"__name__": "__main__"}
    for language, code in blocks(path):
        if language == "sh":
            shell(code, folder, bin_folder)
        else:
            exec(compile(code, path.name, "exec"), scope)
    return scope
