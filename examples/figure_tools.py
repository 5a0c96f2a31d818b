"""Shared parts of the scripts of the papers' figures: options, tables and verdicts."""

import argparse
import math
from typing import NamedTuple

import matplotlib
import numpy as np

matplotlib.use("Agg")

CLEAR = 1.1  # what is ahead by a smaller factor may be behind on the next data set
ERRORS = 2.0  # standard errors that a difference has to be above 0


class Verdict(NamedTuple):
    """What the numbers say of a statement of a paper; margin: by how much, beside the limit."""

    holds: bool
    statement: str
    numbers: str
    margin: str


VERDICTS: list[Verdict] = []  # all of this process, in their order


def arguments(script, doc, passes, data="", seeds=0):
    """Parsed options of a figure script: out, passes, quick, and data (a folder) and seeds if it takes them.

    data: what the folder must hold, as in "mnist/".
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if data:
        parser.add_argument("data", metavar="DATA_DIR", help=f"the folder that holds {data} as distributed")
    parser.add_argument("--out", metavar="FILE.png", default=f"{script}.png", help="the picture (%(default)s)")
    parser.add_argument("--passes", type=int, help=f"iterations of every method ({passes})")
    if seeds:
        parser.add_argument("--seeds", type=int, help=f"data sets to average over ({seeds})")
    parser.add_argument("--quick", action="store_true", help="a small run, to see that the script works")
    args = parser.parse_args()
    args.passes = args.passes or (20 if args.quick else passes)
    if seeds:
        args.seeds = args.seeds or (1 if args.quick else seeds)
    return args


def marks(passes):
    """A few passes to print the numbers of: 1, 2, 5, 10, ... and the last."""
    steps = [m * 10**e for e in range(7) for m in (1, 2, 5)]
    return [t for t in steps if t < passes] + [passes]


def table(title, curves, passes, form="{:.5g}"):
    """Print curves {name: values after pass 1, 2, ...} at `marks`."""
    chosen = marks(passes)
    width = max(len(name) for name in curves)
    print(f"\n{title}")
    print(f"{'':{width}}", *(f"{t:>10}" for t in chosen))
    for name, values in curves.items():
        print(f"{name:{width}}", *(f"{form.format(values[t - 1]):>10}" for t in chosen))


def save(picture, path):
    """Write the picture, and print where it is: the verdicts follow."""
    picture.tight_layout()
    picture.savefig(path, dpi=120)
    print(f"\n{path}\n")


def value_at(steps, values, step):
    """The value (m,) at the last of the steps (m,) up to this one; inf before the first."""
    at = np.searchsorted(steps, step, "right") - 1
    return values[at] if at >= 0 else math.inf


def settles(steps, values, accuracy):
    """The step from which on all values (m,) are within the accuracy; inf if there is none."""
    far = np.flatnonzero(np.asarray(values) > accuracy)
    first = far[-1] + 1 if far.size else 0
    return float(steps[first]) if first < len(steps) else math.inf


def verdict(holds, statement, numbers, margin=""):
    """Record and print whether a statement of the paper is what the numbers say."""
    VERDICTS.append(Verdict(bool(holds), statement, numbers, margin))
    print(f"{'confirmed' if holds else 'NOT confirmed'}: {statement}; {numbers}{margin and f' [{margin}]'}")


def above(value, limit, what):
    """Whether a number is above its limit, and the margin in words."""
    return bool(value > limit), f"{what} {value:.3g}, limit {limit:g}"


def below(value, limit, what):
    """Whether a number is below its limit, and the margin in words."""
    return bool(value < limit), f"{what} {value:.3g}, limit {limit:g}"


def judge_sparsity(found, papers, near, case, parts):
    """The verdicts on section 5.4 of the Pdprox paper; found {lambda: {method: share of empty parts}}.

    papers: {method: that of the paper with each lambda}; near: the largest difference.
    """
    for method, shares in papers.items():
        for (lam, own), paper in zip(found.items(), shares, strict=True):
            holds, by = below(abs(own[method] - paper), near, "difference")
            verdict(
                holds, f"section 5.4, {case}, lambda = {lam:g}: {paper:g} of the {parts} of {method} are empty",
                f"{own[method]:.4f} in a mean over its iterations", by,
            )  # fmt: skip


def factor(better, worse):
    """worse / better, of numbers that are best at 0; nan if nothing can be said."""
    better, worse = float(better), float(worse)
    if better > 0.0:
        return worse / better
    return math.inf if worse > 0.0 else math.nan


def ahead(better, worse):
    """Whether the first of two numbers is clearly the smaller one, and the margin in words."""
    return above(factor(better, worse), CLEAR, "factor")


def standard_errors(differences):
    """The mean of differences (m,) in units of its standard error; nan for a single one."""
    differences = np.asarray(differences, float)
    if len(differences) < 2:
        return math.nan
    return factor(differences.std(ddof=1) / len(differences) ** 0.5, 1.0) * float(differences.mean())


def slope(values, start):
    """The exponent e of values ~ t^e over the passes t >= start, by least squares; nan with no positive values."""
    t = np.arange(1, len(values) + 1)
    use = (t >= start) & (np.asarray(values) > 0.0)
    return float(np.polyfit(np.log(t[use]), np.log(np.asarray(values)[use]), 1)[0]) if use.sum() > 1 else float("nan")
