"""Semismooth Newton steps on the augmented Lagrangian (proximal point method on the dual), one visit of the rows each.

Let w be weights and alpha centres, u_i = a_i.w and L_i = softness / cap_i.
Let M_i(w) = max over feasible a of dual_i(a) - a u_i - (a - alpha_i)^2 L_i / 2. It is attained at a_i, the proximal
step of the loss. Then

    phi(w) = 1/2 ||w||^2 - offset.w + sum_i M_i(w),    gradient w - offset - A^T a,    H = I + A^T diag(slope_i) A,

and H is a matrix of the generalised Hessian. softness = 0 is Newton's method on a smooth loss (Li, Sun and Toh 2018;
Niu et al. 2019, arXiv 1910.01312; Yan and Li 2019, arXiv 1912.06800).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.careful import carried_sum, loss_rounding, margin_rounding
from streammargin.compiled.classes import count_confused
from streammargin.compiled.jit import kernel
from streammargin.compiled.overloads import REORDERED
from streammargin.compiled.row_norms import row_norm
from streammargin.compiled.samples import ONE, Sample, counts, weights
from streammargin.losses.base import attained
from streammargin.rows.blocks import GRAM_ROWS, Block, add_outer_products

# columns of the sums, one row per problem; GAP: sum of the losses' gaps; ACTIVE: rows with a positive slope, which
# contribute to H; SUMMED, PULLED and ROUNDING as in certificate.py; from CARRY on: compensation of the first two. A new
# column goes before CARRY
PRIMAL, DUAL, GAP, MISTAKES, ACTIVE, SUMMED, PULLED, ROUNDING, CARRY = range(9)
SUMS = CARRY + 2
CARRIED = ((PRIMAL, CARRY), (DUAL, CARRY + 1))
CHUNK = 512  # rows processed at a time
FLAT = 0.03  # a line search ends if the slope has fallen to this share of its initial value
SEARCH_STEPS = 60  # most steps of a line search: more halvings of the interval would be below rounding
FAR_MARGIN = 1e30  # margin of absent rows: their loss is 0 after any step


NONE, NO_KEYS, NO_H = np.zeros(0), np.zeros(0, np.float32), np.zeros((0, 1, 1))


class Point(NamedTuple):
    """Frozen weights w (K, d+1), and blur (K,): eps times their norms.

    norms (n,): of the rows, 0 until first needed; or (0,): not kept.
    """

    w: np.ndarray
    blur: np.ndarray
    norms: np.ndarray = NONE


class Centred(NamedTuple):
    """The centres alpha (K, m), or (K, 0): the midpoints of the feasible intervals; softness (K,).

    crisp (K,): if a centre is nan, it is a step with this softness from the midpoint; or (0,): none is nan. move:
    set the centres to a_i. base: the number of the row that the first centre, margin and key belong to.
    """

    alpha: np.ndarray
    softness: np.ndarray
    crisp: np.ndarray = NONE
    move: bool = False
    base: int = 0


class Wanted(NamedTuple):
    """Results besides the sums; empty arrays: not wanted.

    margins (K, m): set to a_i.w. keys (m,) float32: set to t / (1 + t) with t the distance of u from the curved part of
    the loss; for several problems the smallest key. H (K, d+1, d+1): upper triangles, added to. drift (K, d+1), with H:
    minus the derivative of A^T a by the logarithm of the softness, added to.
    """

    margins: np.ndarray = NO_H[:, 0]
    keys: np.ndarray = NO_KEYS
    H: np.ndarray = NO_H
    drift: np.ndarray = NO_H[:, 0]


class Totals(NamedTuple):
    """Sums that a block adds to: image (K, d+1), A^T a; sums (K, SUMS).

    confused (trials,): rows whose class is not the one with the largest score, of several classes. Problem k belongs to
    the value of C number k // (K // trials).
    """

    image: np.ndarray
    sums: np.ndarray
    confused: np.ndarray


class Chunk(NamedTuple):
    """Quantities of a chunk's rows, of which a problem has the first few; (CHUNK,) each.

    present: numbers within the block. listed: rows that are added up. off: bounds on rounding errors of the margins.
    """

    present: np.ndarray
    listed: np.ndarray
    margins: np.ndarray
    signs: np.ndarray
    caps: np.ndarray
    centres: np.ndarray
    sizes: np.ndarray
    off: np.ndarray
    a: np.ndarray
    slopes: np.ndarray
    drifts: np.ndarray


@kernel
def newton_sums(block, numbers, labels, loss, problems, point, centred, wanted, totals):
    """Add the block's terms of phi, its gradient and its Hessian at frozen weights.

    problems: indices k of the active ones; point, centred, wanted, totals: as in the classes of these names.
    """
    K, several = point.w.shape[0], point.w.shape[0] > totals.confused.size
    scores, lengths = np.empty((K if several else 1, CHUNK)), np.empty(CHUNK)
    few = np.zeros((GRAM_ROWS, point.w.shape[1]))
    chunk = Chunk(
        np.empty(CHUNK, np.int64), np.empty(CHUNK, np.int64), np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK),
        np.zeros(CHUNK), np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK), np.empty(CHUNK),
    )  # fmt: skip
    for start in range(0, block.rows(), CHUNK):
        stop = min(start + CHUNK, block.rows())
        _measure_rows(block, numbers, start, stop, point.norms, lengths)
        for k in range(K if several else 0):
            score_rows(block, start, stop, point.w[k], scores[k])
        # first all scores, then all losses, then sums of rows, so that rows are independent
        for k in problems:
            score, softness = scores[k if several else 0], centred.softness[k]
            if not several:
                score_rows(block, start, stop, point.w[k], score)
            m = _gather(
                block, numbers, labels, k, start, stop, score, lengths, point.blur[k], centred, wanted, totals, chunk
            )
            _set_centres(loss, k, m, centred, chunk)
            _add_terms(loss, softness, m, chunk, totals.sums[k])
            _keep_rows(loss, numbers, k, m, k != problems[0], centred, wanted, chunk)
            _pull_rows(block, k, m, softness, few, wanted, totals, chunk)
        if several:
            count_confused(numbers, labels, range(start, stop), scores, totals.confused)


@register_jitable
def _measure_rows(block, numbers, start, stop, norms, lengths):
    """Fill the lengths of the rows start .. stop, from `norms` if they are kept there."""
    for i in range(start, stop):
        row = numbers.row(i)
        size = norms[row] if norms.size > 0 else 0.0
        if not size > 0.0:
            size = np.sqrt(block.sum_powers(i, 2.0))  # as row_norm, in the usual case
            if not (size > 0.0 and np.isfinite(size)):
                size = row_norm(block, i, 2.0)
            if norms.size > 0:
                norms[row] = size
        lengths[i - start] = size


@register_jitable
def _gather(block, numbers, labels, k, start, stop, score, lengths, blur, centred, wanted, totals, chunk):
    """Fill the chunk with the rows that problem k has, and count its mistakes; returns their number."""
    m = mistakes = 0
    for i in range(start, stop):
        row = numbers.row(i)
        cap = labels.cap(k, row)
        u = labels.margin(k, row, score[i - start])
        # lists are always written, and counted if wanted, which is faster than a branch
        chunk.present[m], chunk.caps[m], chunk.margins[m], chunk.signs[m] = i, cap, u, labels.sign(k, row)
        if centred.alpha.shape[1] > 0:
            chunk.centres[m] = centred.alpha[k, row - centred.base]
        chunk.sizes[m] = lengths[i - start]
        chunk.off[m] = margin_rounding(block.entries(i) + 1, lengths[i - start], blur)
        if cap > 0.0:
            m += 1
            mistakes += labels.wrong(k, row, u)
            if wanted.margins.size > 0:
                wanted.margins[k, row - centred.base] = u
    totals.sums[k, MISTAKES] += mistakes
    return m


@register_jitable
def _set_centres(loss, k, m, centred, chunk):
    """Compute the centres that are not stored: the midpoints of the feasible intervals, or steps from these."""
    centres, caps = chunk.centres, chunk.caps
    if centred.alpha.shape[1] == 0 and centred.softness[k] > 0.0:
        for r in range(m):
            centres[r] = middle(loss, caps[r])
    for r in range(m if centred.crisp.size > 0 else 0):
        if np.isnan(centres[r]):
            centres[r] = loss.step(middle(loss, caps[r]), chunk.margins[r], centred.crisp[k] / caps[r], caps[r])


@register_jitable
def _add_terms(loss, softness, m, chunk, sums):
    """Fill the duals and slopes of the chunk's rows, and add their terms to the sums of a problem."""
    primal, dual, gap, summed, pulled, slipped = _chunk_terms(
        loss, softness, chunk.caps[:m], chunk.margins[:m], chunk.centres[:m], chunk.sizes[:m], chunk.off[:m],
        chunk.a[:m], chunk.slopes[:m],
    )  # fmt: skip
    sums[PRIMAL], sums[CARRY] = carried_sum(sums[PRIMAL], sums[CARRY], primal)
    sums[DUAL], sums[CARRY + 1] = carried_sum(sums[DUAL], sums[CARRY + 1], dual)
    sums[GAP] += gap
    sums[SUMMED] += summed
    sums[PULLED] += pulled
    sums[ROUNDING] += slipped


