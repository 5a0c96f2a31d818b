"""The page of verdicts on the papers' figures: its inventory, its sections, and what it tells of failures."""

import importlib
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the figures need matplotlib (the extra `examples`)")

from examples import papers
from examples.figure_tools import Verdict, verdict

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "papers.md"
PRINTED = [name for figures in papers.PAPERS.values() for name in figures if re.fullmatch(r"(Figure|Table) \d", name)]


def statements(text):
    """{(section, statement): (verdict, measured, margin, why)} of a page."""
    found, section, key = {}, "", None
    for line in re.sub(r"\n +(?!- )(?=\S)", " ", text).splitlines():
        if line.startswith("### "):
            section = line[4:]
        elif told := re.match(r"- \*\*((?:NOT )?confirmed)\*\*: (.*)", line):
            key = section, told[2]
            found[key] = {"verdict": told[1]}
        elif more := re.match(r"  - (measured|margin|why): (.+)", line):
            found[key][more[1]] = more[2]
    return found


def test_the_inventory_names_every_figure_and_scripts_that_exist():
    assert {name for figures in papers.PAPERS.values() for name in figures.values()} == set(papers.SCRIPTS)
    for script in papers.SCRIPTS:
        assert "def main()" in (ROOT / "examples" / f"{script}.py").read_text()
    figures = {
        path.stem for path in (ROOT / "examples").glob("*.py") if re.match(r"(figure|table)_(?!tools)", path.stem)
    }
    assert figures <= set(papers.SCRIPTS)
    assert len(PRINTED) == 24


def test_a_section_is_made_of_each_figure_that_scripts_recorded(monkeypatch):
    monkeypatch.setattr(papers, "WHY", {"Figure 2, c": "it is so."})
    outcomes = [
        papers.Outcome("figure_lp_perceptron", [Verdict(True, "Figure 1, a < b*", "||w|| 3", "factor 2, limit 1.1"),
                                                Verdict(False, "Figure 2, c", "4", "factor 1, limit 1.1")],
                       commit="commit abc"),
        papers.Outcome("table_pdprox", problem="no data: a9a"),
    ]  # fmt: skip
    text = papers.page(outcomes)
    assert statements(text) == {
        ("Figure 1", r"a \< b\*"):
            {"verdict": "confirmed", "measured": r"\|\|w\|\| 3", "margin": "factor 2, limit 1.1"},
        ("Figure 2", "c"):
            {"verdict": "NOT confirmed", "measured": "4", "margin": "factor 1, limit 1.1", "why": "it is so."},
    }  # fmt: skip
    first, second = text.split("### Figure 1\n")[1].split("### Figure 2\n")
    assert "`python -m examples.figure_lp_perceptron`, commit abc\n\n![figure_lp_perceptron](pictures/" in first
    assert "![" not in second.split("## Pdprox")[0] and "commit abc; the picture is under Figure 1" in second
    assert "### Table 1\n\n`python -m examples.table_pdprox DATA_DIR`\n\n- no data: a9a\n" in text
    assert "1 of 2 statements are confirmed" in text
    assert re.findall(r"pictures/(\w+)\.png", text) == ["figure_lp_perceptron"]


@pytest.fixture
def scripts(monkeypatch):
    """Put scripts in place of the true ones: {name: (main, folders of data)}."""

    def put(**mains):
        for name, (main, _) in mains.items():
            monkeypatch.setitem(sys.modules, f"examples.{name}", types.SimpleNamespace(main=main))
        monkeypatch.setattr(papers, "SCRIPTS", {name: needs for name, (_, needs) in mains.items()})
        monkeypatch.setattr(papers, "PAPERS", {"one": {f"Table {n}": name for n, name in enumerate(mains, 1)}})

    return put


def typed(monkeypatch, *words):
    """The exit code for words of a command line."""
    monkeypatch.setattr(sys, "argv", ["papers", *map(str, words)])
    return papers.main()


