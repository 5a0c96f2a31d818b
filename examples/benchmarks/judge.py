"""Compares the weights of all sides, in float64 even if they were computed in float32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

CHUNK = 1 << 14  # rows


def _scores(X: Any, W: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    for start in range(0, X.shape[0], CHUNK):
        part = X[start : start + CHUNK]
        yield start, np.asarray(part.astype(np.float64) @ W.T)


def signs(y: np.ndarray, columns: int) -> np.ndarray:
    """Labels as -1 and 1, (n, columns): one column as it is, several with each class against the rest."""
    return y[:, None] if columns == 1 else np.where(y[:, None] == np.arange(columns), 1, -1)


def total_loss(X: Any, y: np.ndarray, W: np.ndarray, loss: str) -> float:
    """Sum over the rows w of W (k, d) of sum_i phi(y_i x_i.w); the squared error is 1/2 (y_i - x_i.w)^2."""
    total = 0.0
    for start, scores in _scores(X, W):
        margins = signs(y[start : start + CHUNK], len(W)) * scores
        total += float(_phi(loss, margins).sum())
    return total


def _phi(loss: str, margins: np.ndarray) -> np.ndarray:
    if loss == "logistic":
        return np.logaddexp(0.0, -margins)
    short = 1.0 - margins
    if loss == "squared_error":
        return 0.5 * short**2
    return {"hinge": 1.0, "squared_hinge": np.maximum(0.0, short)}[loss] * np.maximum(0.0, short)


def objective(X: Any, y: np.ndarray, W: np.ndarray, C: float, loss: str) -> float:
    """Sum over the rows w of W (k, d) of 1/2 ||w||^2 + C sum_i phi(y_i x_i.w)."""
    return 0.5 * float(np.sum(W**2)) + C * total_loss(X, y, W, loss)


class Penalised(NamedTuple):
    """A loss beside another penalty than the half square: l1, elasticnet (half of each) or group.

    groups (d,): which columns belong together, from 0.
    """

    loss: str
    penalty: str
    groups: np.ndarray | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `train`."""
        from streammargin.penalties import Group

        return {"loss": self.loss, "penalty": self.penalty if self.groups is None else Group(self.groups)}

    def objective(self, X: Any, y: np.ndarray, W: np.ndarray, C: float) -> float:
        """R(w) + C sum_i phi(y_i x_i.w) of W (1, d)."""
        return self.value(W[0]) + C * total_loss(X, y, W, self.loss)

    def value(self, w: np.ndarray) -> float:
        """R(w)."""
        if self.penalty == "group":
            assert self.groups is not None
            return float(np.sqrt(np.bincount(self.groups) * np.bincount(self.groups, w**2)).sum())
        size = float(np.abs(w).sum())
        return size if self.penalty == "l1" else 0.5 * size + 0.25 * float(w @ w)


def error(X: Any, y: np.ndarray, W: np.ndarray) -> float:
    """Share of the rows that W (k, d) gives another label."""
    wrong = 0
    for start, scores in _scores(X, W):
        labels = np.where(scores[:, 0] > 0.0, 1, -1) if len(W) == 1 else np.argmax(scores, axis=1)
        wrong += int(np.count_nonzero(labels != y[start : start + CHUNK]))
    return wrong / X.shape[0]