@register_jitable
def _keep_rows(loss, numbers, k, m, again, centred, wanted, chunk):
    """Store the duals and keys of the chunk's rows, if these are wanted; again: a problem before has set the keys."""
    alpha, _softness, _crisp, move, base = centred
    if move:
        for r in range(m):
            alpha[k, numbers.row(chunk.present[r]) - base] = chunk.a[r]
    if wanted.keys.size > 0:
        for r in range(m):
            at = numbers.row(chunk.present[r]) - base
            away = loss.distance(chunk.margins[r])
            key = away / (1.0 + away)
            wanted.keys[at] = min(wanted.keys[at], key) if again else key


@register_jitable
def _pull_rows(block, k, m, softness, few, wanted, totals, chunk):
    """Add the chunk's rows to the image of the duals and, if wanted, to the Hessian and the drift of problem k."""
    listed, a, slopes, drifts = chunk.listed, chunk.a, chunk.slopes, chunk.drifts
    pulls = count = 0
    for r in range(m):
        i, dual, slope = chunk.present[r], a[r], slopes[r]
        pull = chunk.signs[r] * dual
        listed[pulls], a[pulls] = i, pull
        pulls += pull != 0.0
        chunk.present[count], slopes[count] = i, slope
        drifts[count] = chunk.signs[r] * (dual - chunk.centres[r]) * slope * (softness / chunk.caps[r])
        count += slope > 0.0
    totals.sums[k, ACTIVE] += count
    block.add_rows(listed[:pulls], a[:pulls], totals.image[k])
    if wanted.H.shape[0] > 0:
        block.add_gram(chunk.present[:count], slopes[:count], few, wanted.H[k])
        if softness > 0.0:
            block.add_rows(chunk.present[:count], drifts[:count], wanted.drift[k])


