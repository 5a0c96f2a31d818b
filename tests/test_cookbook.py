"""The notebooks of docs/cookbook run from top to bottom; the site shows what they print."""

import re

import pages
import pytest

NOTEBOOKS = sorted((pages.ROOT / "docs" / "cookbook").glob("*.md"))
NEEDED = {"cells": "anndata", "choose": "matplotlib", "probe": "matplotlib"}


def parts(path):
    """Python, or a command of the shell without its `!`, in order."""
    for cell in re.findall(r"```\{code-cell\}\n(.*?)```", path.read_text(), re.DOTALL):
        cell = cell.replace("\\\n", " ")
        for line in re.split(r"^(!.*)$", cell, flags=re.MULTILINE):
            if line.strip():
                yield line.strip("\n")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    pytest.importorskip(NEEDED.get(path.stem, "pandas"))
    monkeypatch.setenv("SIZE", "8M")
    monkeypatch.setenv("MPLBACKEND", "agg")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    commands, scope = pages.commands(tmp_path / "bin"), {}
    for part in parts(path):
        if part.startswith("!"):
            pages.shell(part[1:].format(**scope) if "{" in part else part[1:], work, commands)
        else:
            exec(compile(part, path.name, "exec"), scope)
