"""Exact figures of one binary problem, and the gaps between what was reached and what is proven."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streammargin.errors import out_of_range


@dataclass
class Figures:
    """Proven figures of one binary problem, for the weights that the solver calls certified.

    Dual and margin_lower lie below, margin_upper above what exact arithmetic would find, by what rounding may have
    moved their sums (rounding.py); so does the gap, for which the primal is taken at its worst.

    residual, of targets only: the largest violation (|x.w - y| - epsilon)_+; the gap is None unless it is 0.
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
    """(P - D) / max(|P|, |D|), 0 when both are 0, for the largest P that rounding leaves open.

    D is a bound, its own rounding included: one that lies above all those P is a bug, and raises ArithmeticError.
    DataError where one of them is no number.
    """
    if math.isnan(primal) or math.isnan(dual) or dual == math.inf:
        raise out_of_range()
    if primal == math.inf or dual == -math.inf:
        return math.inf
    if dual > primal + rounding:
        raise ArithmeticError(f"the duality gap is negative: primal {primal!r} lies below dual {dual!r}")
    size = max(abs(primal), abs(dual))
    return (primal + rounding - dual) / size if size > 0.0 else 0.0


def relative_margin_gap(lower: float, upper: float) -> float:
    """(upper - lower) / upper; inf while no upper bound is known. Errors as above."""
    if math.isnan(lower) or math.isnan(upper) or lower == math.inf:
        raise out_of_range()
    if not math.isfinite(upper) or upper <= 0.0:
        return math.inf
    if lower > upper:
        raise ArithmeticError(f"the margin interval is empty: [{lower!r}, {upper!r}]")
    return (upper - lower) / upper