@register_jitable(fastmath=REORDERED)
def _chunk_terms(loss, softness, caps, margins, centres, sizes, off, a, slopes):
    """Fill a_i and slopes for the rows of a chunk; returns its sums PRIMAL, DUAL, GAP, SUMMED, PULLED, ROUNDING.

    sizes: row norms; off: bounds on the rounding errors of the margins; all (m,).
    """
    primal, dual, gap, summed, pulled, slipped = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    bend = loss.curvature_bound()
    if softness == 0.0:  # a separate loop: the gaps are 0, and the loss is evaluated at once
        for r in range(caps.size):
            cap, u = caps[r], margins[r]
            new, value, share, slopes[r] = attained(loss, u, cap)
            primal += value
            dual += share
            # alpha is rounded too, and the derivative of the share is u
            summed += abs(share) + (2.0 + abs(u)) * abs(new)
            pulled += abs(new) * sizes[r]
            slipped += off[r] * (new + 0.5 * bend * cap * off[r])
            a[r] = new
        return primal, dual, gap, summed, pulled, slipped
    for r in range(caps.size):
        cap, u = caps[r], margins[r]
        L = softness / cap
        new = loss.step(centres[r], u, L, cap)
        value = loss.primal(u, cap)
        share = loss.dual(new, cap)
        primal += value
        dual += share
        summed += abs(share) + 2.0 * abs(new)
        pulled += abs(new) * sizes[r]
        slipped += loss_rounding(loss, u, off[r], cap, value)
        gap += loss.gap(new, u, cap)
        a[r] = new
        slopes[r] = loss.slope(new, L, cap)
    return primal, dual, gap, summed, pulled, slipped


