"""What a loss says of a chunk of rows: its value, duals and second derivatives, called by address.

A chunk's quantities are columns, so that losses are vectorised over rows. A loss of all scores of a row has a line of
columns for each score. Its second derivatives by the scores are diag(straight) - crossed crossed^T.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import typeof
from numba.extending import register_jitable

from streammargin.compiled.by_address import COLUMN_TYPE, COLUMNS_TYPE, PLANES_TYPE, SIZE, BoundLoss, by_address
from streammargin.compiled.careful import loss_rounding
from streammargin.compiled.overloads import REORDERED, along
from streammargin.losses.base import (
    attained,
    coupled,
    distance_of,
    gap_of,
    largest_bend,
    lifted,
    part_of,
    share_of,
    slope_of,
)

# columns, (lines, CHUNK_ROWS) each. EPSILONS: of the rows, by which a loss is wider. OFF: bound on the rounding error
# of the margin. KEPT_DUALS: those that are stored. DUAL_SHARES: what the dual objective gets; of a coupled loss in its
# first line. EXTRA: `StepAsked.extra`
CAPS, MARGINS, SIGNS, TARGETS, EPSILONS, CENTRES, SIZES, OFF, A, KEPT_DUALS, DUAL_SHARES, EXTRA, FIELDS = range(13)
APART = 8  # numbers between two columns: at a distance of 4 KiB they would share few places of a cache
# sums over a chunk: of the losses, their largest increase by rounding, and their gaps; the smallest slack of a row, and
# a lower bound on it under rounding: of frozen duals alone
VALUE, SLIPPED, CHUNK_GAPS, SLACK, SURELY, SAID = range(6)
SURE = 1e-12  # a row's gap, relative to its terms, below which it is one of 0 that was rounded


class StepAsked(NamedTuple):
    """What is wanted of the step a_i = argmax over feasible a of dual_i(a) - a u_i - L_i/2 (a - centre_i)^2.

    L_i = L + softness / cap_i.

    `multiplier`               that of the bound on the duals' sum (largest.py).
    `crisp`                    a centre that is nan is a step from `midway` times the cap, with this softness.
    `twice`                    A gets a second step, from the first one.
    `duals`, `slopes`, `gaps`  whether duals, second derivatives and gaps are wanted.
    `extra`                    whether EXTRA is: distances from the curved part of the loss, or of a coupled loss
                               `part_of`.
    `middle`                   whether a coupled loss has its own centres.
    """

    multiplier: float
    L: float
    softness: float
    crisp: float
    midway: float
    twice: bool
    duals: bool
    slopes: bool
    gaps: bool
    extra: bool
    middle: bool


NOTHING = StepAsked(0.0, 0.0, 0.0, 0.0, 0.0, False, False, False, False, False, False)
SIGNATURE = (typeof(NOTHING), PLANES_TYPE, COLUMNS_TYPE, SIZE, COLUMN_TYPE)


def judge_of(loss: Any) -> BoundLoss:
    """What kernels call for this loss: (asked, columns, slopes, size, said).

    columns (FIELDS, lines, CHUNK_ROWS), of which `size` rows count; slopes (2 lines, CHUNK_ROWS) out, straight and
    crossed of each line; said (SAID,) out.
    """
    return (all_scores if coupled(loss) else single_margins).of(loss)


def frozen_judge_of(loss: Any) -> BoundLoss:
    """The same for duals that stay as they are, in CENTRES.

    KEPT_DUALS are others if the row is not settled: of a single margin the one that a step of curvature L leads to.
    """
    return (frozen_scores if coupled(loss) else frozen_margins).of(loss)


@by_address(*SIGNATURE)
def single_margins(
    loss: Any, asked: StepAsked, columns: np.ndarray, slopes: np.ndarray, size: int, said: np.ndarray
) -> None:
    """The terms of a loss of a single margin."""
    raised = lifted(loss, asked.multiplier)
    said[VALUE], said[SLIPPED], said[CHUNK_GAPS] = _single_terms(loss, raised, asked, columns, slopes[0], size)
    if asked.extra:
        margins, away = columns[MARGINS, 0], columns[EXTRA, 0]
        for r in range(size):
            away[r] = distance_of(loss, margins[r])


@register_jitable(fastmath=REORDERED)
def _single_terms(plain, loss, asked, columns, slopes, size):
    """The sums over a chunk, and its duals and slopes.

    loss: makes the steps, and is what margins cost; plain: the same without a multiplier, whose dual counts.
    """
    caps, margins, centres, off = columns[CAPS, 0], columns[MARGINS, 0], columns[CENTRES, 0], columns[OFF, 0]
    a, kept, shares = columns[A, 0], columns[KEPT_DUALS, 0], columns[DUAL_SHARES, 0]
    bend, value, slipped, gaps = largest_bend(loss), 0.0, 0.0, 0.0
    curvature, softness = asked.L, asked.softness
    if bend < np.inf and (not asked.duals or (softness == 0.0 and curvature == 0.0)):
        # a separate loop: the gaps are 0, and the loss is evaluated at once
        for r in range(size):
            a[r], primal, share, slopes[r] = attained(loss, margins[r], caps[r])
            shares[r], kept[r] = share_of(plain, loss, a[r], caps[r], share), a[r]
            value += primal
            slipped += off[r] * (abs(a[r]) + 0.5 * bend * caps[r] * off[r])
        return value, slipped, gaps
    for r in range(size):
        primal, slip = value_and_slip(loss, bend, margins[r], off[r], caps[r])
        value += primal
        slipped += slip
    if not asked.duals:
        return value, slipped, gaps
    for r in range(size):
        cap, u, new = caps[r], margins[r], centres[r]
        L = curvature + softness / cap
        if np.isnan(new):
            new = loss.step(asked.midway * cap, u, asked.crisp / cap, cap)
            centres[r] = new
        if curvature < np.inf:
            new = loss.step(new, u, L, cap)
        kept[r] = new
        if asked.twice:
            new = loss.step(new, u, L, cap)
        a[r], shares[r], slopes[r] = new, plain.dual(new, cap), slope_of(loss, new, L, cap)
    if asked.gaps:
        for r in range(size):
            gaps += gap_of(loss, a[r], margins[r], caps[r])
    return value, slipped, gaps


@along
def value_and_slip(loss: Any, bend: float, u: float, off: float, cap: float) -> tuple[float, float]:
    """(cap phi(u), its largest increase within `off` of u); bend: bound on phi''."""
    if bend < np.inf:
        alpha, value, _share, _slope = attained(loss, u, cap)
        return value, off * (abs(alpha) + 0.5 * bend * cap * off)
    value = loss.primal(u, cap)
    return value, loss_rounding(loss, u, off, cap, value)


@by_address(*SIGNATURE)
def all_scores(
    loss: Any, asked: StepAsked, columns: np.ndarray, slopes: np.ndarray, size: int, said: np.ndarray
) -> None:
    """The terms of a loss of all scores of a row."""
    value, slipped, gaps = 0.0, 0.0, 0.0
    lines = columns.shape[1]
    margins, signs, off, middle, a = np.empty(lines), np.empty(lines), np.empty(lines), np.empty(lines), np.empty(lines)
    straight, crossed, first = np.empty(lines), np.empty(lines), np.empty(lines)
    for r in range(size):
        cap = columns[CAPS, 0, r]
        for g in range(lines):
            margins[g], signs[g], off[g] = columns[MARGINS, g, r], columns[SIGNS, g, r], columns[OFF, g, r]
            middle[g] = columns[CENTRES, g, r]
        if asked.middle:
            loss.coupled_middle(signs, cap, middle)
        L = asked.L + asked.softness / cap
        primal, share, slip = loss.coupled_step(margins, signs, off, middle, cap, L, a)
        value += primal
        slipped += slip
        for g in range(lines):
            first[g] = a[g]
        if asked.twice:
            primal, share, slip = loss.coupled_step(margins, signs, off, first, cap, L, a)
        met = 0.0
        for g in range(lines):
            columns[A, g, r], columns[KEPT_DUALS, g, r], columns[CENTRES, g, r] = a[g], first[g], middle[g]
            met += a[g] * margins[g]
        columns[DUAL_SHARES, 0, r] = share
        if L > 0.0:
            gaps += max(0.0, primal - share + met)
        if asked.slopes:
            loss.coupled_slopes(margins, signs, middle, cap, L, a, straight, crossed)
            for g in range(lines):
                slopes[g, r], slopes[lines + g, r] = straight[g], crossed[g]
        if asked.extra:
            for g in range(lines):
                p, own = a[g] / cap, signs[g] > 0.0
                columns[EXTRA, g, r] = cap * part_of(loss, 1.0 - p if own else p, own)
    said[VALUE], said[SLIPPED], said[CHUNK_GAPS] = value, slipped, gaps


@by_address(*SIGNATURE)
def frozen_margins(
    loss: Any, asked: StepAsked, columns: np.ndarray, slopes: np.ndarray, size: int, said: np.ndarray
) -> None:
    """The terms of a loss of a single margin and of its duals; a row with an infinite cap has no value."""
    said[CHUNK_GAPS] = 0.0
    said[VALUE], said[SLIPPED], said[SLACK], said[SURELY] = _frozen_values(loss, columns, size)
    caps, margins, epsilons = columns[CAPS, 0], columns[MARGINS, 0], columns[EPSILONS, 0]
    centres, a, kept, shares = columns[CENTRES, 0], columns[A, 0], columns[KEPT_DUALS, 0], columns[DUAL_SHARES, 0]
    for r in range(size if asked.duals else 0):
        own, cap = lifted(loss, epsilons[r]), caps[r]
        a[r] = kept[r] = own.feasible(centres[r], cap)
        shares[r] = own.dual(a[r], cap) if a[r] != 0.0 else 0.0
        if np.inf > asked.L:
            kept[r] = own.step(a[r], margins[r], asked.L, cap)


@register_jitable(fastmath=REORDERED)
def _frozen_values(loss, columns, size):
    caps, margins, epsilons, off = columns[CAPS, 0], columns[MARGINS, 0], columns[EPSILONS, 0], columns[OFF, 0]
    bend, value, slipped, least, surely = largest_bend(loss), 0.0, 0.0, np.inf, np.inf
    for r in range(size):
        own, u, cap = lifted(loss, epsilons[r]), margins[r], caps[r]
        least, surely = min(least, own.slack(u)), min(surely, own.slack(u - off[r]))
        if cap < np.inf:
            primal, slip = value_and_slip(own, bend, u, off[r], cap)
            value += primal
            slipped += slip
    return value, slipped, least, surely


@by_address(*SIGNATURE)
def frozen_scores(
    loss: Any, asked: StepAsked, columns: np.ndarray, slopes: np.ndarray, size: int, said: np.ndarray
) -> None:
    """The terms of a loss of all scores of a row, and of its duals."""
    value, slipped, lines = 0.0, 0.0, columns.shape[1]
    margins, signs, off, old, a = np.empty(lines), np.empty(lines), np.empty(lines), np.empty(lines), np.empty(lines)
    for r in range(size):
        cap, met = columns[CAPS, 0, r], 0.0
        for g in range(lines):
            margins[g], signs[g], off[g] = columns[MARGINS, g, r], columns[SIGNS, g, r], columns[OFF, g, r]
            old[g] = columns[CENTRES, g, r]
        primal, share, slip = loss.coupled_step(margins, signs, off, old, cap, np.inf, a)
        value += primal
        slipped += slip
        for g in range(lines):
            met += a[g] * margins[g]
        settled = primal - share + met <= SURE * (primal + abs(share) + abs(met))
        for g in range(lines):
            columns[A, g, r], columns[KEPT_DUALS, g, r] = a[g], old[g] if settled else -1.0 - abs(old[g])
        columns[DUAL_SHARES, 0, r] = share
    said[VALUE], said[SLIPPED], said[CHUNK_GAPS], said[SLACK], said[SURELY] = value, slipped, 0.0, np.inf, np.inf
