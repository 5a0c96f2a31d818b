"""Choices in losses: one text for numbers and for arrays of NumPy, and branches in kernels (compiled/overloads.py).

Both values of a choice are computed, so neither may divide by an exact 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def where(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` where the condition holds, else `no`: an entry each of arrays, or numbers."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, yes, no)
    return yes if condition else no


def every(condition: Any) -> Any:
    """Whether a condition holds: of arrays, in all entries."""
    return condition.all() if isinstance(condition, np.ndarray) else condition


def within(x: Any, low: Any, high: Any) -> Any:
    """The number nearest to x in low .. high."""
    if isinstance(x, np.ndarray) or isinstance(high, np.ndarray):
        return np.minimum(np.maximum(x, low), high)
    return min(max(x, low), high)