@register_jitable
def score_rows(block: Block, start: int, stop: int, w: np.ndarray, score: np.ndarray) -> None:
    """Fill the scores of the rows start .. stop by w (d+1,)."""
    for i in range(start, stop):
        block.prefetch_row(i + 2)
        score[i - start] = block.exact_dot(i, w)


@kernel
def row_caps(labels, margins, caps):
    """Fill caps (m,) of line 0. An absent row gets the cap 1 and a margin where the loss is 0."""
    for i in range(caps.size):
        caps[i] = labels.cap(0, i)
        if not caps[i] > 0.0:
            caps[i], margins[i] = 1.0, FAR_MARGIN


@kernel
def attain(loss, softness, caps, alpha, margins, a, slopes, sums):
    """Fill a_i and slopes at these margins, and PRIMAL, DUAL, GAP and ACTIVE of the sums (SUMS,).

    alpha: the centres, or (0,) without softness; else all (n,).
    """
    none = np.zeros(CHUNK)
    sums[:] = 0.0
    for low in range(0, caps.size, CHUNK):
        high = min(low + CHUNK, caps.size)
        off = none[: high - low]
        primal, dual, gap, _, _, _ = _chunk_terms(
            loss, softness, caps[low:high], margins[low:high], alpha[low:high], off, off, a[low:high], slopes[low:high]
        )
        sums[PRIMAL] += primal
        sums[DUAL] += dual
        sums[GAP] += gap
        for i in range(low, high):
            sums[ACTIVE] += slopes[i] > 0.0


@kernel
def add_image(block, numbers, labels, k, alpha, image):
    """image (d+1,) += sum_i alpha_i a_i over the rows of the block; alpha (n,)."""
    rows, pulls = np.empty(CHUNK, np.int64), np.empty(CHUNK)
    for start in range(0, block.rows(), CHUNK):
        count = 0
        for i in range(start, min(start + CHUNK, block.rows())):
            row = numbers.row(i)
            rows[count], pulls[count] = i, labels.sign(k, row) * alpha[row]
            count += alpha[row] != 0.0
        block.add_rows(rows[:count], pulls[:count], image)


@kernel
def add_matrix(block, numbers, slopes, H):
    """H (d+1, d+1) += sum_i slope_i x_i x_i^T over the rows of the block, upper triangle only; slopes (n,)."""
    rows, factors = np.empty(CHUNK, np.int64), np.empty(CHUNK)
    few = np.zeros((GRAM_ROWS, H.shape[0]))
    for start in range(0, block.rows(), CHUNK):
        count = 0
        for i in range(start, min(start + CHUNK, block.rows())):
            row = numbers.row(i)
            rows[count], factors[count] = i, slopes[row]
            count += slopes[row] > 0.0
        block.add_gram(rows[:count], factors[:count], few, H)


