"""Every figure and table of the five papers for which there are data, drawn and judged: one page of verdicts.

    python -m examples.papers FOLDER [--data DATA_DIR] [--only SCRIPT,...]

FOLDER gets papers.md, a table of all verdicts, and the pictures in pictures/. DATA_DIR holds the data sets as
distributed, a folder each. A script whose data are missing is reported in the table. So is a script that fails, and the
exit code is then 1. Needs the extras `examples` and `benchmarks`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib import pyplot as plt
from PIL import Image

from examples import figure_tools
from examples.figure_tools import Verdict

ROOT = Path(__file__).parents[1]
COLOURS = 64  # of a picture on the page

KERNELS = "waits for kernels"
OUTPUTS = "waits for several outputs"
ABSENT = "no data: {}"
# the script of each figure or table, or why there is none; those that measure nothing (losses, rates) are left out
PAPERS = {
    "diagonal descent": {
        "Figure 2": "figure_diagonal_descent", "Figure 3": "figure_diagonal_descent", "Figure 4": KERNELS,
        "Figure 5": KERNELS, "Figure 6": KERNELS,
    },
    "homotopic": {f"Figure {number}": "figure_homotopic" for number in (1, 2, 3, 4, 5)},
    "dual acceleration": {
        "Figure 1": "figure_dual_acceleration", "Figure 2": "figure_dual_acceleration", "Figure 3": KERNELS,
        "Figure 4": ABSENT.format("CIFAR-10, and a network trained on it"),
    },
    "lp-perceptron": {"Figure 1": "figure_lp_perceptron", "Figure 2": "figure_lp_perceptron"},
    "Pdprox": {
        "Figure 2": "figure_pdprox_groups", "Figure 3": OUTPUTS, "Figure 4": ABSENT.format("MovieLens"),
        "Figure 5": "figure_pdprox_groups", "rest of Figure 5": OUTPUTS, "Figure 6": "figure_pdprox_budget",
        "Table 1": "table_pdprox", "section 5.5": "pdprox_few_rows", "Figure 7": "figure_pdprox_forms",
        "Figure 8": "figure_pdprox_pegasos",
    },
}  # fmt: skip
# the folders of data that each script reads
SCRIPTS = {
    "figure_diagonal_descent": (), "figure_homotopic": (), "figure_dual_acceleration": ("mnist",),
    "figure_lp_perceptron": (), "figure_pdprox_groups": ("splice_donor",),
    "figure_pdprox_budget": ("a9a", "rcv1sub", "covtype20k"), "table_pdprox": ("a9a", "rcv1sub", "covtype20k"),
    "pdprox_few_rows": ("rcv1sub",), "figure_pdprox_forms": ("imdb", "a9a"), "figure_pdprox_pegasos": ("covtype20k",),
}  # fmt: skip


HEAD = """\
# The papers' figures

