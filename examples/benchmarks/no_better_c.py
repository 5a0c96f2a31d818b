"""For how much of a path of C it is proven that no C between the tried ones has a smaller held-out error.

    python -m examples.benchmarks.no_better_c [--data DATA_DIR]

The certified gap g at a tried C bounds its optimum w*: ||w - w*|| <= delta = sqrt(2 g). The optimum at rho C lies in
the ball of the centre (1 + rho) / 2 w* and the radius |1 - rho| / 2 ||w*|| (Shibagaki et al., NIPS 2015). So a held-out
row x with y w.x + delta ||x|| < 0 is wrong for each C within a factor of C, which `reach` returns. The rows that are
surely wrong bound the error at each C from below. A C is settled if that bound is no more than a slack below the least
error of the tried C. The table has the share of the range of log C that is settled, for each slack.
Two thirds of the rows train, the others are held out; columns are divided by their largest value.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits

import streammargin as sm
from examples.benchmarks.sets import WORK, load, make

DECADES, POINTS = 5.0, 4001  # of the range of C, and values of C at which its bound is computed
GRIDS, TOLS, SLACKS = (10, 30), (1e-3, 1e-6), (0.0, 0.002, 0.01)
LOSSES = "logistic", "hinge"
ROWS = 9000  # at most, of a set
FILES = "htru2", "a9a", "rcv1sub"  # of DATA_DIR


def sets(data: str | None) -> Iterator[tuple[str, Any, np.ndarray]]:
    """(name, rows, labels -1 and 1), in random order."""
    digits, cancer = load_digits(), load_breast_cancer()
    found = [
        ("breast cancer", cancer.data, cancer.target),
        ("digits, odd", digits.data, digits.target % 2),
        ("digits, 5 and up", digits.data, digits.target >= 5),
    ]
    found += [(name, *load(name, make(name, data, WORK))[:2]) for name in FILES] if data else []
    for name, X, y in found:
        order = np.random.default_rng(0).permutation(len(y))[:ROWS]
        rows = X[order] if sp.issparse(X) else X[order] / np.maximum(np.abs(X[order]).max(axis=0), 1e-12)
        yield name, rows.astype(float), np.where(y[order] > 0, 1, -1)


def lengths(X: Any) -> np.ndarray:
    """||x|| of each row with the constant column of 1."""
    squares = X.multiply(X).sum(axis=1) if sp.issparse(X) else np.square(X).sum(axis=1)
    return np.sqrt(np.asarray(squares).ravel() + 1.0)


def reach(margins: np.ndarray, norms: np.ndarray, size: float, delta: float) -> np.ndarray:
    """The factor of C (m,) up to which each held-out row is surely wrong; 0 if it is not even at C.

    margins: y w.x; norms: ||x||; size: ||w||; delta: the distance of w from the optimum at C, at most.
    """
    worst, most = margins + norms * delta, norms * (size + delta)
    return np.where(worst < 0.0, (most - worst) / (most + worst), 0.0)


def settled(X: Any, y: np.ndarray, cut: int, loss: str, count: int, tol: float) -> list[float]:
    """The shares of the range that are settled, by slack; rows from `cut` on are held out."""
    norms, own = lengths(X), y[cut:]
    costs = np.logspace(-DECADES / 2, DECADES / 2, count) / np.mean(norms[:cut] ** 2)
    grid = np.geomspace(costs[0], costs[-1], POINTS)
    wrong, least = np.zeros((POINTS, len(own)), bool), 1.0
    for C in costs.tolist():
        result = sm.train((X[:cut], y[:cut]), C=C, loss=loss, tol=tol, passes=20_000)
        w, b = result.model.coef_[0], float(result.model.intercept_[0])
        margins = own * (np.asarray(X[cut:] @ w).ravel() + b)
        gap = max(result.certificate.primal - result.certificate.dual, 0.0)
        factor = reach(margins, norms[cut:], float(np.sqrt(w @ w + b * b)), float(np.sqrt(2.0 * gap)))
        least = min(least, float(np.mean(margins <= 0.0)))
        away = np.maximum(grid / C, C / grid)
        near = away <= factor.max(initial=0.0)
        wrong[near] |= away[near, None] < factor
    bound = wrong.mean(axis=1)
    return [float(np.mean(bound >= least - slack - 1e-12)) for slack in SLACKS]


def main() -> None:
    """Print a line for each set, loss, grid and tolerance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", metavar="DATA_DIR", help=f"the folder that holds {', '.join(FILES)} as distributed")
    print(f"{'':<18}{'':<10}  C    tol", *(f"{slack:7.1%}" for slack in SLACKS))
    for name, X, y in sets(parser.parse_args().data):
        for loss in LOSSES:
            for count in GRIDS:
                for tol in TOLS:
                    shares = settled(X, y, 2 * len(y) // 3, loss, count, tol)
                    print(f"{name:<18}{loss:<10}{count:3}  {tol:.0e}", *(f"{one:7.1%}" for one in shares), flush=True)


if __name__ == "__main__":
    main()