def test_what_fails_or_has_no_data_is_on_the_page(tmp_path, scripts, monkeypatch, capsys):
    seen = []

    def breaks():
        verdict(True, "before it broke", "1", "by 1")
        raise ValueError("of no use")

    def reads():
        seen.append(sys.argv[1:])
        verdict(False, "of its data", "2", "by 2")

    scripts(breaks=(breaks, ()), leaves=(lambda: sys.exit(2), ()), absent=(reads, ("here", "gone")),
            good=(reads, ("here",)))  # fmt: skip
    (tmp_path / "data" / "here").mkdir(parents=True)
    before = list(sys.argv)
    assert typed(monkeypatch, tmp_path / "out", "--data", tmp_path / "data") == 1
    text = (tmp_path / "out" / "papers.md").read_text()
    problems = dict(re.findall(r"### (Table \d)\n\n`.*?`.*\n(?:\n- \*.*\n  - .*\n  - .*\n)?\n- ([^*].*)", text))
    assert problems == {"Table 1": "failed: ValueError: of no use", "Table 2": "failed: SystemExit: 2",
                        "Table 3": "no data: gone"}  # fmt: skip
    assert statements(text) == {
        ("Table 1", "before it broke"): {"verdict": "confirmed", "measured": "1", "margin": "by 1"},
        ("Table 4", "of its data"): {"verdict": "NOT confirmed", "measured": "2", "margin": "by 2"},
    }
    assert seen == [[str(tmp_path / "data")]] and sys.argv != before
    assert "good: 0 of 1 confirmed" in capsys.readouterr().out


def test_missing_data_alone_are_no_failure(tmp_path, scripts, monkeypatch):
    scripts(absent=(lambda: 1 / 0, ("gone",)))
    assert typed(monkeypatch, tmp_path) == 0
    text = (tmp_path / "papers.md").read_text()
    assert re.search(r"## one\n\n### Table 1\n\n`python -m examples.absent DATA_DIR`.*\n\n- no data: gone\n", text)


def test_an_unknown_script_is_refused_before_anything_runs(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        typed(monkeypatch, tmp_path / "out", "--only", "figure_lp_perceptron,figur")
    assert "no such script: figur;" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_the_page_of_the_site_is_of_all_scripts_and_small():
    text = PAGE.read_text()
    for script in papers.SCRIPTS:
        assert re.search(rf"`{re.escape(papers.command(script))}`, commit [0-9a-f]{{7,}}", text), script
        assert importlib.import_module(f"examples.{script}").__doc__.split("\n\n")[1].strip().startswith("python -m")
    found = statements(text)
    assert len(found) > 50 and {one["verdict"] for one in found.values()} == {"confirmed", "NOT confirmed"}
    assert all("measured" in one and "margin" in one for one in found.values())
    assert all(("why" in one) == (one["verdict"] == "NOT confirmed") for one in found.values())
    pictures = [PAGE.parent / name for name in re.findall(r"\]\((pictures/\w+\.png)\)", text)]
    assert [path.stem for path in pictures] == [name for name in papers.SCRIPTS if papers.draws(name)]
    sizes = [path.stat().st_size for path in pictures]
    assert max(sizes) < 150_000 and sum(sizes) < 1_500_000


@pytest.mark.slow
def test_a_script_is_run_to_its_page(tmp_path):
    command = [sys.executable, "-m", "examples.papers", str(tmp_path), "--only", "figure_diagonal_descent,table_pdprox"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "error"}
    )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "papers.md").read_text()
    measured = statements(text)
    assert len(measured) == 5 and all(re.search(r"\d.*limit \d", one["margin"]) for one in measured.values())
    assert "\n- no data: a9a, rcv1sub, covtype20k\n" in text
    assert (tmp_path / "pictures" / "figure_diagonal_descent.png").read_bytes().startswith(b"\x89PNG")
