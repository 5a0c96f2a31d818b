"""The one function that judges the weights of all sides, in float64, whatever they were computed in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

CHUNK = 1 << 14  # rows


def _scores(X: Any, W: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    for start in range(0, X.shape[0], CHUNK):
        part = X[start : start + CHUNK]
        yield start, np.asarray(part.astype(np.float64) @ W.T)


def signs(y: np.ndarray, columns: int) -> np.ndarray:
    """Labels as -1 and 1, (n, columns): one column as it is, several with each class against the rest."""
    return y[:, None] if columns == 1 else np.where(y[:, None] == np.arange(columns), 1, -1)


def objective(X: Any, y: np.ndarray, W: np.ndarray, C: float, loss: str) -> float:
    """Sum over the rows w of W (k, d) of 1/2 ||w||^2 + C sum_i phi(y_i x_i.w)."""
    total = 0.0
    for start, scores in _scores(X, W):
        margins = signs(y[start : start + CHUNK], len(W)) * scores
        short = np.maximum(0.0, 1.0 - margins)
        total += float({"hinge": short, "squared_hinge": short**2}[loss].sum() if loss != "logistic"
                       else np.logaddexp(0.0, -margins).sum())  # fmt: skip
    return 0.5 * float(np.sum(W**2)) + C * total


def error(X: Any, y: np.ndarray, W: np.ndarray) -> float:
    """Share of the rows that W (k, d) gives another label."""
    wrong = 0
    for start, scores in _scores(X, W):
        labels = np.where(scores[:, 0] > 0.0, 1, -1) if len(W) == 1 else np.argmax(scores, axis=1)
        wrong += int(np.count_nonzero(labels != y[start : start + CHUNK]))
    return wrong / X.shape[0]
