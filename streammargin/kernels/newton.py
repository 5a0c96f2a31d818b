"""Semismooth Newton steps on the proximal-point form of the dual (augmented Lagrangian), one visit of the rows each.

For weights w and centres alpha, M_i(w) = max over feasible a of dual_i(a) - a u_i - (a - alpha_i)^2 L_i / 2 with
u_i = a_i.w and L_i = softness / cap_i, attained at a_i, the proximal step of the loss. Then

    phi(w) = 1/2 ||w||^2 - offset.w + sum_i M_i(w),    gradient w - offset - A^T a,    H = I + A^T diag(slope_i) A,

and H is a matrix of the generalised Hessian. softness = 0 is Newton's method on a smooth loss (Li, Sun and Toh 2018;
Niu et al. 2019, arXiv 1910.01312; Yan and Li 2019, arXiv 1912.06800).
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from streammargin.kernels import overloads  # noqa: F401
from streammargin.kernels.careful import carried_sum, loss_rounding, margin_rounding
from streammargin.kernels.jit import kernel
from streammargin.kernels.row_norms import row_norm
from streammargin.kernels.samples import ONE, Sample, counts, weights
from streammargin.specs.blocks import TOGETHER, add_outer_products

# columns of the sums, one row per problem; GAP: sum of the losses' gaps; FREE: rows with a slope; SUMMED, PULLED and
# ROUNDING as in certificate.py; those from CARRY on belong to the first two
PRIMAL, DUAL, GAP, MISTAKES, FREE, SUMMED, PULLED, ROUNDING, CARRY = range(9)
SUMS = CARRY + 2
CHUNK = 512  # rows whose share of H is added together


@kernel
def newton_sums(
    block, numbers, labels, loss, problems, trials, softness, w, blur, alpha, keep, margins, products, keys, image, H,
    sums, wrong,
):  # fmt: skip
    """Adds what the rows of the block say of the weights w, which are frozen.

    problems  numbers k of the problems looked at; trials: values of C, problem k belongs to k // (K // trials)
    softness  (K,); w (K, d+1); blur (K,) eps times the norms of w
    alpha     (K, n) centres, or (K, 0) where softness is 0; keep: they move to a_i at once
    margins   (K, n) out: a_i.w; products (K, n) out: by how much that changed; either may be (K, 0)
    keys      (n,) float32 out, or (0,): below 1 for rows with a slope, in [1, 2) for others, in the order of their
              distance from where the loss bends; of several problems the least
    image     (K, d+1) A^T a, added to; H (K, d+1, d+1), upper triangles, added to, or (0, ...) if not wanted
    sums      (K, SUMS), added to; wrong (trials,): rows whose class is not the one with the largest score, of
              several classes
    """
    rows = block.rows()
    per_trial = w.shape[0] // trials
    scores = np.empty((w.shape[0] if per_trial > 1 else 0, CHUNK))
    picked = np.empty(CHUNK, np.int64)
    factors = np.empty(CHUNK)
    sizes = np.empty(CHUNK)
    few = np.zeros((TOGETHER, w.shape[1]))
    for start in range(0, rows, CHUNK):
        stop = min(start + CHUNK, rows)
        for i in range(start, stop):
            sizes[i - start] = row_norm(block, i, 2.0)
        for k in problems:
            w_k = w[k]
            image_k = image[k]
            primal, dual, gap, summed, pulled, slipped = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
            count = 0
            for i in range(start, stop):
                row = numbers.row(i)
                cap = labels.cap(k, row)
                if not cap > 0.0:
                    continue
                block.prefetch_row(i + 2)
                u = labels.margin(k, row, block.exact_dot(i, w_k))
                if products.shape[1] > 0:
                    products[k, row] = u - margins[k, row]
                if margins.shape[1] > 0:
                    margins[k, row] = u
                L = softness[k] / cap
                a = loss.step(alpha[k, row] if alpha.shape[1] > 0 else 0.0, u, L, cap)
                size = sizes[i - start]
                value = loss.primal(u, cap)
                primal += value
                slipped += loss_rounding(loss, u, margin_rounding(block.entries(i) + 1, size, blur[k]), cap, value)
                share = loss.dual(a, cap)
                dual += share
                summed += abs(share) + 2.0 * abs(a)
                pulled += abs(a) * size
                gap += loss.gap(a, u, cap)
                if labels.wrong(k, row, u):
                    sums[k, MISTAKES] += 1.0
                if a != 0.0:
                    block.add(i, labels.sign(k, row) * a, image_k)
                if keep:
                    alpha[k, row] = a
                slope = loss.slope(a, L, cap)
                if keys.size > 0:
                    away = loss.distance(u)
                    key = away / (1.0 + away) + (0.0 if slope > 0.0 else 1.0)
                    keys[row] = min(keys[row], key) if k != problems[0] else key
                if slope > 0.0:
                    picked[count] = i
                    factors[count] = slope
                    count += 1
            sums[k, PRIMAL], sums[k, CARRY] = carried_sum(sums[k, PRIMAL], sums[k, CARRY], primal)
            sums[k, DUAL], sums[k, CARRY + 1] = carried_sum(sums[k, DUAL], sums[k, CARRY + 1], dual)
            sums[k, GAP] += gap
            sums[k, SUMMED] += summed
            sums[k, PULLED] += pulled
            sums[k, ROUNDING] += slipped
            sums[k, FREE] += count
            if H.shape[0] > 0:
                block.add_gram(picked[:count], factors[:count], few, H[k])
        if per_trial > 1:
            count_wrong(block, numbers, labels, start, stop, w, scores, wrong)


@register_jitable
def count_wrong(block, numbers, labels, start, stop, w, scores, wrong):
    """Adds the rows from start to stop whose class is not the one with the largest score, per value of C."""
    per_trial = w.shape[0] // wrong.size
    for k in range(w.shape[0]):
        for i in range(start, stop):
            if labels.weight(numbers.row(i)) > 0.0:
                scores[k, i - start] = block.exact_dot(i, w[k])
    for i in range(start, stop):
        row = numbers.row(i)
        if labels.weight(row) > 0.0:
            for trial in range(wrong.size):
                best = trial * per_trial
                for k in range(best + 1, (trial + 1) * per_trial):
                    if scores[k, i - start] > scores[best, i - start]:
                        best = k
                if not labels.own(best, row):
                    wrong[trial] += 1


@kernel
def signed_products(block, numbers, labels, k, direction, products):
    """products (n,) out: a_i.direction of the rows of the block, 0 of absent ones."""
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
def slope_along(labels, loss, k, softness, alpha, margins, products, t):
    """First and second derivative of sum_i M_i at the margins + t products, along the products; all (n,)."""
    first, second = 0.0, 0.0
    for i in range(margins.size):
        cap = labels.cap(k, i)
        if cap > 0.0:
            L = softness / cap
            a = loss.step(alpha[i] if alpha.size > 0 else 0.0, margins[i] + t * products[i], L, cap)
            first -= a * products[i]
            second += loss.slope(a, L, cap) * products[i] * products[i]
    return first, second


@kernel
def move_centres(labels, loss, k, softness, alpha, margins):
    """alpha_i <- a_i of problem k, from the margins; both (n,)."""
    for i in range(margins.size):
        cap = labels.cap(k, i)
        if cap > 0.0:
            alpha[i] = loss.step(alpha[i], margins[i], softness / cap, cap)


@kernel
def newton_direction(H, gradient, floor):
    """-H^-1 gradient by Cholesky's method, and how many pivots had to be mended; H = I + A^T D A is overwritten.

    H (d+1, d+1): its upper triangle without the I. No pivot of H is below 1; one that rounding has brought there, or
    below `floor` times its diagonal entry, is put back.
    """
    size = H.shape[0]
    mended = 0
    diagonal = np.empty(size)
    for j in range(size):
        H[j, j] += 1.0
        diagonal[j] = H[j, j]
    for low in range(0, size, TOGETHER):
        high = min(low + TOGETHER, size)
        for i in range(low, high):
            row = H[i, i:]
            for j in range(low, i):
                factor = H[j, i]
                above = H[j, i:]
                for k in range(row.size):
                    row[k] -= factor * above[k]
            least = max(1.0, floor * diagonal[i])
            pivot = row[0]
            if not pivot >= least:
                mended += 1
                pivot = least
            root = np.sqrt(pivot)
            row[0] = root
            for k in range(1, row.size):
                row[k] /= root
        if high < size:
            add_outer_products(H[low:high], -1.0, H, high)
    direction = -gradient
    for i in range(size):
        row = H[i, i:]
        direction[i] /= row[0]
        for k in range(1, row.size):
            direction[i + k] -= direction[i] * row[k]
    for i in range(size - 1, -1, -1):
        row = H[i, i:]
        total = direction[i]
        for k in range(1, row.size):
            total -= row[k] * direction[i + k]
        direction[i] = total / row[0]
    return direction, mended


def warm(sample: Sample) -> None:
    block, numbers, labels = sample.rows
    pair = np.zeros((1, 2))
    for loss in sample.losses("slope"):
        newton_sums(
            block, numbers, labels, loss, ONE, 1, np.ones(1), weights(), np.zeros(1), pair, False, pair.copy(),
            pair[:, :0], np.zeros(2, np.float32), weights(), np.zeros((1, 3, 3)), np.zeros((1, SUMS)), counts(),
        )  # fmt: skip
        slope_along(labels, loss, 0, 1.0, pair[0], pair[0], pair[0], 1.0)
        move_centres(labels, loss, 0, 1.0, pair[0].copy(), pair[0])
    signed_products(block, numbers, labels, 0, weights()[0], pair[0])
    subtract_image(block, numbers, labels, 0, pair[0], weights()[0])
    newton_direction(np.zeros((3, 3)), np.ones(3), 0.0)
