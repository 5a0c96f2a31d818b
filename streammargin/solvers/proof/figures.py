"""Exact figures of one problem, and relative gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streammargin.errors import out_of_range


@dataclass
class Figures:
    """Proven figures of one problem, for the certified weights.

    Rounding is bounded on the safe side (rounding.py): dual and margin_lower are rounded down, margin_upper and the gap
    up.

    residual: for interpolation, the largest violation (|x.w - y| - epsilon)_+; the gap is None unless it is 0.
    """

    primal: float
    dual: float
    gap: float | None
    margin_lower: float | None
    margin_upper: float | None
    margin_gap: float | None
    mistakes: int
    residual: float | None = None


def relative_gap(primal: float, dual: float, rounding: float = 0.0) -> float:
    """(P + rounding - D) / max(|P|, |D|), 0 when both are 0.

    D is a bound, its own rounding included: D > P + rounding is a bug, and raises ArithmeticError. DataError if one
    of them is nan or overflowed.
    """
    if math.isnan(primal) or math.isnan(dual) or dual == math.inf:
        raise out_of_range()
    if primal == math.inf or dual == -math.inf:
        return math.inf
    if dual > primal + rounding:
        raise ArithmeticError(f"the duality gap is negative: primal {primal:.17g} is below dual {dual:.17g}")
    size = max(abs(primal), abs(dual))
    return (primal + rounding - dual) / size if size > 0.0 else 0.0


def relative_margin_gap(lower: float, upper: float) -> float:
    """(upper - lower) / upper; inf while no upper bound is known. Errors as in `relative_gap`."""
    if math.isnan(lower) or math.isnan(upper) or lower == math.inf:
        raise out_of_range()
    if not math.isfinite(upper) or upper <= 0.0:
        return math.inf
    if lower > upper:
        raise ArithmeticError(f"the margin interval is empty: [{lower:.17g}, {upper:.17g}]")
    return (upper - lower) / upper
