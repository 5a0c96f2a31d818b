"""Shared parts of the figure scripts: options, tables and verdicts."""

import argparse

import matplotlib
import numpy as np

matplotlib.use("Agg")


def arguments(script, doc, passes, data="", seeds=0):
    """Parsed options of a figure script: out, passes, quick, and data (a folder) and seeds where it takes them.

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


def verdict(holds, statement, numbers):
    """Print whether a statement of the paper is what the numbers say."""
    print(f"{'confirmed' if holds else 'NOT confirmed'}: {statement}; {numbers}")


def slope(values, start):
    """The exponent e of values ~ t^e over the passes t >= start, by least squares; nan with no positive values."""
    t = np.arange(1, len(values) + 1)
    use = (t >= start) & (np.asarray(values) > 0.0)
    return float(np.polyfit(np.log(t[use]), np.log(np.asarray(values)[use]), 1)[0]) if use.sum() > 1 else float("nan")
