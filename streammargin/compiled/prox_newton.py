"""What a read says of frozen weights, of duals near their centres, and of how the losses bend, a block at a time."""

from __future__ import annotations

import numpy as np

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.careful import carried_sum, loss_rounding, margin_rounding
from streammargin.compiled.jit import kernel
from streammargin.compiled.newton import CHUNK, count_wrong
from streammargin.compiled.pdprox import DUAL_SUMS, add_dual
from streammargin.compiled.row_norms import row_norm
from streammargin.compiled.samples import ONE, Sample, counts, weights
from streammargin.rows.blocks import TOGETHER

# columns of the sums of the weights; GAP: of the losses' gaps; the carry is that of LOSSES
LOSSES, MISTAKES, ROUNDING, GAP, CARRY = range(5)
SUMS = CARRY + 1


@kernel
def prox_newton_sums(
    block, numbers, labels, loss, trials, problems, w, blur, softness, steepest, centres, alpha, pull, H, sums, duals,
    wrong,
):  # fmt: skip
    """alpha_i <- argmax over feasible a of dual_i(a) - a u_i - L_i/2 (a - centre_i)^2, L_i = softness / cap_i.

    problems   numbers k of the problems looked at; w (K, d+1) weights, frozen; blur (K,): eps times their norms
    softness   (K,); steepest: where it is above 0, all rows bend as much as this times their cap
    centres    (K, n), or (K, 0): all 0; alpha (K, n) out
    pull       (K, S, d+1), added to: sum_i alpha_i a_i; with S = 2 the duals that pull the constant column down have a
               sum of their own, the second; a chunk's share is added at once, which rounds less
    H          (K, d+1, d+1), upper triangles, added to: A^T diag(slope_i) A
    sums       (K, SUMS), duals (K, S, DUAL_SUMS) as of pdprox, added to; MOVED: of L_i (alpha_i - centre_i)^2
    wrong      (trials,), added to: rows whose class is not the one with the largest score, of several classes
    """
    rows = block.rows()
    per_trial = w.shape[0] // trials
    scores = np.empty((w.shape[0] if per_trial > 1 else 0, CHUNK))
    picked = np.empty(CHUNK, np.int64)
    factors = np.empty(CHUNK)
    sizes = np.empty(CHUNK)
    few = np.zeros((TOGETHER, w.shape[1]))
    part = np.empty(pull.shape[1:])
    for start in range(0, rows, CHUNK):
        stop = min(start + CHUNK, rows)
        for i in range(start, stop):
            sizes[i - start] = row_norm(block, i, 2.0)
        for k in problems:
            count = 0
            part[:] = 0.0
            for i in range(start, stop):
                row = numbers.row(i)
                cap = labels.cap(k, row)
                if not cap > 0.0:
                    continue
                block.prefetch_row(i + 2)
                u = labels.margin(k, row, block.exact_dot(i, w[k]))
                size = sizes[i - start]
                value = loss.primal(u, cap)
                sums[k, LOSSES], sums[k, CARRY] = carried_sum(sums[k, LOSSES], sums[k, CARRY], value)
                rounding = margin_rounding(block.entries(i) + 1, size, blur[k])
                sums[k, ROUNDING] += loss_rounding(loss, u, rounding, cap, value)
                if labels.wrong(k, row, u):
                    sums[k, MISTAKES] += 1.0
                L = softness[k] / cap
                centre = centres[k, row] if centres.shape[1] > 0 else 0.0
                a = loss.step(centre, u, L, cap)
                alpha[k, row] = a
                sums[k, GAP] += loss.gap(a, u, cap)
                along = labels.sign(k, row) * a
                side = 1 if along < 0.0 and pull.shape[1] > 1 else 0
                change = np.sqrt(L) * (a - centre)
                add_dual(duals[k, side], loss.dual(a, cap), a * labels.target(row), a, size, change)
                if a != 0.0:
                    block.add(i, along, part[side])
                slope = steepest * cap if steepest > 0.0 else loss.slope(a, L, cap)
                if slope > 0.0:
                    picked[count] = i
                    factors[count] = slope
                    count += 1
            for side in range(part.shape[0]):
                for j in range(part.shape[1]):
                    pull[k, side, j] += part[side, j]
            block.add_gram(picked[:count], factors[:count], few, H[k])
        if per_trial > 1:
            count_wrong(block, numbers, labels, start, stop, w, scores, wrong)


def warm(sample: Sample) -> None:
    for loss in sample.losses("slope"):
        prox_newton_sums(
            *sample.rows, loss, 1, ONE, weights(), np.zeros(1), np.ones(1), 0.0, np.zeros((1, 2)), np.zeros((1, 2)),
            weights()[None], np.zeros((1, 3, 3)), np.zeros((1, SUMS)), np.zeros((1, 1, DUAL_SUMS)), counts(),
        )  # fmt: skip
