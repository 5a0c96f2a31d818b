"""Every figure and table of the five papers for which there are data, drawn and judged: one page of verdicts.

    python -m examples.papers FOLDER [--data DATA_DIR] [--only SCRIPT,...]

FOLDER gets papers.md, a section for each figure, and the pictures in pictures/. DATA_DIR holds the data sets as
distributed, a folder each. A script whose data are missing is reported there. So is a script that fails, and the exit
code is then 1. Needs the extras `examples` and `benchmarks`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
import sys
import textwrap
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib import pyplot as plt
from PIL import Image

from examples import figure_tools
from examples.figure_tools import Verdict

ROOT = Path(__file__).parents[1]
COLOURS = 64  # of a picture on the page
LONGEST = 1400  # pixels of its longer side
WIDTH = 120  # of a line

ABSENT = "no data: {}"
# the script of each figure or table; those that measure nothing (losses, rates) are left out
PAPERS = {
    "diagonal descent": {
        "Figure 2": "figure_diagonal_descent", "Figure 3": "figure_diagonal_descent",
        "Figure 4": "figure_kernel_noise", "Figure 5": "figure_kernel_noise", "Figure 6": "figure_kernel_digits",
        "Figure 6, the median width": "figure_kernel_width",
    },
    "homotopic": {f"Figure {number}": "figure_homotopic" for number in (1, 2, 3, 4, 5)},
    "dual acceleration": {
        "Figure 1": "figure_dual_acceleration", "Figure 2": "figure_dual_acceleration",
        "Figure 3": "figure_tangent_sampling", "Figure 4": "figure_tangent_epochs",
    },
    "lp-perceptron": {"Figure 1": "figure_lp_perceptron", "Figure 2": "figure_lp_perceptron"},
    "Pdprox": {
        "Figure 2": "figure_pdprox_groups", "Figure 3": "figure_pdprox_school", "Figure 4": "figure_pdprox_ratings",
        "Figure 5": "figure_pdprox_groups", "Figure 6": "figure_pdprox_budget", "Table 1": "table_pdprox",
        "section 5.5": "pdprox_few_rows", "Figure 7": "figure_pdprox_forms", "section 5.6": "pdprox_matrix_forms",
        "Figure 8": "figure_pdprox_pegasos",
    },
}  # fmt: skip
# the folders of data that each script reads
SCRIPTS = {
    "figure_diagonal_descent": (), "figure_kernel_noise": (), "figure_kernel_digits": ("mnist", "htru2"),
    "figure_kernel_width": ("mnist",), "figure_homotopic": (), "figure_dual_acceleration": ("mnist",),
    "figure_tangent_sampling": ("mnist",), "figure_tangent_epochs": ("mnist",),
    "figure_lp_perceptron": (), "figure_pdprox_groups": ("splice_donor",), "figure_pdprox_school": ("school",),
    "figure_pdprox_ratings": (), "figure_pdprox_budget": ("a9a", "rcv1sub", "covtype20k"),
    "table_pdprox": ("a9a", "rcv1sub", "covtype20k"), "pdprox_few_rows": ("rcv1sub",),
    "figure_pdprox_forms": ("imdb", "a9a"), "pdprox_matrix_forms": ("covtype20k",),
    "figure_pdprox_pegasos": ("covtype20k",),
}  # fmt: skip

# what a script takes in place of the paper's data or width, beside the picture
INSTEAD = {
    "figure_kernel_width": "2,000 rows of each pair, and sigma^2 half the median of their squared distances. The paper "
    "has 3.4.",
    "figure_lp_perceptron": "with the variances as printed, i^-3/2, and with i^-2, which gives the paper's axis.",
    "figure_pdprox_ratings": "1,948 ratings of 128 users and 208 films, from 1 to 5. The paper has 100,000 ratings of "
    "943 users and 1,682 films.",
    "figure_tangent_epochs": "a network of 64 hidden units on 128 images of MNIST. The paper has AlexNet on 128 images "
    "of CIFAR-10.",
    "figure_tangent_sampling": "10,000 images of MNIST. The paper has 60,000.",
    "table_pdprox": "of covtype the first 20,000 rows. The paper has 581,012.",
}


HEAD = """\
# The papers' figures

