"""Time to a certified maximum margin: every solver, beside LIBLINEAR at a C large enough for the same margin.

    python -m examples.benchmarks.margin DATA_DIR [--tol 1e-3] [--repeats 5] [--seconds 30] [--only mnist,lp,D,E,rcv1]

DATA_DIR holds mnist/ and rcv1sub/ as distributed. Data in memory, compile time excluded (an uncounted first
run), seconds with all certificates. A solver that has not proven the relative margin gap after --seconds is
shown with the gap it had. LIBLINEAR (scikit-learn's LinearSVC) proves nothing; it is given the fastest pair of
C and tolerance whose weights have a margin within the same relative distance of the proven upper bound.
"""

import argparse
import os
import statistics
import tempfile
import time
import warnings

import numpy as np
from sklearn.svm import LinearSVC

import streammargin as sm
from examples.benchmarks.sets import WORK, load, make, read
from examples.benchmarks.worker import timed
from examples.paper_data import gaussian
from streammargin.data_tools.generate import generate
from streammargin.solvers.registry import names

# another solver's name; methods for a finite C
SKIPPED = {"auto", "pegasos", "newton", "ascent", "pdprox", "prox-newton"}


def separable_rcv1(path):
    """The first rows of rcv1sub, as many as are separable (halving the step of the search)."""
    X, y = read(path)
    rows, step = len(y), len(y)
    while True:
        step = max(step // 2, 250)
        result = sm.train((X[:rows], y[:rows]), solver="sdca", C=np.inf, tol=1e-3, passes=300)
        if result.certificate["margin_lower"] > 0.0:
            return X[:rows], y[:rows]
        rows -= step


def pushed():
    """Set E: `generate --separable 0.5`, every third row on the margin and 4,600 support vectors."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "E.h5")
        generate(path, rows=12_000, features=784, separable=0.5)
        return read(path)


def ours(data, solver, options):
    """One line of the table for a solver, and its last result."""

    def run():
        return sm.train(data, solver=solver, C=np.inf, tol=options.tol, passes=10**6, max_seconds=options.seconds)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sm.train(data, solver=solver, C=np.inf, passes=2)  # compiles
        runs = [timed(run, time.perf_counter)]
        if runs[0][1].converged:
            runs += [timed(run, time.perf_counter) for _ in range(options.repeats - 1)]
    result = runs[-1][1]
    seconds = statistics.median(seconds for seconds, _ in runs)
    figures = result.certificate
    gap = "-" if figures["margin_gap"] is None else f"{figures['margin_gap']:.1e}"
    note = "" if result.converged else f"  ({result.reason})"
    reads = sum(e["event"] == "pass_end" for e in result.history)
    print(f"  {solver:<18} {seconds:8.3f} s {result.passes:7d} passes   gap {gap:>8}   "
          f"margin [{figures['margin_lower']:.6g}, {figures['margin_upper']:.6g}]{note}", flush=True)  # fmt: skip
    return result, seconds, reads


def liblinear(data, upper, options):
    """Seconds of the fastest setting of LIBLINEAR whose margin is within tol of the upper bound."""
    X, y = data
    X64 = X.astype(np.float64)
    found = []
    for C in (1.0, 10.0, 1e2, 1e3, 1e4, 1e5, 1e6):
        for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5):
            model = LinearSVC(loss="hinge", C=C, tol=tol, fit_intercept=False, max_iter=20_000)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seconds, _ = timed(lambda model=model: model.fit(X64, y), time.perf_counter)
            w = model.coef_.ravel()
            margin = np.min(y * (X64 @ w)) / np.linalg.norm(w)
            if margin >= (1.0 - options.tol) * upper:
                found.append((seconds, C, tol, margin))
                break
            if seconds > options.seconds:
                break
    if not found:
        print(f"  {'LIBLINEAR':<18}    never within {options.tol:g} of the margin")
        return None
    _, C, tol, margin = min(found)
    model = LinearSVC(loss="hinge", C=C, tol=tol, fit_intercept=False, max_iter=20_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spent = [timed(lambda: model.fit(X64, y), time.perf_counter)[0] for _ in range(options.repeats)]
        seconds = statistics.median(spent)
    print(f"  {'LIBLINEAR':<18} {seconds:8.3f} s   C = {C:g}, tol = {tol:g}, margin {margin:.6g}")
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--work", default=WORK, help="where the sets are kept as HDF5 (%(default)s)")
    parser.add_argument("--rows", type=int, help="at most so many rows of a set, for a trial")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--only", default="mnist,lp,D,E,rcv1")
    parser.add_argument("--solvers", default=",".join(name for name in names() if name not in SKIPPED))
    options = parser.parse_args()
    sets = {
        "mnist": lambda: load("mnist01", make("mnist01", options.data, options.work))[:2],
        "lp": lambda: gaussian(0)[:2],
        "D": lambda: load("D", make("D", options.data, options.work))[:2],
        "E": pushed,
        "rcv1": lambda: separable_rcv1(make("rcv1sub", options.data, options.work)),
    }
    for name in options.only.split(","):
        data = tuple(part[: options.rows] for part in sets[name]())
        print("{}: {} rows, {} features".format(name, *data[0].shape), flush=True)
        lines = {solver: ours(data, solver, options) for solver in options.solvers.split(",")}
        upper = min(line[0].certificate["margin_upper"] for line in lines.values())
        theirs = liblinear(data, upper, options)
        gaps = {solver: line[0].certificate["margin_gap"] for solver, line in lines.items()}
        proven = {solver: line[1] for solver, line in lines.items() if gaps[solver] <= options.tol}
        if proven:
            best = min(proven, key=proven.get)
            beside = "" if theirs is None else f", {theirs / proven[best]:.1f} times as fast as LIBLINEAR"
            print(f"  best: {best}, {proven[best]:.3f} s, {lines[best][2]} reads{beside}", flush=True)


if __name__ == "__main__":
    main()
