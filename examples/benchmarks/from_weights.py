"""The work of `init`: from 0, from the model of another C, and from the model of 95% of the rows, to a gap of 1e-3.

    python -m examples.benchmarks.from_weights DATA_DIR

Passes; of newton, whose steps in memory are one pass, millions of multiplications. DATA_DIR holds a9a and rcv1sub.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

import streammargin as sm
from examples.benchmarks.sets import WORK, load, make

SETS = {"a9a": 0.1, "rcv1sub": 1.0}  # their C; the other model has a third of it
SOLVERS = {"a9a": ("newton", "pdprox", "ascent"), "rcv1sub": ("pdprox", "ascent")}
NEW = 20  # one row of so many is new
ROWS, COLUMNS, MARGIN = 20_000, 200, 0.3  # of the planes, whose other model has C = 1


def planes() -> tuple[np.ndarray, np.ndarray]:
    """Normal rows (n, d) of two classes that a plane through 0 separates."""
    random = np.random.default_rng(0)
    X, normal = random.standard_normal((ROWS, COLUMNS)), random.standard_normal(COLUMNS)
    scores = X @ normal / np.linalg.norm(normal)
    kept = np.abs(scores) > MARGIN
    return X[kept], np.where(scores[kept] > 0.0, 1, -1)


def compare(name: str, X: Any, y: np.ndarray, other: dict[str, Any], options: dict[str, Any]) -> None:
    """Print a line: the work from 0 and from both models."""
    new, work = len(y) // NEW, []
    earlier = sm.train((X, y), **other).model, sm.train((X[new:], y[new:]), **options).model
    for start in (None, *earlier):
        found = sm.train((X, y), init=start, **options)
        most = max(event.get("multiplications") or 0 for event in found.history)
        work.append(round(most / 1e6) if options["solver"] == "newton" else found.passes)
    print(f"{options['solver']:<11}{name:<9}{options.get('loss', 'C = inf'):<15}", *(f"{one:6}" for one in work))


def main() -> None:
    """A line for each solver and loss."""
    for name, C in SETS.items():
        X, y, *_ = load(name, make(name, sys.argv[1], WORK))
        for solver in SOLVERS[name]:
            for loss in ("hinge", "logistic", "squared_hinge"):
                options = {"solver": solver, "loss": loss, "passes": 3000}
                compare(name, X, y, {**options, "C": C / 3.0}, {**options, "C": C})
    compare("planes", *planes(), {"solver": "newton", "C": 1.0}, {"solver": "active-set", "C": math.inf})


if __name__ == "__main__":
    main()
