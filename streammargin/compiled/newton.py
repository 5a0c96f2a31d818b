"""Semismooth Newton steps on the augmented Lagrangian (proximal point method on the dual), with margins in memory.

Let w be weights and alpha centres, u_i = a_i.w and L_i = softness / cap_i.
Let M_i(w) = max over feasible a of dual_i(a) - a u_i - (a - alpha_i)^2 L_i / 2. It is attained at a_i, the proximal
step of the loss. Then

    phi(w) = 1/2 ||w||^2 - offset.w + sum_i M_i(w),    gradient w - offset - A^T a,    H = I + A^T diag(slope_i) A,

and H is a matrix of the generalised Hessian. softness = 0 is Newton's method on a smooth loss (Li, Sun and Toh 2018;
Niu et al. 2019, arXiv 1910.01312; Yan and Li 2019, arXiv 1912.06800). The sums at frozen weights are in look.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled.by_address import COLUMN_TYPE, NUMBER, by_address
from streammargin.compiled.jit import kernel
from streammargin.compiled.look import CHUNK_ROWS
from streammargin.compiled.overloads import REORDERED
from streammargin.compiled.samples import SampleBlock, weights
from streammargin.losses.base import attained, gap_of, slope_of
from streammargin.rows.blocks import GRAM_ROWS, add_outer_products
from streammargin.rows.labels import Labels

PRIMAL, DUAL, ATTAINED_GAPS, ACTIVE, SUMS = range(5)  # sums of `attain`; gaps: of the losses; ACTIVE: positive slopes
FLAT_SLOPE_SHARE = 0.03  # a line search ends if the slope has fallen to this share of its initial value
SEARCH_STEPS = 60  # most steps of a line search: more halvings of the interval would be below rounding
FAR_MARGIN = 1e30  # margin of absent rows: their loss is 0 after any step


def row_caps(labels: Labels, margins: np.ndarray, caps: np.ndarray) -> None:
    """Fill caps (m,) of line 0. An absent row gets the cap 1 and a margin where the loss is 0."""
    caps[:] = labels.caps_of(0)
    absent = ~(caps > 0.0)
    caps[absent], margins[absent] = 1.0, FAR_MARGIN


@kernel
def attain(step, softness, caps, alpha, margins, a, slopes, sums):
    """Fill a_i and slopes at these margins, and the sums (SUMS,); step: `proximal_steps` of the loss.

    alpha: the centres, or (0,) without softness; else all (n,).
    """
    sums[:] = 0.0
    for low in range(0, caps.size, CHUNK_ROWS):
        high = min(low + CHUNK_ROWS, caps.size)
        step.call(softness, caps[low:high], alpha[low:high], margins[low:high], a[low:high], slopes[low:high], sums)


@by_address(NUMBER, COLUMN_TYPE, COLUMN_TYPE, COLUMN_TYPE, COLUMN_TYPE, COLUMN_TYPE, COLUMN_TYPE)
def proximal_steps(
    loss: Any, softness: float, caps: np.ndarray, centres: np.ndarray, margins: np.ndarray, a: np.ndarray,
    slopes: np.ndarray, sums: np.ndarray,
) -> None:  # fmt: skip
    """`attain` for a chunk, without copies of it in columns: these cost narrow rows a third of their time."""
    primal, dual, gap, active = _steps(loss, softness, caps, centres, margins, a, slopes)
    sums[PRIMAL] += primal
    sums[DUAL] += dual
    sums[ATTAINED_GAPS] += gap
    sums[ACTIVE] += active


@register_jitable(fastmath=REORDERED)
def _steps(loss, softness, caps, centres, margins, a, slopes):
    primal, dual, gap, active = 0.0, 0.0, 0.0, 0
    for r in range(caps.size if softness == 0.0 else 0):
        a[r], value, share, slopes[r] = attained(loss, margins[r], caps[r])
        primal += value
        dual += share
        active += slopes[r] > 0.0
    for r in range(caps.size if softness > 0.0 else 0):
        cap, u = caps[r], margins[r]
        L = softness / cap
        new = loss.step(centres[r], u, L, cap)
        primal += loss.primal(u, cap)
        dual += loss.dual(new, cap)
        gap += gap_of(loss, new, u, cap)
        a[r], slopes[r] = new, slope_of(loss, new, L, cap)
        active += slopes[r] > 0.0
    return primal, dual, gap, active


@kernel
def add_image(block, numbers, labels, k, alpha, image):
    """image (d+1,) += sum_i alpha_i a_i over the rows of the block; alpha (n,)."""
    rows, pulls = np.empty(CHUNK_ROWS, np.int64), np.empty(CHUNK_ROWS)
    for start in range(0, block.rows(), CHUNK_ROWS):
        count = 0
        for i in range(start, min(start + CHUNK_ROWS, block.rows())):
            row = numbers.row(i)
            rows[count], pulls[count] = i, labels.sign(k, row) * alpha[row]
            count += alpha[row] != 0.0
        block.add_rows(rows[:count], pulls[:count], image)


@kernel
def add_matrix(block, numbers, slopes, H):
    """H (d+1, d+1) += sum_i slope_i x_i x_i^T over the rows of the block, upper triangle only; slopes (n,)."""
    rows, factors = np.empty(CHUNK_ROWS, np.int64), np.empty(CHUNK_ROWS)
    few = np.zeros((GRAM_ROWS, H.shape[0]))
    for start in range(0, block.rows(), CHUNK_ROWS):
        count = 0
        for i in range(start, min(start + CHUNK_ROWS, block.rows())):
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
def lowest(slope_at, softness, caps, alpha, margins, products, along, square, slope):
    """Line search: an approximate minimiser t > 0 of sum_i M_i + along t + square t^2 / 2; slope < 0: derivative at 0.

    M_i is taken at margins + t products; centres alpha, margins, products (n,), caps from `row_caps`. Newton's method
    from t = 1, safeguarded by an interval that contains the minimum. slope_at: `slope_along` of the loss.
    """
    low, high, t, found = 0.0, np.inf, 1.0, np.zeros(2)
    for _ in range(SEARCH_STEPS):
        found[0], found[1] = along + t * square, square
        for start in range(0, margins.size, CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, margins.size)
            slope_at.call(
                softness, t, caps[start:stop], alpha[start:stop], margins[start:stop], products[start:stop], found
            )
        if abs(found[0]) <= FLAT_SLOPE_SHARE * abs(slope):
            break
        low, high, t = narrowed(low, high, t, found[0], found[1])
    return t


@by_address(NUMBER, NUMBER, COLUMN_TYPE, COLUMN_TYPE, COLUMN_TYPE, COLUMN_TYPE, COLUMN_TYPE)
def slope_along(
    loss: Any, softness: float, t: float, caps: np.ndarray, centres: np.ndarray, margins: np.ndarray,
    along: np.ndarray, found: np.ndarray,
) -> None:  # fmt: skip
    """Add the first and second derivative of sum_i M_i at margins + t along, over a chunk, to found (2,)."""
    first, second = _slopes(loss, softness, t, caps, centres, margins, along)
    found[0] += first
    found[1] += second


@register_jitable(fastmath=REORDERED)
def _slopes(loss, softness, t, caps, centres, margins, along):
    first, second = 0.0, 0.0
    for r in range(caps.size if softness == 0.0 else 0):
        a, _value, _share, bend = attained(loss, margins[r] + t * along[r], caps[r])
        first -= a * along[r]
        second += bend * along[r] * along[r]
    for r in range(caps.size if softness > 0.0 else 0):
        L = softness / caps[r]
        a = loss.step(centres[r], margins[r] + t * along[r], L, caps[r])
        first -= a * along[r]
        second += slope_of(loss, a, L, caps[r]) * along[r] * along[r]
    return first, second


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


def warm(sample: SampleBlock) -> None:
    block, numbers, labels = sample.rows
    pair = np.zeros((1, 2))
    for loss in sample.losses("step"):
        attain(proximal_steps.of(loss), 1.0, np.ones(2), pair[0], pair[0], np.zeros(2), np.zeros(2), np.zeros(SUMS))
        lowest(slope_along.of(loss), 1.0, np.ones(2), pair[0], pair[0], pair[0], 0.0, 1.0, -1.0)
    add_image(block, numbers, labels, 0, pair[0], weights()[0])
    add_matrix(block, numbers, pair[0], np.zeros((3, 3)))
    signed_products(block, numbers, labels, 0, weights()[0], pair[0])
    newton_direction(np.zeros((3, 3)), np.ones(3), 0.0)
