"""The page of verdicts on the papers' figures: its inventory, its table, and what it tells of failures."""

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


def lines(text):
    """The cells of each row of a page's table."""
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


def test_the_inventory_names_every_figure_and_scripts_that_exist():
    named = [name for figures in papers.PAPERS.values() for name in figures.values() if name in papers.SCRIPTS]
    assert set(named) == set(papers.SCRIPTS)
    for script in papers.SCRIPTS:
        assert "def main()" in (ROOT / "examples" / f"{script}.py").read_text()
    figures = {
        path.stem for path in (ROOT / "examples").glob("*.py") if re.match(r"(figure|table)_(?!tools)", path.stem)
    }
    assert figures <= set(papers.SCRIPTS)
    absent = [why for figures in papers.PAPERS.values() for why in figures.values() if why.startswith("no data")]
    assert len(PRINTED) - len(absent) == 22  # with data


def test_a_table_is_made_of_what_scripts_recorded():
    outcomes = [
        papers.Outcome("figure_lp_perceptron", [Verdict(True, "Figure 1, a < b*", "||w|| 3", "factor 2, limit 1.1"),
                                                Verdict(False, "Figure 2, c", "4", "factor 1, limit 1.1")]),
        papers.Outcome("table_pdprox", problem="no data: a9a"),
    ]  # fmt: skip
    text = papers.page(outcomes, "Taken now.")
    rows = lines(text)
    assert all(len(row) == 6 for row in rows)
    command = "`python -m examples.figure_lp_perceptron`"
    first = ["lp-perceptron", r"Figure 1, a \< b\*", r"\|\|w\|\| 3", "confirmed", "factor 2, limit 1.1", command]
    assert first in rows
    assert ["lp-perceptron", "Figure 2, c", "4", "NOT confirmed", "factor 1, limit 1.1", command] in rows
    assert ["Pdprox", "Table 1", "", "no data: a9a", "", "`python -m examples.table_pdprox DATA_DIR`"] in rows
    assert ["diagonal descent", "Figure 4", "", "no script: waits for kernels", "", ""] in rows
    assert "1 of 2 statements are confirmed" in text and "Taken now." in text
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


def test_what_fails_or_has_no_data_is_in_the_table(tmp_path, scripts, monkeypatch, capsys):
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
    rows = {row[1]: row for row in lines((tmp_path / "out" / "papers.md").read_text())}
    assert rows["before it broke"][3] == "confirmed"
    assert rows["Table 1"][3] == "failed: ValueError: of no use"
    assert rows["Table 2"][3] == "failed: SystemExit: 2"
    assert rows["Table 3"][3] == "no data: gone"
    assert rows["of its data"][2:5] == ["2", "NOT confirmed", "by 2"]
    assert seen == [[str(tmp_path / "data")]] and sys.argv != before
    assert "good: 0 of 1 confirmed" in capsys.readouterr().out


def test_missing_data_alone_are_no_failure(tmp_path, scripts, monkeypatch):
    scripts(absent=(lambda: 1 / 0, ("gone",)))
    assert typed(monkeypatch, tmp_path) == 0
    assert lines((tmp_path / "papers.md").read_text()) == [
        ["one", "Table 1", "", "no data: gone", "", "`python -m examples.absent DATA_DIR`"]
    ]


def test_an_unknown_script_is_refused_before_anything_runs(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        typed(monkeypatch, tmp_path / "out", "--only", "figure_lp_perceptron,figur")
    assert "no such script: figur;" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_the_page_of_the_site_is_of_all_scripts_and_small():
    text = PAGE.read_text()
    rows = lines(text)
    for script in papers.SCRIPTS:
        assert any(papers.command(script) in row[5] for row in rows), script
        assert importlib.import_module(f"examples.{script}").__doc__.split("\n\n")[1].strip().startswith("python -m")
    assert {row[3] for row in rows if row[5]} == {"confirmed", "NOT confirmed"}
    assert all(row[4] for row in rows if row[5])
    assert re.search(r"on commit [0-9a-f]{7,}\.", text)
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
    rows = lines((tmp_path / "papers.md").read_text())
    measured = [row for row in rows if "figure_diagonal_descent" in row[5]]
    assert len(measured) == 5 and all(re.search(r"\d.*limit \d", row[4]) for row in measured)
    assert [row[3] for row in rows if "table_pdprox" in row[5]] == ["no data: a9a, rcv1sub, covtype20k"]
    assert (tmp_path / "pictures" / "figure_diagonal_descent.png").read_bytes().startswith(b"\x89PNG")
