"""Stopping under noise: which pass predicts best if a fifth of the labels is wrong.

    python -m examples.early_stopping DATA_DIR

DATA_DIR holds a9a/ and mushrooms/ as distributed. A fifth of the labels is flipped, of the rows trained on and of those
held out; the test rows keep theirs. There are three ways to fit. `early_stop` takes the pass of one training that does
best on the held-out rows. The others are its last pass, and the best of several C by the same rows. The training is
coordinate ascent at C = 1, or the hard margin's diagonal descent, which is meant to be stopped. Five seeds.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import streammargin as sm
from examples.benchmarks.sets import WORK, load, make
from examples.paper_data import flipped

HELD_OUT, SEEDS = 0.2, 5
PASSES, PATIENCE = 200, 20
COSTS = [float(C) for C in np.logspace(-5, 2, 15)]
METHODS: list[dict[str, Any]] = [{"solver": "sdca", "C": 1.0}, {"solver": "diagonal"}]


def error(model: Any, test: tuple[Any, np.ndarray]) -> float:
    """The share of test rows that are predicted wrongly."""
    return float(np.mean(model.predict(test[0]) != test[1]))


def last_pass(rows: tuple[Any, np.ndarray], **options: Any) -> Any:
    """The model of the last pass, rather than of the pass with the smallest objective."""
    seen: list[int] = []

    def count(event: dict[str, Any]) -> None:
        seen.extend([1] if event["event"] == "pass_end" else [])

    def stop() -> str | None:
        return "signal" if len(seen) == PASSES else None

    return sm.train(rows, listeners=[count], should_stop=stop, passes=PASSES + 1, tol=0.0, **options).model


def compare(X: Any, y: np.ndarray, test: tuple[Any, np.ndarray], seed: int) -> list[float]:
    """Test errors of the pass kept and the last one, by each method, and of the best C; the passes kept."""
    random = np.random.default_rng(seed)
    y = flipped(y, random)
    out = random.random(len(y)) < HELD_OUT
    rows, held_out = (X[~out], y[~out]), (X[out], y[out])
    found, passes = [], []
    for options in METHODS:
        kept = sm.train(rows, valid=held_out, early_stop=PATIENCE, passes=PASSES, tol=0.0, seed=seed, **options)
        found += [error(kept.model, test), error(last_pass(rows, seed=seed, **options), test)]
        passes.append(kept.run_end["pass"])
    best = sm.train(rows, valid=held_out, C=COSTS, seed=seed)
    return [*found, error(best.model, test), *passes]


def main() -> None:
    """Print a table of means over the seeds, and their standard errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--work", default=WORK, help="where the sets are kept (%(default)s)")
    given = parser.parse_args()
    names = ["sdca: kept", "last pass", "diagonal: kept", "last pass", "best C", "sdca kept pass", "diagonal kept"]
    print(f"{'':<10}", *(f"{name:>16}" for name in names))
    for name in ("a9a", "mushrooms"):
        X, y, *test = load(name, make(name, given.data, given.work))
        found = np.array([compare(X, y, test, seed) for seed in range(SEEDS)])
        mean, spread = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(SEEDS)
        cells = [f"{m:.4f} +- {s:.4f}" for m, s in zip(mean[:5], spread[:5], strict=True)]
        print(f"{name:<10}", *(f"{cell:>16}" for cell in cells), *(f"{passes:>16.1f}" for passes in mean[5:]))


if __name__ == "__main__":
    main()
