"""Exact sums over one block with the weights frozen."""

from __future__ import annotations

import numpy as np

from streammargin.kernels import overloads  # noqa: F401
from streammargin.kernels.jit import kernel
from streammargin.kernels.samples import Sample, counts, weights

# columns of the sums, one row per problem
PRIMAL, DUAL, SUM_ALPHA, MIN_MARGIN, MISTAKES, SUMMED, SUMS = 0, 1, 2, 3, 4, 5, 6


@kernel
def certify_block(block, numbers, labels, loss, trials, w, alpha, sleep, theta, sums, wrong):
    """Adds the block's share of the primal and dual sums, and alpha_i a_i to theta.

    w (K, d+1) the weights to certify; alpha (K, n), or (K, 0) for a method without duals; sleep (K, n),
    or (K, 0) where no row sleeps; theta (K, d+1) float64 rebuilt A^T alpha; sums (K, SUMS) float64
    (MIN_MARGIN starts at inf: the smallest margin, or minus the largest violation of a target; SUMMED is the size of
    what the objective's sums are made of, which their rounding is relative to).
    trials is the number of values of C; problem k belongs to trial k // (K // trials), and
    wrong[trial] counts the rows whose class is not the one with the largest score.
    Rows whose dual is not where a step would leave it are woken up.
    """
    has_alpha = alpha.shape[1] > 0
    sleeps = sleep.shape[1] > 0
    per_trial = w.shape[0] // trials
    scores = np.empty(w.shape[0])
    for i in range(block.rows()):
        row = numbers.row(i)
        if not labels.weight(row) > 0.0:
            continue
        block.prefetch_row(i + 2)
        for k in range(w.shape[0]):
            score = block.exact_dot(i, w[k])
            scores[k] = score
            cap = labels.cap(k, row)
            if not cap > 0.0:
                continue
            u = labels.margin(k, row, score)
            slack = loss.slack(u)
            sums[k, MIN_MARGIN] = min(sums[k, MIN_MARGIN], slack)
            if labels.wrong(k, row, u):
                sums[k, MISTAKES] += 1.0
            if np.isfinite(cap):
                sums[k, PRIMAL] += loss.primal(u, cap)
                sums[k, SUMMED] += cap * (1.0 + abs(u))
            if has_alpha:
                a = loss.feasible(np.float64(alpha[k, row]), cap)
                if a != 0.0:
                    sums[k, DUAL] += loss.dual(a, cap) + a * labels.target(row)
                    sums[k, SUM_ALPHA] += a
                    block.add(i, labels.sign(k, row) * a, theta[k])
                # it sleeps at a bound: whether a step would leave that does not depend on the curvature
                if sleeps and sleep[k, row] > 15 and alpha.dtype.type(loss.step(a, u, 1.0, cap)) != alpha[k, row]:
                    sleep[k, row] = 0
        if per_trial > 1:
            for trial in range(trials):
                best = trial * per_trial
                for k in range(best + 1, (trial + 1) * per_trial):
                    if scores[k] > scores[best]:
                        best = k
                if not labels.own(best, row):
                    wrong[trial] += 1


def warm(sample: Sample) -> None:
    for loss, _, dtype in sample.dual_steps():
        certify_block(
            *sample.rows, loss, 1, weights(dtype), np.zeros((1, 2), dtype), np.zeros((1, 2), np.uint8), weights(),
            np.zeros((1, SUMS)), counts(),
        )  # fmt: skip
