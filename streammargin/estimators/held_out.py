"""The rows that `fit` holds out for early stopping."""

from __future__ import annotations

import numpy as np

from streammargin.errors import UsageError
from streammargin.kinds import Number

PART = Number("a number between 0 and 1", lambda value: 0.0 < value < 1.0)


def held_out(y: np.ndarray, sample_weight: np.ndarray | None, fraction: object, seed: int, classes: bool) -> np.ndarray:
    """Which rows are held out (n,) bool: this fraction of each class, or of all rows of a regression; y (n,), or
    (n, outputs) without classes.

    Rows of weight 0 are absent, and are never drawn. At least one row of each class is left to train on. UsageError
    if `fraction` is not between 0 and 1, or so small that no row is held out.
    """
    part = PART.number("validation_fraction", fraction)
    random, chosen = np.random.default_rng(seed), np.zeros(len(y), bool)
    present = np.ones(len(y), bool) if sample_weight is None else sample_weight > 0.0
    for label in np.unique(y[present]) if classes else [None]:
        rows = np.flatnonzero(present & (y == label) if classes else present)
        many = min(round(part * rows.size), rows.size - 1)
        chosen[random.permutation(rows)[: max(0, many)]] = True
    if not chosen.any():
        raise UsageError(
            f"validation_fraction={part:g} of {len(y)} rows holds out none, but `early_stop` needs such rows; raise "
            "it, or leave `early_stop` out"
        )
    return chosen