What the five papers say of their figures and tables, beside what is measured here. A statement is confirmed if its
margin is on the right side of the limit. What is ahead by a factor below 1.1 may be behind on the next data set, and
is not confirmed. Medians are compared where iterates swing. Some data sets are not those of the papers: the docstring
of each script names them."""


class Outcome(NamedTuple):
    """What a script came to; problem: why it has no verdicts, or no more of them; else ""."""

    script: str
    verdicts: Sequence[Verdict] = ()
    problem: str = ""
    failed: bool = False
    seconds: float = 0.0


def draws(script: str) -> bool:
    """Whether a script makes a picture."""
    return script.startswith("figure_")


def missing(script: str, data: str | None) -> list[str]:
    """The folders that a script reads and that are not there."""
    return [name for name in SCRIPTS[script] if data is None or not os.path.isdir(os.path.join(data, name))]


def command(script: str) -> str:
    """How a script is run by hand."""
    return f"python -m examples.{script}" + (" DATA_DIR" if SCRIPTS[script] else "")


def run(script: str, pictures: Path, data: str | None) -> Outcome:
    """The outcome of a script, as its command would have it."""
    absent = missing(script, data)
    if absent:
        return Outcome(script, problem=ABSENT.format(", ".join(absent)))
    picture = pictures / f"{script}.png"
    before, started, problem = len(figure_tools.VERDICTS), time.perf_counter(), ""
    words = [data] if data and SCRIPTS[script] else []
    kept, sys.argv = sys.argv, [script, *words, *(["--out", str(picture)] if draws(script) else [])]
    try:
        importlib.import_module(f"examples.{script}").main()
        if draws(script):
            shrink(picture)
    except (Exception, SystemExit) as error:  # whatever a script ends by, the others run
        traceback.print_exc()
        problem = f"failed: {type(error).__name__}: {error}"
    finally:
        sys.argv = kept
        plt.close("all")
    spent = time.perf_counter() - started
    return Outcome(script, figure_tools.VERDICTS[before:], problem, bool(problem), spent)


def shrink(path: Path) -> None:
    """Save a picture with few colours: a quarter of the bytes."""
    with Image.open(path) as image:
        image.convert("RGB").quantize(COLOURS).save(path, optimize=True)


def cells(*texts: str) -> str:
    """A row of a table, with what Markdown would take for marks as it stands."""
    escaped = (text.replace("|", r"\|").replace("*", r"\*").replace("<", r"\<").replace("\n", " ") for text in texts)
    return f"| {' | '.join(escaped)} |"


def rows(outcomes: Iterable[Outcome]) -> Iterable[str]:
    """The rows of the table: all verdicts, then what a script did not come to, then the figures without a script."""
    found = {outcome.script: outcome for outcome in outcomes}
    for paper, figures in PAPERS.items():
        for script in dict.fromkeys(figures.values()):
            if script not in found:
                continue
            how = f" `{command(script)}` |"
            for holds, statement, numbers, margin in found[script].verdicts:
                yield cells(paper, statement, numbers, "confirmed" if holds else "NOT confirmed", margin) + how
            if found[script].problem:
                named = ", ".join(figure for figure, name in figures.items() if name == script)
                yield cells(paper, named, "", found[script].problem, "") + how
        for figure, why in figures.items():
            if why not in SCRIPTS:
                yield cells(paper, figure, "", f"no script: {why}", "", "")


def page(outcomes: Sequence[Outcome], taken: str) -> str:
    """papers.md; taken: by what, and on which commit."""
    verdicts = [verdict for outcome in outcomes for verdict in outcome.verdicts]
    held = sum(verdict.holds for verdict in verdicts)
    lines = [
        *HEAD.splitlines(),
        "",
        taken,
        f"{held} of {len(verdicts)} statements are confirmed.",
        "",
        "| paper | statement | measured | verdict | margin | command |",
        "|---|---|---|---|---|---|",
        *rows(outcomes),
    ]
    for outcome in outcomes:
        if draws(outcome.script) and outcome.verdicts and not outcome.failed:
            name = outcome.script
            lines += ["", f"`{command(name)}`:", "", f"![{name}](pictures/{name}.png)"]
    return "\n".join(lines) + "\n"


def commit() -> str:
    """The commit of this checkout, or that it is none."""
    told = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return f"commit {told.stdout.strip()}" if told.returncode == 0 else "no commit"


def main() -> int:
    """Run the scripts, write the page, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--data", metavar="DATA_DIR", help="the folder with the data sets as distributed")
    parser.add_argument("--only", metavar="SCRIPT,...", help="some of the scripts: " + ", ".join(SCRIPTS))
    given = parser.parse_args()
    chosen = given.only.split(",") if given.only else list(SCRIPTS)
    unknown = set(chosen) - set(SCRIPTS)
    if unknown:
        parser.error(f"no such script: {', '.join(sorted(unknown))}; there are {', '.join(SCRIPTS)}")
    pictures = given.folder / "pictures"
    pictures.mkdir(parents=True, exist_ok=True)
    taken = f"Taken by `python -m examples.papers FOLDER --data DATA_DIR` on {commit()}."
    outcomes = [run(script, pictures, given.data) for script in chosen]
    (given.folder / "papers.md").write_text(page(outcomes, taken))
    for outcome in outcomes:
        held = sum(verdict.holds for verdict in outcome.verdicts)
        told = outcome.problem or f"{held} of {len(outcome.verdicts)} confirmed in {outcome.seconds:.0f} s"
        print(f"{outcome.script}: {told}")
    return int(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
