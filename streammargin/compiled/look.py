"""For frozen weights, block by block: the exact sums that certify them, and a step of the duals.

Rows are processed in chunks that stay in the cache. First all scores are computed. Then the quantities of a chunk's
rows are stored in columns, so that losses are vectorised over rows. The combinations of rows are added last.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.careful import carried_sum, loss_rounding, margin_rounding
from streammargin.compiled.classes import count_confused
from streammargin.compiled.coupled import PARTS, Columns, add_crossed, add_own, coupled_steps
from streammargin.compiled.jit import kernel
from streammargin.compiled.overloads import REORDERED, along
from streammargin.compiled.row_norms import row_norm
from streammargin.compiled.samples import ONE, Sample, counts, weights
from streammargin.losses.base import (
    attained,
    has,
    largest_bend,
    lifted,
    margin_shift,
    reached,
    share_of,
)
from streammargin.rows.blocks import GRAM_ROWS, Block
from streammargin.rows.labels import Labels, RowNumbers

# columns of the sums of the weights, and of those of the duals, as in certificate.py; compensation terms are last.
# GAP: sum of the losses' gaps; ADDED: number of additions in an entry of `pull`, without those within a chunk
LOSSES, MISTAKES, ROUNDING, GAP, LOSS_CARRY, LOSS_SUMS = range(6)
DUAL, ALPHA, SUMMED, PULLED, MOVED, ADDED, CARRY = range(7)
DUAL_SUMS = CARRY + 2
LOSS_CARRIED, DUAL_CARRIED = ((LOSSES, LOSS_CARRY),), ((DUAL, CARRY), (ALPHA, CARRY + 1))
CHUNK = 512  # most rows of a chunk
VALUES = 1 << 16  # most values of a chunk, roughly: half a megabyte
NONE, NOWHERE, NO_COLUMNS = np.zeros((1, 0)), np.zeros((1, 1, 0)), np.zeros((1, 0), np.int64)
ALL = -1  # in place of a side


class Point(NamedTuple):
    """Weights w (V, K, d+1): the duals use the margins of the first; for the others only figures are computed.

    multiplier (V, K): of the bound on the duals' sum. It is added to the margins of classes, and changes the loss of
    numbers (`lifted`). blur (V, K): eps times the norms of the weights.
    """

    w: np.ndarray
    multiplier: np.ndarray
    blur: np.ndarray


class Prox(NamedTuple):
    """a_i = argmax over feasible a of dual_i(a) - a u_i - L_i/2 (a - centre_i)^2, L_i = curvature + softness / cap_i.

    curvatures (K,), inf: duals that stay; softness (K,); both 0: the duals that are best for the margins as they are
    centres    (K, n), or (K, 0): `midway` times the caps; alpha (K, n) out, may be the centres, or (K, 0): not wanted;
    twice      alpha makes the step, and what is pulled extrapolates from there (the Pdprox paper's Algorithm 1);
    total      (K, n), or (K, 0): the duals are added to it;
    steepest   if above 0, the slope of every row is this times its cap
    """

    centres: np.ndarray
    alpha: np.ndarray
    curvatures: np.ndarray
    softness: np.ndarray
    twice: bool = False
    total: np.ndarray = NONE
    steepest: float = 0.0
    midway: float = 0.0


class Found(NamedTuple):
    """The sums that `look` adds to.

    losses (V, K, LOSS_SUMS) of all weights. duals (K, S, DUAL_SUMS); ALPHA: sum of |a_i|; MOVED: of
    softness / cap_i (alpha_i - centre_i)^2, without softness of these squares alone. pull (K, S, d+1): sum_i a_i x_i.
    With S = 2 the second sums are those of the duals that decrease the constant.
    confused (V, trials): for several classes, rows whose class is not the one with the largest score.
    margins (V, K, n), or (V, K, 0): set to the margins of the rows, without a multiplier. class_sums (K, d+1),
    parts (K, PARTS), or (0, ...): of a coupled loss whose duals add up to 0 over the lines (compiled/coupled.py).
    """

    losses: np.ndarray
    duals: np.ndarray
    pull: np.ndarray
    confused: np.ndarray
    margins: np.ndarray = NOWHERE
    class_sums: np.ndarray = NONE[:0]
    parts: np.ndarray = NONE[:0]


class Curvature(NamedTuple):
    """Second derivatives that `look` adds to: upper triangles of A^T diag(slope_i) A.

    lines    (K, m, m): of the m working columns of each line, with slopes of its own
    crossed  (groups, L (d+1), L (d+1)): of a coupled loss of L lines, sum_i (c_i x x_i) (c_i x x_i)^T, x: Kronecker
             product. It is subtracted from the lines' matrices; (0, 0, 0) for other losses
    columns  (K, m): these columns, ascending, the constant last; (1, 0): all, and m = d+1
    diagonal (K, d+1): out, of all columns; (0, 0): not wanted
    places   (K, d+1): of each column, its place in `columns`, or -1; `look` sets it
    """

    lines: np.ndarray
    crossed: np.ndarray = NOWHERE[:0]
    columns: np.ndarray = NO_COLUMNS
    diagonal: np.ndarray = NONE[:0]
    places: np.ndarray = NO_COLUMNS

    def placed(self, width: int) -> Curvature:
        """The same with `places`, or with no columns if they are all; width: d+1."""
        lines, m = self.columns.shape
        if m in (0, width):
            return self._replace(columns=NO_COLUMNS)
        places = np.full((lines, width), -1)
        places[np.arange(lines)[:, None], self.columns] = np.arange(m)
        return self._replace(places=places)


class Scratch(NamedTuple):
    """Temporary arrays for a chunk, whose rows are numbers within the block.

    columns: (lines, CHUNK) each; lines: rows of weights that a loss couples, or 1. present (CHUNK,): the chunk's rows,
    and their lengths; mine (lines, CHUNK): those that a line has; listed, factors (CHUNK,): rows that are added up.
    scores (V, K, CHUNK), few (GRAM_ROWS, m), part (d+1,).
    """

    columns: Columns
    present: np.ndarray
    lengths: np.ndarray
    mine: np.ndarray
    listed: np.ndarray
    factors: np.ndarray
    scores: np.ndarray
    few: np.ndarray
    part: np.ndarray


def look(
    block: Block, numbers: RowNumbers, labels: Labels, loss: Any, problems: np.ndarray, point: Point, rule: Prox,
    found: Found, H: Curvature | None = None,
) -> None:  # fmt: skip
    """Add the sums of the block's rows at a Point to Found, and update their duals by a Prox rule.

    problems   indices k of the active problems; k belongs to the value of C with index k // (K // trials). A loss that
               couples rows of weights needs all classes of a value of C, in consecutive rows;
    H          is added to, if it is given
    """
    V, K, width = point.w.shape
    single, coupled = (None, loss) if has(loss, "coupled_step") else (loss, None)
    lines = 1 if coupled is None else K // found.confused.shape[1]
    scratch = Scratch(
        Columns(*np.zeros((len(Columns._fields), lines, CHUNK))), np.empty(CHUNK, np.int64), np.empty(CHUNK),
        np.empty((lines, CHUNK), np.int64), np.empty(CHUNK, np.int64), np.empty(CHUNK),
        np.empty((V, K, CHUNK)), np.zeros((GRAM_ROWS, width if H is None else H.lines.shape[2])), np.empty(width),
    )  # fmt: skip
    slopes, H = (None, None) if H is None else (np.empty((2 * lines, CHUNK)), H.placed(width))
    look_block(block, numbers, labels, single, coupled, problems, point, rule, found, H, slopes, scratch)


def sum_losses(
    block: Block, numbers: RowNumbers, labels: Labels, loss: Any, w: np.ndarray, blur: np.ndarray, losses: np.ndarray,
    wrong: np.ndarray,
) -> None:  # fmt: skip
    """Add the losses of the block's rows at w (K, d+1) to losses (K, LOSS_SUMS), and count them in wrong (trials,)."""
    K, none = len(w), np.zeros((1, len(w)))
    look(
        block, numbers, labels, loss, np.arange(K), Point(w[None], none, blur[None]),
        Prox(np.zeros((K, 0)), np.zeros((K, 0)), none[0], none[0], total=np.zeros((K, 0))),
        Found(losses[None], np.zeros((K, 1, DUAL_SUMS)), np.zeros((K, 1, w.shape[1])), wrong[None]),
    )  # fmt: skip


@kernel
def look_block(block, numbers, labels, loss, coupled, problems, point, rule, found, H, slopes, scratch):
    """`look` with its scratch arrays; parts for arguments that are None are not compiled."""
    lines, width = scratch.mine.shape[0], point.w.shape[2]
    stop = 0
    while stop < block.rows():
        # with H chunks are whole: adding rows to it is what costs, and costs as much for one row as for GRAM_ROWS
        m, values, stop = _next_chunk(block, numbers, labels, stop, VALUES if H is None else np.inf, scratch)
        _score_chunk(block, numbers, labels, problems, point.w, found.confused, m, scratch)
        # sum a chunk separately, which rounds less, if d + 1 additions are less work than its rows
        at_once = values >= width
        for at in range(0, problems.size, lines):
            k = problems[at]
            size = _judge_chunk(
                block, numbers, labels, loss, coupled, k, m, point, rule, found, slopes, scratch
            )  # fmt: skip
            for g in range(lines):
                _keep_duals(numbers, k + g, g, size, rule, scratch)
                _pull_rows(block, k + g, g, size, at_once, rule.softness[k + g], found, scratch)
                if coupled is not None and found.class_sums.shape[0] > 0:
                    add_own(
                        block, coupled, g, scratch.mine[g, :size], scratch.columns, scratch.listed, scratch.factors,
                        found.class_sums[k + g], found.parts[k + g],
                    )  # fmt: skip
            if H is not None:
                _bend_chunk(block, coupled, k, size, rule.steepest, H, slopes, scratch)


@register_jitable
def _next_chunk(block, numbers, labels, start, most, scratch):
    """Collect the rows from `start` that have a weight: (their number, their values, where the next chunk starts).

    most: number of values after which a chunk ends
    """
    m, values, stop = 0, 0, start
    while stop < block.rows() and stop - start < CHUNK and values < most:
        if labels.weight(numbers.row(stop)) > 0.0:
            scratch.present[m], scratch.lengths[m] = stop, row_norm(block, stop, 2.0)
            m += 1
            values += block.entries(stop)
        stop += 1
    return m, values, stop


@register_jitable
def _score_chunk(block, numbers, labels, problems, w, confused, m, scratch):
    """Scores of the chunk's m rows by the problems, or by all classes, whose confused rows are counted."""
    present, scores = scratch.present[:m], scratch.scores
    several = confused.shape[1] < w.shape[1]
    for v in range(w.shape[0]):
        for at in range(w.shape[1] if several else problems.size):
            k = at if several else problems[at]
            line = w[v, k]
            for r in range(m):
                block.prefetch_row(present[r] + 2)
                scores[v, k, r] = block.exact_dot(present[r], line)
        if several:
            count_confused(numbers, labels, present, scores[v], confused[v])


@register_jitable
def _judge_chunk(block, numbers, labels, loss, coupled, k, m, point, rule, found, slopes, scratch):
    """Add the losses of problem k at all weights, and take the duals' step at the first; returns the rows it has.

    A coupled loss does it for the lines from k on. The first weights are last: their columns are used afterwards.
    """
    columns, size = scratch.columns, 0
    for v in range(point.w.shape[0] - 1, -1, -1):
        for g in range(scratch.mine.shape[0]):
            scores, shift = scratch.scores[v, k + g, :m], margin_shift(loss, point.multiplier[v, k + g])
            size = _gather(
                block, numbers, labels, k + g, g, v, scores, shift, point.blur[v, k + g], rule, found, scratch
            )  # fmt: skip
        primal, slipped, gap = 0.0, 0.0, 0.0
        curvature, softness = rule.curvatures[k], rule.softness[k]
        if loss is not None:
            above, bends = lifted(loss, point.multiplier[v, k]), None if slopes is None else slopes[0]
            primal, slipped, gap = _single_steps(
                loss, above, curvature, softness, rule.twice, v == 0, columns, size, bends
            )
        if coupled is not None:
            kept = rule.centres.shape[1] > 0
            primal, slipped, gap = coupled_steps(coupled, curvature, softness, kept, rule.twice, columns, size, slopes)
        sums = found.losses[v, k]
        sums[LOSSES], sums[LOSS_CARRY] = carried_sum(sums[LOSSES], sums[LOSS_CARRY], primal)
        sums[ROUNDING] += slipped
        sums[GAP] += gap
    return size


@register_jitable
def _gather(block, numbers, labels, k, g, v, scores, shift, blur, rule, found, scratch):
    """Fill line g of the columns with the rows that problem k has, and count its mistakes; returns their number."""
    c, mine, size, mistakes = scratch.columns, scratch.mine, 0, 0
    for r in range(scores.size):
        i, length = scratch.present[r], scratch.lengths[r]
        row = numbers.row(i)
        cap = labels.cap(k, row)
        margin = labels.margin(k, row, scores[r])
        # always written, and counted if present: faster than a branch
        mine[g, size], c.caps[g, size], c.sizes[g, size], c.margins[g, size] = i, cap, length, margin + shift
        c.signs[g, size], c.targets[g, size] = labels.sign(k, row), labels.target(k, row)
        c.off[g, size] = margin_rounding(block.entries(i) + 1, length, blur)
        if rule.centres.shape[1] > 0:
            c.centres[g, size] = rule.centres[k, row]
        elif rule.midway != 0.0:
            c.centres[g, size] = rule.midway * cap
        if cap > 0.0:
            size += 1
            mistakes += labels.wrong(k, row, margin)
        if found.margins.shape[2] > 0:
            found.margins[v, k, row] = margin
    found.losses[v, k, MISTAKES] += mistakes
    return size


@register_jitable
def _keep_duals(numbers, k, g, size, rule, scratch):
    """Store the duals of the chunk's rows, and add them to the total, if these are wanted."""
    for r in range(size):
        row = numbers.row(scratch.mine[g, r])
        if rule.alpha.shape[1] > 0:
            rule.alpha[k, row] = scratch.columns.kept[g, r]
        if rule.total.shape[1] > 0:
            rule.total[k, row] += scratch.columns.a[g, r]


@register_jitable
def _pull_rows(block, k, g, size, at_once, softness, found, scratch):
    """Add the duals of the chunk's rows to the sums of problem k, and the combination of these rows to its pull."""
    mine, signs, a = scratch.mine[g], scratch.columns.signs[g], scratch.columns.a[g]
    listed, factors, apart, pull = scratch.listed, scratch.factors, scratch.part, found.pull
    for side in range(pull.shape[1]):
        only = side if pull.shape[1] > 1 else ALL
        count = 0
        for r in range(size):
            factor = signs[r] * a[r]
            listed[count], factors[count] = mine[r], factor
            count += factor != 0.0 and (only == ALL or (factor < 0.0) == (only == 1))
        _add_duals(found.duals[k, side], only, softness, scratch.columns, g, size)
        pulls = apart if at_once else pull[k, side]
        if at_once:
            apart[:] = 0.0
        block.add_rows(listed[:count], factors[:count], pulls)
        for j in range(apart.size if at_once else 0):
            pull[k, side, j] += apart[j]
        found.duals[k, side, ADDED] += 1 if at_once else count


@register_jitable
def _bend_chunk(block, coupled, k, size, steepest, H, slopes, scratch):
    """Add the second derivatives of the chunk's rows to the matrices of problem k, or of the lines from k on."""
    listed = scratch.listed
    for g in range(scratch.mine.shape[0]):
        count = 0
        for r in range(size):
            slope = steepest * scratch.columns.caps[g, r] if steepest > 0.0 else slopes[g, r]
            listed[count], slopes[g, count] = scratch.mine[g, r], slope
            count += slope > 0.0
        if H.columns.shape[1] > 0:
            block.add_gram_of(
                listed[:count], slopes[g, :count], H.columns[k + g], H.places[k + g], scratch.few, H.lines[k + g]
            )  # fmt: skip
        else:
            block.add_gram(listed[:count], slopes[g, :count], scratch.few, H.lines[k + g])
        for r in range(count if H.diagonal.shape[0] > 0 else 0):
            block.add_squares(listed[r], slopes[g, r], H.diagonal[k + g])
    if coupled is not None and steepest == 0.0:
        lines = scratch.mine.shape[0]
        add_crossed(block, scratch.mine[0, :size], slopes[lines:, :size], H.crossed[k // lines])


@register_jitable(fastmath=REORDERED)
def _add_duals(sums, side, softness, columns, g, size):
    """Add a chunk's duals to the sums: those that increase the constant (side 0), decrease it (1), or ALL."""
    caps, signs, targets, centres = columns.caps[g], columns.signs[g], columns.targets[g], columns.centres[g]
    sizes, a, kept, shares = columns.sizes[g], columns.a[g], columns.kept[g], columns.shares[g]
    dual, mass, summed, pulled, moved = 0.0, 0.0, 0.0, 0.0, 0.0
    for r in range(size):
        if side == ALL or (signs[r] * a[r] < 0.0) == (side == 1):
            met, change = a[r] * targets[r], kept[r] - centres[r]
            dual += shares[r] + met
            mass += abs(a[r])
            summed += abs(shares[r]) + abs(met) + 2.0 * abs(a[r])
            pulled += abs(a[r]) * sizes[r]
            moved += (softness / caps[r] if softness > 0.0 else 1.0) * change * change
    sums[DUAL], sums[CARRY] = carried_sum(sums[DUAL], sums[CARRY], dual)
    sums[ALPHA], sums[CARRY + 1] = carried_sum(sums[ALPHA], sums[CARRY + 1], mass)
    sums[SUMMED] += summed
    sums[PULLED] += pulled
    sums[MOVED] += moved


@along
def loss_value(loss: Any, bend: float, u: float, off: float, cap: float) -> tuple[float, float]:
    """(cap phi(u), its largest increase within `off` of u); bend: bound on phi''."""
    if bend < np.inf:
        a, value, _share = reached(loss, u, cap)
        return value, off * (abs(a) + 0.5 * bend * cap * off)
    value = loss.primal(u, cap)
    return value, loss_rounding(loss, u, off, cap, value)


@register_jitable(fastmath=REORDERED)
def _single_steps(plain, loss, curvature, softness, twice, wanted, columns, size, slopes):
    """LOSSES, ROUNDING and GAP of the rows of a chunk, whose duals are found if wanted; slopes (size,) out, or None.

    loss: makes the steps, and is what margins cost; plain: the same without a multiplier, whose dual counts.
    """
    caps, margins, centres, off = columns.caps[0], columns.margins[0], columns.centres[0], columns.off[0]
    a, kept, shares = columns.a[0], columns.kept[0], columns.shares[0]
    bend, primal, slipped, gap = largest_bend(loss), 0.0, 0.0, 0.0
    if not wanted:
        for r in range(size):
            value, slip = loss_value(loss, bend, margins[r], off[r], caps[r])
            primal += value
            slipped += slip
        return primal, slipped, gap
    if softness == 0.0 and curvature == 0.0 and bend < np.inf:
        for r in range(size):
            if slopes is None:
                a[r], value, share = reached(loss, margins[r], caps[r])
            else:
                a[r], value, share, slopes[r] = attained(loss, margins[r], caps[r])
            shares[r] = share_of(plain, loss, a[r], caps[r], share)
            kept[r] = a[r]
            primal += value
            slipped += off[r] * (abs(a[r]) + 0.5 * bend * caps[r] * off[r])
        return primal, slipped, gap
    for r in range(size):
        cap, u, new = caps[r], margins[r], centres[r]
        L = curvature + softness / cap
        if curvature < np.inf:
            new = loss.step(new, u, L, cap)
        kept[r] = new
        if twice:
            new = loss.step(new, u, L, cap)
        a[r], shares[r] = new, plain.dual(new, cap)
        value, slip = loss_value(loss, bend, u, off[r], cap)
        primal += value
        slipped += slip
        if slopes is not None:
            gap += loss.gap(new, u, cap)
            slopes[r] = loss.slope(new, L, cap)
    return primal, slipped, gap


def warm(sample: Sample) -> None:
    none, pair = np.zeros((2, 1)), np.zeros((1, 2))
    for method, H in (("step", None), ("slope", Curvature(np.zeros((1, 3, 3))))):
        for loss in sample.losses(method):
            found = Found(np.zeros((2, 1, LOSS_SUMS)), np.zeros((1, 1, DUAL_SUMS)), weights()[None], counts(2)[:, None])
            rule = Prox(pair, pair.copy(), np.ones(1), np.ones(1))
            look(*sample.rows, loss, ONE, Point(np.zeros((2, 1, 3)), none, none), rule, found, H)
    block, numbers, _ = sample.rows
    lines, two = np.zeros((1, 2)), np.array([0, 1])
    for loss, H in product(sample.joint_losses(), (None, Curvature(np.zeros((2, 3, 3)), np.zeros((1, 6, 6))))):
        point = Point(np.zeros((1, 2, 3)), lines, lines)
        found = Found(
            np.zeros((1, 2, LOSS_SUMS)), np.zeros((2, 1, DUAL_SUMS)), np.zeros((2, 1, 3)), counts()[:, None],
            class_sums=np.zeros((2, 3)), parts=np.zeros((2, PARTS)),
        )  # fmt: skip
        rule = Prox(np.zeros((2, 2)), np.zeros((2, 2)), np.ones(2), np.ones(2))
        look(block, numbers, sample.joint_labels, loss, two, point, rule, found, H)
