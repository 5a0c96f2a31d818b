"""A bound on the sum of the duals, from the margins of all rows: its multiplier, and what it does to duals and losses.

To maximise: sum_i (dual_i(a_i) - a_i u_i - L/2 (a_i - centre_i)^2) subject to sum_i |a_i| <= budget. The solution is
the steps from margins u_i + e (of numbers, the steps of `lifted` losses), with the smallest e >= 0 for which they fit.
For the hinge this is the projection of the Pdprox paper (Lemma 13). With L = TINY_CURVATURE the losses that count are
the largest ones (eq. (19)).
"""

from __future__ import annotations

import numpy as np

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.careful import carried_sum, loss_rounding
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import SampleBlock
from streammargin.losses.base import lifted, margin_shift

WHOLE_BUDGET_SHARE = 1.0 - 1e-15  # share of the budget that counts as all of it
MOST_MULTIPLIER = 1e300  # no multiplier is beyond it
TINY_CURVATURE = 1e-200  # an L for the best duals of the margins; losses take L = 0 for a row of norm 0


@kernel
def step_duals(loss, labels, k, margins, centres, L, e, out):
    """out (n,) = the steps of problem k from these margins (n,) with multiplier e; it may be one of the inputs."""
    above, shift = lifted(loss, e), margin_shift(loss, e)
    for row in range(margins.size):
        cap = labels.cap(k, row)
        out[row] = above.step(centres[row], margins[row] + shift, L, cap) if cap > 0.0 else 0.0


@kernel(wide_sums=True)
def sum_duals(loss, labels, k, margins, centres, L, e, reach):
    """The sum of these steps, each divided by the entry of `reach` for its sign; centres (n,), or (0,): all 0."""
    above, shift = lifted(loss, e), margin_shift(loss, e)
    up, down = reach
    total = 0.0
    for row in range(margins.size):
        cap = labels.cap(k, row)
        if cap > 0.0:
            centre = centres[row] if centres.size > 0 else 0.0
            a = above.step(centre, margins[row] + shift, L, cap)
            total += a / up if a > 0.0 else -a / down
    return total


@kernel
def multiplier(loss, labels, k, margins, centres, L, budget, reach):
    """The smallest e >= 0 with a sum of at most `budget`, up to rounding: secants and halves by turns."""
    low, high, above = 0.0, 1.0, sum_duals(loss, labels, k, margins, centres, L, 0.0, reach)
    if not above > budget:
        return 0.0
    below = sum_duals(loss, labels, k, margins, centres, L, high, reach)
    while below > budget and high < MOST_MULTIPLIER:
        low, above, high = high, below, 2.0 * high
        below = sum_duals(loss, labels, k, margins, centres, L, high, reach)
    halve = False
    while below < WHOLE_BUDGET_SHARE * budget:
        e = low + (above - budget) / (above - below) * (high - low)
        if halve or not low < e < high:
            e = low + 0.5 * (high - low)
            if not low < e < high:
                break
        halve = not halve
        found = sum_duals(loss, labels, k, margins, centres, L, e, reach)
        if found > budget:
            low, above = e, found
        else:
            high, below = e, found
    return high


@kernel
def sum_losses(loss, labels, k, margins, e, off):
    """(sum_i cap_i phi(u_i) with multiplier e, its largest increase if each u_i is off by at most `off`)."""
    above, shift = lifted(loss, e), margin_shift(loss, e)
    total, carry, slipped = 0.0, 0.0, 0.0
    for row in range(margins.size):
        cap = labels.cap(k, row)
        if cap > 0.0:
            u = margins[row] + shift
            value = above.primal(u, cap)
            total, carry = carried_sum(total, carry, value)
            slipped += loss_rounding(above, u, off, cap, value)
    return total, slipped


def warm(sample: SampleBlock) -> None:
    pair, reach = np.zeros(2), (1.0, 1.0)
    for loss in sample.losses("step"):
        multiplier(loss, sample.labels, 0, pair, pair, 1.0, 1.0, reach)
        step_duals(loss, sample.labels, 0, pair, pair, 1.0, 0.0, pair.copy())
        sum_losses(loss, sample.labels, 0, pair, 0.0, 0.0)