@kernel
def signed_products(block, numbers, labels, k, direction, products):
    """Fill products (n,) with a_i.direction for the rows of the block, 0 for absent ones."""
    for i in range(block.rows()):
        row = numbers.row(i)
        products[row] = 0.0
        if labels.cap(k, row) > 0.0:
            block.prefetch_row(i + 2)
            products[row] = labels.sign(k, row) * block.exact_dot(i, direction)


@kernel
def subtract_image(block, numbers, labels, k, alpha, offset):
    """offset (d+1,) -= sum_i alpha_i a_i over the rows of the block."""
    for i in range(block.rows()):
        row = numbers.row(i)
        if alpha[row] != 0.0:
            block.prefetch_row(i + 2)
            block.add(i, -labels.sign(k, row) * alpha[row], offset)


@kernel
def lowest(loss, softness, caps, alpha, margins, products, along, square, slope):
    """Line search: an approximate minimiser t > 0 of sum_i M_i + along t + square t^2 / 2; slope < 0: derivative at 0.

    M_i is taken at margins + t products; centres alpha, margins, products (n,), caps from `row_caps`. Newton's method
    from t = 1, safeguarded by an interval that contains the minimum.
    """
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(SEARCH_STEPS):
        first, second = along + t * square, square
        for start in range(0, margins.size, CHUNK):
            stop = min(start + CHUNK, margins.size)
            slope_there, bend = chunk_slope(
                loss, softness, caps[start:stop], margins[start:stop], alpha[start:stop], products[start:stop], t
            )
            first += slope_there
            second += bend
        if abs(first) <= FLAT * abs(slope):
            break
        low, high, t = narrowed(low, high, t, first, second)
    return t


@register_jitable
def narrowed(low: float, high: float, t: float, first: int, second: float) -> tuple[float, float, float]:
    """Narrow the interval by the derivatives at t; the next t is Newton's if it lies inside, else the midpoint."""
    if first < 0.0:
        low = t
    else:
        high = t
    t = t - first / second if second > 0.0 else np.inf
    if not low < t < high:
        t = 0.5 * (low + high) if high < np.inf else 4.0 * low
    return low, high, t


@register_jitable(fastmath=REORDERED)
def chunk_slope(
    loss: Any, softness: float, caps: np.ndarray, margins: np.ndarray, centres: np.ndarray, along: np.ndarray, t: float
) -> tuple[float, float]:
    """First and second derivative of sum_i M_i at margins + t along, over the rows of a chunk; all (m,)."""
    first, second = 0.0, 0.0
    if softness == 0.0:
        for r in range(caps.size):
            a, _value, _share, bend = attained(loss, margins[r] + t * along[r], caps[r])
            first -= a * along[r]
            second += bend * along[r] * along[r]
        return first, second
    for r in range(caps.size):
        L = softness / caps[r]
        a = loss.step(centres[r], margins[r] + t * along[r], L, caps[r])
        first -= a * along[r]
        second += loss.slope(a, L, caps[r]) * along[r] * along[r]
    return first, second


@kernel
def move_centres(labels, loss, k, softness, alpha, margins):
    """alpha_i <- a_i in problem k, from the margins; both (n,)."""
    for i in range(margins.size):
        cap = labels.cap(k, i)
        if cap > 0.0:
            alpha[i] = loss.step(alpha[i], margins[i], softness / cap, cap)


@register_jitable
def middle(loss: Any, cap: float) -> float:
    """The midpoint of the feasible interval of a dual; the feasible number nearest to 0 if it has no end."""
    found = 0.5 * (loss.feasible(-np.inf, cap) + loss.feasible(np.inf, cap))
    return found if np.isfinite(found) else loss.feasible(0.0, cap)


@kernel
def middle_centres(labels, loss, k, base, part, alpha):
    """alpha_i (m,) <- the midpoint of the feasible interval in problem k, times `part`, for the rows from `base` on."""
    for i in range(alpha.size):
        cap = labels.cap(k, base + i)
        if cap > 0.0:
            alpha[i] = part * middle(loss, cap)


