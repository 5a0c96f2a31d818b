"""The code of README and tutorial runs from top to bottom; that of the other pages too, in slow tests."""

import os
import re

import pages
import pytest

DOCS = pages.ROOT / "docs"
OTHERS = sorted(path for path in DOCS.rglob("*.md") if path.stem not in ("tutorial", "adding") and pages.blocks(path))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory, and the folder of our commands."""
    inside = tmp_path / "work"
    inside.mkdir()
    monkeypatch.chdir(inside)
    return inside, pages.commands(tmp_path / "bin")


@pytest.mark.slow
def test_the_tutorial_runs(folder, capsys):
    scope = pages.run(DOCS / "tutorial.md", *folder)
    assert scope["done"].converged and os.path.exists("strict.npz")


@pytest.mark.slow
@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_the_code_of_a_page_runs(path, folder, capsys):
    pages.run(path, *folder)


def test_every_block_has_a_language_that_is_run_or_is_output():
    for path in [*DOCS.rglob("*.md"), pages.ROOT / "README.md"]:
        opened = re.findall(r"^```(\S*).*$", path.read_text(), re.MULTILINE)[::2]
        known = {
            "{code-cell}",
            "python",
            "sh",
            "text",
            "{toctree}",
            "{eval-rst}",
            "{include}",
            "js",
        }  # js: model/test_exports.py runs it
        assert set(opened) <= known, path.name


def test_the_run_of_the_readme_runs(folder):
    text = (pages.ROOT / "README.md").read_text().split("## A run\n")[1].split("\n## ")[0]
    typed = [line.removeprefix("    $ ") for line in text.splitlines() if line.startswith("    $ ")]
    shown = [line.strip() for line in text.splitlines() if line.startswith("    ") and not line.startswith("    $ ")]
    printed = pages.shell("\n".join(typed), *folder)
    assert len(typed) >= 4
    for line in shown:
        if re.search(r"\d+ (rows|row)\b", line) and "rows/s" not in line:  # what no machine changes
            assert line in printed, line


def test_a_docstring_is_set_as_plain_text(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    from docstrings import set_as_rst

    told = "A *b* |c| d_ of `x_i`s.\n\nParameters\n----------\nwide : float, default 1\n    how wide\n\n    u = v_"
    lines = [line for line in set_as_rst(told.splitlines()) if line.strip()]
    assert lines[0] == r"A \*b\* \|c\| d\_ of ``x_i``\ s."
    assert lines[1:4] == [".. rubric:: Parameters", "``wide``", "    *float, default 1*"]
    assert lines[4:] == ["    how wide", ".. code-block:: none", "        u = v_"]
    lines = [line for line in set_as_rst(["For each row:", "    u <- y_i x_i.w", "so far."]) if line.strip()]
    assert lines == ["For each row:", ".. code-block:: none", "        u <- y_i x_i.w", "so far."]


def test_pictures_are_there_and_each_is_shown():
    shown = {name for path in [*DOCS.rglob("*.md"), pages.ROOT / "README.md"]
             for name in re.findall(r"pictures/(\w+\.(?:svg|png))", path.read_text())}  # fmt: skip
    assert shown == {path.name for path in (DOCS / "pictures").iterdir()}