Statements of the five papers on their figures and tables, beside what is measured here, a section for each figure. A
statement is confirmed if its margin is on the right side of the limit. A lead by a factor below 1.1 may be lost on the
next data set, and is not confirmed. Medians are compared where iterates swing. Some data sets are not those of the
papers: sections and the docstrings of the scripts name them. The numbers of a section are of the commit that it names.
`python -m examples.papers FOLDER --data DATA_DIR` makes the page and its pictures."""

# why a statement is not confirmed, in a sentence
WHY = {
    "Figure 2, s0 = 10 has a smaller L2 error than s0 = 3, 5, 20":
        "s0 = 10 has the smallest median, but s0 = 5 is within 2% of it, which another data set may turn around.",
    "Figure 4, y times 20: the L2 error falls slightly more slowly (it is less than 2 times as large)":
        "the error falls nine times more slowly here; the paper does not say what it calls slightly.",
    "Figure 2, (c) the dual methods converge exponentially: so do their dual gaps":
        "the gap of the accelerated method falls unevenly, and is still 0.34 after the last epoch.",
    "Figure 2, hinge, lambda = 0.001: Pdprox is below all baselines":
        "fobos with the best of 21 step factors comes as near to the optimum at this large lambda.",
    "section 5.1, lambda = 1e-05: (ii) with the absolute loss the baselines fall further behind Pdprox":
        "at this small lambda Pdprox itself is still far from the optimum with the absolute loss.",
    "section 5.4, as with the hinge, absolute_error, lambda = 1e-05: Pdprox is below pdexg":
        "the paper claims this of the hinge; with the absolute loss and a small lambda both are far from the optimum.",
    "section 5.4, hinge, lambda = 0.001: 0.7886 of the groups of Pdprox are empty":
        "the data are not those of the paper: all true sites at hand and as many false ones.",
    "Figure 3, lambda = 0.001: agd is worse with the epsilon-insensitive loss":
        "a width of 0.01 hardly changes the loss of scores from 1 to 70: both are within 4%.",
    "Figure 3, lambda = 1e-05: agd is worse with the epsilon-insensitive loss":
        "a width of 0.01 hardly changes the loss of scores from 1 to 70: both are within 6%.",
    "Figure 4, hinge, lambda = 0.001: Pdprox falls the fastest early on":
        "fobos is ahead of it there; Pdprox is ahead of fobos after 60 products, and in the end.",
    "Figure 4, hinge, lambda = 1e-05: Pdprox is below agd early on":
        "it is, by a factor that may be turned round on the next data set.",
    "Figure 4, hinge, lambda = 1e-05: agd is below Pdprox in the end":
        "agd stays where it is after 20 products: none of its steps descends enough at a kink.",
    "Figure 5, trace norm, lambda = 1e-05: Pdprox is below pdexg":
        "Pdprox is ahead for the first 200 products; pdexg passes it later.",
    "section 5.4, hinge as with absolute_error, trace norm, lambda = 1e-05: Pdprox is below pdexg":
        "Pdprox is ahead after as many products, by 7%; with half as many more pdexg is.",
    "Figure 5, l1inf, lambda = 0.001: pdexg is below Pdprox":
        "with two duals a row, as the paper has this loss, both come as near; with the absolute loss pdexg is ahead.",
    "Figure 5, l1inf, lambda = 1e-05: pdexg is below Pdprox":
        "with two duals a row, as the paper has this loss, both come as near; with the absolute loss pdexg is ahead.",
    "Figure 5, l1inf: the lead of Pdprox over pdexg is larger with the larger lambda":
        "neither leads, with either lambda; few columns are empty on the way.",
    "section 5.4, l1inf, lambda = 0.001: 0.3766 of the columns of Pdprox are empty":
        "7 of the 28 columns, 0.25, are empty at the optimum, and fewer on the way; its end is not told in the paper.",
    "section 5.6, several targets, 140000 duals and 378 weights, double-primal takes less time than double-dual":
        "the vector that two primals save takes 0.07 ms of 2.2; products and projections are the same in both.",
    "section 5.6, completion, 75394 duals and 1128622 weights, double-dual takes less time than double-primal":
        "singular values take all but 3 ms of 190 in either form; beside them two duals take less time.",
    "Table 1, covtype20k: with a budget more test rows are right than with the hinge":
        "the data are not those of the paper: 20,000 of its 581,012 rows are at hand.",
    "Figure 8, lambda = n^-0.5: (3) the accelerated version is almost identical, within 2%":
        "they differ early on, after a tenth of the passes; in the end both are within 4e-4 of the optimum.",
    "Figure 4, with flipped labels lambda_0 = 100 has the smallest test error":
        "in two of eight problems it is within two standard errors, as for Algorithm 1, 20% and a deviation of .4.",
    "Figure 4, without flips lambda_0 = .01 is no better than 1":
        "with Algorithm 2 its margin gap is a quarter, its test error larger; with Algorithm 1 both are equal.",
    "Figure 5, with flipped labels log t and sqrt t have the smaller test errors":
        "it is so in seven of eight problems; with Algorithm 1, 10% and a deviation of .4 it falls short by a hair.",
    "Figure 5, without flips 2^t and t^2 are no better than t":
        "with Algorithm 2 their margin gap is a tenth, their test error larger; with Algorithm 1 all are equal.",
    "Figure 4, (b) for some seed the last kernel does not help: its error is above that of the first":
        "the error rises clearly for no seed of this small network on MNIST; for a third it does not fall clearly.",
    **{f"Figure 6, MNIST {pair}: Algorithm 2 has the smallest margin gap in the end":
        "this kernel is nearly the identity on standardised digits: Algorithm 1 is at the optimum as well."
        for pair in ("3/5", "3/8", "4/9")},
    **{f"Figure 6, MNIST {pair}, median width: Algorithm 2 has the smallest margin gap in the end":
        "dual momentum is ahead by a factor of five; Algorithm 2 leads Algorithm 1 and normalised GD by fifty and more."
        for pair in ("3/5", "3/8", "4/9")},
    "Figure 6, on the three pairs of digits Algorithm 2 has the smallest test error, with the median width":
        "dual momentum has the same test errors up to two rows; the other two methods have larger ones.",
    "Figure 1, (b) and fewer test mistakes":
        "with the variances as printed mirror and plain ascent make as many in a mean, and fewer after the last epoch.",
    "section 6, kernels generally improve in margin and in test error":
        "the error falls; the margin grows, but by less than a tenth, which the next data set may turn around.",
    "Figure 6, HTRU2: Algorithm 2 has the smallest margin gap in the end":
        "after 1,000 iterations dual momentum is ahead; the paper names neither their number nor lambda_t.",
    "Figure 6, on the three pairs of digits Algorithm 2 has the smallest test error":
        "this kernel is nearly the identity on standardised digits: all methods predict alike.",
    "Figure 6, HTRU2: Algorithm 2 has a test error slightly above that of dual momentum":
        "it has the smaller one here, by less than a standard error.",
    "Figure 6, HTRU2: Algorithm 1 and normalised GD have smaller test errors than the other two":
        "here they have the larger ones, by less than two standard errors.",
}  # fmt: skip


class Outcome(NamedTuple):
    """What a script came to; problem: why it has no verdicts, or no more of them; else "". commit: that it ran on."""

    script: str
    verdicts: Sequence[Verdict] = ()
    problem: str = ""
    failed: bool = False
    seconds: float = 0.0
    commit: str = ""


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
    return Outcome(script, figure_tools.VERDICTS[before:], problem, bool(problem), spent, commit())


def shrink(path: Path) -> None:
    """Save a picture with few colours, and no larger than a page shows it: a quarter of the bytes."""
    with Image.open(path) as image:
        small = image.convert("RGB")
        small.thumbnail((LONGEST, LONGEST))
        small.quantize(COLOURS).save(path, optimize=True)


def plain(text: str) -> str:
    """A text with what Markdown would take for marks as it stands."""
    for mark in ("|", "*", "<"):
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")


def place(statement: str) -> tuple[str, str]:
    """The figure, table or section that a statement begins with, and what it says; "" for a statement of no place."""
    found = re.match(r"((?:Figure|Table|section) \d+(?:\.\d+)?)[,:] (?=\S)", statement)
    return (found[1], statement[found.end() :]) if found else ("", statement)


def told(verdict: Verdict) -> list[str]:
    """The item of one statement: the verdict, what was measured, and, if it is not confirmed, why."""
    holds, statement, numbers, margin = verdict
    lines = [
        f"- **{'confirmed' if holds else 'NOT confirmed'}**: {plain(place(statement)[1])}",
        f"  - measured: {plain(numbers)}",
        f"  - margin: {plain(margin)}",
    ]
    if not holds and statement in WHY:
        lines.append(f"  - why: {WHY[statement]}")
    return [part for line in lines for part in wrapped(line)]


def wrapped(item: str) -> list[str]:
    """The lines of an item of a list."""
    inside = " " * (item.index("- ") + 2)
    return textwrap.wrap(item, WIDTH, subsequent_indent=inside, break_long_words=False, break_on_hyphens=False)


def of_script(outcome: Outcome, named: Sequence[str]) -> Iterator[str]:
    """The sections of one script, a figure each; its picture is in the first. named: its figures in PAPERS."""
    script, problem = outcome.script, outcome.problem
    parts: dict[str, list[Verdict]] = {}
    for verdict in outcome.verdicts:
        parts.setdefault(place(verdict.statement)[0] or named[0], []).append(verdict)
    if not parts:
        parts[", ".join(named)] = []
    for number, (figure, verdicts) in enumerate(parts.items()):
        drawn = draws(script) and bool(verdicts) and not outcome.failed
        where = f"; the picture is under {next(iter(parts))}" if drawn and number else ""
        yield from ("", f"### {figure}", "", f"`{command(script)}`{outcome.commit and f', {outcome.commit}'}{where}")
        if drawn and not number:
            yield from ("", f"![{script}](pictures/{script}.png)")
        if script in INSTEAD and verdicts and not number:
            yield from ("", *textwrap.wrap(f"Data: {INSTEAD[script]}", WIDTH, break_on_hyphens=False))
        if verdicts:
            yield from ("", *(line for one in verdicts for line in told(one)))
    if problem:
        yield from ("", f"- {problem}")


def sections(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """A section for each paper, and in it one for each figure."""
    found = {outcome.script: outcome for outcome in outcomes}
    for paper, figures in PAPERS.items():
        scripts = [script for script in dict.fromkeys(figures.values()) if script in found]
        if scripts:
            yield from ("", f"## {paper}")
        for script in scripts:
            yield from of_script(found[script], [figure for figure, name in figures.items() if name == script])


def page(outcomes: Sequence[Outcome]) -> str:
    """papers.md: how many statements are confirmed, and the sections."""
    verdicts = [verdict for outcome in outcomes for verdict in outcome.verdicts]
    held = sum(verdict.holds for verdict in verdicts)
    count = f"{held} of {len(verdicts)} statements are confirmed."
    return "\n".join([*HEAD.splitlines(), "", count, *sections(outcomes)]) + "\n"


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
    outcomes = [run(script, pictures, given.data) for script in chosen]
    (given.folder / "papers.md").write_text(page(outcomes))
    for outcome in outcomes:
        held = sum(verdict.holds for verdict in outcome.verdicts)
        came = outcome.problem or f"{held} of {len(outcome.verdicts)} confirmed in {outcome.seconds:.0f} s"
        print(f"{outcome.script}: {came}")
    return int(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
