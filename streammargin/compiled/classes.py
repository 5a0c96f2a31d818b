"""Rows whose class is not the one with the largest score."""

from __future__ import annotations

import numpy as np

from streammargin.compiled.overloads import along
from streammargin.rows.labels import Labels, RowNumbers


@along
def own_is_largest(labels: Labels, first: int, row: int, z: np.ndarray) -> bool:
    """Whether the first of the largest scores, of the lines `first`, first + 1, ..., is that of the row's own class."""
    best = 0
    for g in range(z.size):
        if z[g] > z[best]:
            best = g
    return labels.own(first + best, row)


@along
def count_confused(
    numbers: RowNumbers, labels: Labels, rows: np.ndarray | range, scores: np.ndarray, confused: np.ndarray
) -> None:
    """Count, per value of C, the present ones of these rows (m,) that are confused, by scores (K, >= m)."""
    per_trial = scores.shape[0] // confused.size
    for r, i in enumerate(rows):
        row = numbers.row(i)
        for trial in range(confused.size):
            first = trial * per_trial
            if labels.present(first, row):
                confused[trial] += not own_is_largest(labels, first, row, scores[first : first + per_trial, r])