@register_jitable
def factor(H: np.ndarray, floor: float) -> int:
    """Factorise I + H = U^T U in place, in the upper triangle of H; returns the number of corrected pivots.

    In exact arithmetic no pivot is below 1. One that rounding has made smaller, or smaller than `floor` times its
    diagonal entry, is set to that bound.
    """
    size = H.shape[0]
    corrected = 0
    diagonal = np.empty(size)
    for j in range(size):
        H[j, j] += 1.0
        diagonal[j] = H[j, j]
    for low in range(0, size, GRAM_ROWS):
        high = min(low + GRAM_ROWS, size)
        for i in range(low, high):
            row = H[i, i:]
            for j in range(low, i):
                part = H[j, i]
                above = H[j, i:]
                for k in range(row.size):
                    row[k] -= part * above[k]
            least = max(1.0, floor * diagonal[i])
            pivot = row[0]
            if not pivot >= least:
                corrected += 1
                pivot = least
            root = np.sqrt(pivot)
            row[0] = root
            for k in range(1, row.size):
                row[k] /= root
        if high < size:
            add_outer_products(H[low:high], -1.0, H, high)
    return corrected


@register_jitable
def descent(U: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """-(U^T U)^-1 gradient for an upper triangular U."""
    size = U.shape[0]
    direction = np.empty(size)
    for i in range(size):  # a loop: Numba's -gradient would import much of Numba at every start
        direction[i] = -gradient[i]
    for i in range(size):
        row = U[i, i:]
        direction[i] /= row[0]
        for k in range(1, row.size):
            direction[i + k] -= direction[i] * row[k]
    for i in range(size - 1, -1, -1):
        row = U[i, i:]
        total = direction[i]
        for k in range(1, row.size):
            total -= row[k] * direction[i + k]
        direction[i] = total / row[0]
    return direction


@kernel
def newton_direction(H, gradient, floor):
    """(-H^-1 gradient by Cholesky factorisation, number of corrected pivots); H = I + A^T D A is overwritten.

    H (d+1, d+1): its upper triangle without the I; floor: of `factor`.
    """
    corrected = factor(H, floor)
    return descent(H, gradient), corrected


def warm(sample: Sample) -> None:
    block, numbers, labels = sample.rows
    pair = np.zeros((1, 2))
    for loss in sample.losses("distance"):
        newton_sums(
            block, numbers, labels, loss, ONE, Point(weights(), np.zeros(1), np.zeros(2)),
            Centred(pair, np.ones(1), np.ones(1)),
            Wanted(pair.copy(), np.zeros(2, np.float32), np.zeros((1, 3, 3)), weights()),
            Totals(weights(), np.zeros((1, SUMS)), counts()),
        )  # fmt: skip
        _chunk_terms(loss, 1.0, np.ones(2), pair[0], pair[0], pair[0], pair[0], np.zeros(2), np.zeros(2))
        chunk_slope(loss, 1.0, np.ones(2), pair[0], pair[0], pair[0], 1.0)
        attain(loss, 1.0, np.ones(2), pair[0], pair[0], np.zeros(2), np.zeros(2), np.zeros(SUMS))
        lowest(loss, 1.0, np.ones(2), pair[0], pair[0], pair[0], 0.0, 1.0, -1.0)
        move_centres(labels, loss, 0, 1.0, pair[0].copy(), pair[0])
        middle_centres(labels, loss, 0, 0, 1.0, pair[0].copy())
    row_caps(labels, pair[0].copy(), np.zeros(2))
    add_image(block, numbers, labels, 0, pair[0], weights()[0])
    add_matrix(block, numbers, pair[0], np.zeros((3, 3)))
    signed_products(block, numbers, labels, 0, weights()[0], pair[0])
    subtract_image(block, numbers, labels, 0, pair[0], weights()[0])
    newton_direction(np.zeros((3, 3)), np.ones(3), 0.0)
