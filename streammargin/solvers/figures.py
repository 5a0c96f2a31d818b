"""Exact figures of one binary problem, and the gaps between what was reached and what is proven."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from streammargin.errors import out_of_range

NEGLIGIBLE = 1e-10  # a gap this far below 0, relative to the figures themselves, is 0
ROUNDING = 1e-12  # of sums, relative to the size of their summands


@dataclass
class Figures:
    """Exact figures of one binary problem, for the weights in `w` (frozen while they were summed).

    residual, of targets only: the largest violation (|x.w - y| - epsilon)_+; the gap is None unless it is 0.
    """

    w: np.ndarray
    primal: float
    dual: float
    gap: float | None
    margin_lower: float | None
    margin_upper: float | None
    margin_gap: float | None
    mistakes: int
    residual: float | None = None


def relative_gap(primal: float, dual: float, summed: float = 0.0) -> float:
    """(P - D) / max(|P|, |D|), 0 when both are 0; a negative one beyond rounding is a bug and raises.

    summed: the size of what P and D were summed from. Where both are small beside it, D may come to lie above P by the
    rounding of the sums; the gap is then as large as that rounding can be. DataError where one of them is no number.
    """
    if math.isnan(primal) or math.isnan(dual) or dual == math.inf:
        raise out_of_range()
    if primal == math.inf or dual == -math.inf:
        return math.inf
    size = max(abs(primal), abs(dual))
    gap = (primal - dual) / size if size > 0.0 else 0.0
    if gap < -NEGLIGIBLE:
        rounding = ROUNDING * summed
        if dual - primal > rounding:
            raise ArithmeticError(f"the duality gap is negative: primal {primal!r} lies below dual {dual!r}")
        return rounding / size
    return max(gap, 0.0)


def relative_margin_gap(lower: float, upper: float) -> float:
    """(upper - lower) / upper; inf while no upper bound is known. DataError where one of them is no number."""
    if math.isnan(lower) or math.isnan(upper) or lower == math.inf:
        raise out_of_range()
    if not math.isfinite(upper) or upper <= 0.0:
        return math.inf
    gap = (upper - lower) / upper
    if gap < -NEGLIGIBLE:
        raise ArithmeticError(f"the margin interval is empty: [{lower!r}, {upper!r}]")
    return max(gap, 0.0)
