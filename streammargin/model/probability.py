"""Probabilities of classes from scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from streammargin.losses import losses_with

METHOD = "log_likelihood"  # what a loss has whose scores tell probabilities


def probabilities(loss: Any, scores: np.ndarray) -> np.ndarray:
    """Those (m, k) of k classes by scores (m, 1) of two classes or (m, k) of several; each row's sum is 1.

    Of several classes each has the probability of its own score, divided by the sum of the row's. Logarithms are
    divided, as all of a row may be too small for numbers.
    """
    found = loss.log_likelihood(np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores)
    found = np.exp(found - found.max(axis=1, keepdims=True))
    return found / found.sum(axis=1, keepdims=True)


def able() -> str:
    """The losses whose scores tell probabilities, for messages."""
    return " or ".join(f"`loss={name}`" for name in losses_with([METHOD]))
