"""Exact sums over one block for frozen weights."""

from __future__ import annotations

import numpy as np

from streammargin.compiled.careful import carried_sum, loss_rounding, margin_rounding
from streammargin.compiled.classes import own_is_largest
from streammargin.compiled.jit import kernel
from streammargin.compiled.overloads import along
from streammargin.compiled.row_norms import length_of
from streammargin.compiled.samples import Sample, counts, weights
from streammargin.compiled.sleep import AWAKE
from streammargin.losses.base import lifted

# columns of the sums, one row per problem; from CARRY on: compensation terms of the first three
PRIMAL, DUAL, SUM_ALPHA, MIN_MARGIN, MISTAKES, SUMMED, PULLED, SURELY, LONGEST, ROUNDING, CARRY = range(11)
SUMS = CARRY + 3
CARRIED = tuple((column, CARRY + column) for column in (PRIMAL, DUAL, SUM_ALPHA))


def new_sums(problems: int) -> np.ndarray:
    """Initial sums (problems, SUMS)."""
    sums = np.zeros((problems, SUMS))
    sums[:, MIN_MARGIN] = sums[:, SURELY] = np.inf
    return sums


@along
def add(sums: np.ndarray, column: int, term: float) -> None:
    """sums[column] += term."""
    sums[column], sums[CARRY + column] = carried_sum(sums[column], sums[CARRY + column], term)


@kernel
def certify_block(block, numbers, labels, common, trials, w, blur, alpha, sleep, theta, sums, wrong):
    """Add the block's share of the primal and dual sums, and alpha_i a_i to theta.

    common: the loss, before a row's own epsilon widens it;
    w (K, d+1) the weights to certify; blur (K,) eps times their norms; alpha (K, n), or (K, 0) for a method without
    duals; sleep (K, n), or (K, 0) if no row sleeps; theta (K, d+1) float64: A^T alpha, summed anew;
    sums (K, SUMS) from `new_sums`: PRIMAL; ROUNDING bounds its rounding error; MIN_MARGIN the smallest margin, or minus
    the largest violation of a target; SURELY a lower bound on that under rounding; SUMMED the absolute terms of DUAL;
    PULLED sum |alpha_i| ||a_i||_2; LONGEST max ||a_i||_2;
    trials: the number of values of C; problem k belongs to trial k // (K // trials); wrong[trial] counts the rows whose
    class is not the one with the largest score.
    Sleeping rows whose dual a step would change are woken up.
    """
    has_alpha = alpha.shape[1] > 0
    sleeps = sleep.shape[1] > 0
    per_trial = w.shape[0] // trials
    scores = np.empty(w.shape[0])
    size = 0.0
    for i in range(block.rows()):
        row = numbers.row(i)
        if not labels.weight(row) > 0.0:
            continue
        loss = lifted(common, labels.epsilon(row))
        for k in range(w.shape[0]):
            if k == 0:
                score, square = block.dot_and_square(i, w[k])
                size = length_of(block, i, np.sqrt(square))
            else:
                score = block.exact_dot(i, w[k])
            block.prefetch_weights(i + 1, w[k])
            if has_alpha:
                block.prefetch_weights(i + 1, theta[k])
            scores[k] = score
            cap = labels.cap(k, row)
            if not cap > 0.0:
                continue
            u = labels.margin(k, row, score)
            rounding = margin_rounding(block.entries(i) + 1, size, blur[k])
            sums[k, LONGEST] = max(sums[k, LONGEST], size)
            sums[k, MIN_MARGIN] = min(sums[k, MIN_MARGIN], loss.slack(u))
            sums[k, SURELY] = min(sums[k, SURELY], loss.slack(u - rounding))
            if labels.wrong(k, row, u):
                sums[k, MISTAKES] += 1.0
            if np.isfinite(cap):
                value = loss.primal(u, cap)
                add(sums[k], PRIMAL, value)
                sums[k, ROUNDING] += loss_rounding(loss, u, rounding, cap, value)
            if has_alpha:
                a = loss.feasible(np.float64(alpha[k, row]), cap)
                if a != 0.0:
                    dual, met = loss.dual(a, cap), a * labels.target(k, row)
                    add(sums[k], DUAL, dual + met)
                    add(sums[k], SUM_ALPHA, a)
                    # `dual` may itself be a difference of terms of size |a|
                    sums[k, SUMMED] += abs(dual) + abs(met) + 2.0 * abs(a)
                    sums[k, PULLED] += abs(a) * size
                    block.add(i, labels.sign(k, row) * a, theta[k])
                # at a bound, whether a step would leave it does not depend on the curvature
                if sleeps and sleep[k, row] > AWAKE and alpha.dtype.type(loss.step(a, u, 1.0, cap)) != alpha[k, row]:
                    sleep[k, row] = 0
        if per_trial > 1:
            for trial in range(trials):
                first = trial * per_trial
                if labels.present(first, row):
                    wrong[trial] += not own_is_largest(labels, first, row, scores[first : first + per_trial])


def warm(sample: Sample) -> None:
    for loss, _, dtype in sample.dual_steps():
        certify_block(
            *sample.rows, loss, 1, weights(dtype), np.zeros(1), np.zeros((1, 2), dtype), np.zeros((1, 2), np.uint8),
            weights(), new_sums(1), counts(),
        )  # fmt: skip
