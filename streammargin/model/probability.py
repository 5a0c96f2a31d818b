"""Probabilities of classes from scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from streammargin.losses import losses_with
from streammargin.losses.base import has

METHOD = "log_likelihood"  # the method of a loss whose scores give probabilities, of a binary problem each
OF_ALL = "log_likelihoods"  # the same of a loss of all scores of a row


def of_labels(loss: Any, scores: np.ndarray) -> np.ndarray:
    """Probabilities (m, outputs) that labels are 1, from scores (m, outputs), each by itself."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(loss.log_likelihood(-scores) - loss.log_likelihood(scores)))


def probabilities(loss: Any, scores: np.ndarray) -> np.ndarray:
    """Probabilities (m, k) of k classes from scores (m, 1) of two classes or (m, k) of several; rows sum to 1.

    For several classes trained one against the rest, each probability is that of the class's own score, divided by the
    row's sum. The division is done in logarithms, as all probabilities of a row may underflow.
    """
    if has(loss, OF_ALL):
        return np.exp(loss.log_likelihoods(scores))
    found = loss.log_likelihood(np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores)
    found = np.exp(found - found.max(axis=1, keepdims=True))
    return found / found.sum(axis=1, keepdims=True)


def able() -> str:
    """The losses whose scores give probabilities, for messages."""
    return " or ".join(f"`loss={name}`" for name in losses_with([METHOD]))
