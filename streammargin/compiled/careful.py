"""What rounding may have done to sums and losses, for certificates (solvers/proof/rounding.py)."""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

LARGEST = float(np.finfo(np.float64).max)


@register_jitable
def carried_sum(total, carry, term):
    """total + term and what rounding took from it, `carry` being what it took before (Kahan 1965)."""
    wanted = term - carry
    new = total + wanted
    lost = (new - total) - wanted
    return new, lost if np.isfinite(lost) else 0.0


@register_jitable
def margin_rounding(entries, size, blur):
    """How far rounding may have moved x.w: a row of so many entries and this norm, blur = eps ||w||_2.

    m u ||x|| ||w|| at worst, u = eps / 2, and 4 sqrt(m) u ||x|| ||w|| but for one row in 3,000 (Higham and Mary 2019,
    A new approach to probabilistic rounding error analysis, Theorem 2.4); that all rows go the same way pays for those.
    """
    terms = entries + 2.0
    # the norm of a row at the end of the range may lie beyond it, while its entries and scores do not
    return 0.5 * min(terms, 4.0 * np.sqrt(terms)) * (min(size, LARGEST) * blur) if blur > 0.0 else 0.0


@register_jitable
def loss_rounding(loss, u, rounding, cap, value):
    """How far above `value` = cap phi(u) the loss may lie within rounding of u: at an end, as phi is convex."""
    if not rounding > 0.0:
        return 0.0
    return max(loss.primal(u - rounding, cap), loss.primal(u + rounding, cap)) - value
