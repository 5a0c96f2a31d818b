"""One proximal step on all duals, and what certifies the weights that it saw, a block at a time (Pdprox paper)."""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.careful import carried_sum, loss_rounding, margin_rounding
from streammargin.compiled.jit import kernel
from streammargin.compiled.row_norms import row_norm
from streammargin.compiled.samples import ONE, Sample, counts, weights

# columns of the sums of the weights, and of those of the duals, as in certificate.py; carries stand at the end
LOSSES, MISTAKES, ROUNDING, LOSS_CARRY, LOSS_SUMS = range(5)
DUAL, ALPHA, SUMMED, PULLED, MOVED, CARRY = range(6)
DUAL_SUMS = CARRY + 2


@register_jitable
def add_dual(sums, dual, met, a, size, change):
    """One row's share of the sums of the duals."""
    sums[DUAL], sums[CARRY] = carried_sum(sums[DUAL], sums[CARRY], dual + met)
    sums[ALPHA], sums[CARRY + 1] = carried_sum(sums[ALPHA], sums[CARRY + 1], abs(a))
    sums[SUMMED] += abs(dual) + abs(met) + 2.0 * abs(a)
    sums[PULLED] += abs(a) * size
    sums[MOVED] += change * change


@kernel
def pdprox_block(
    block, numbers, labels, loss, trials, problems, w, lift, blur, curvature, twice, alpha, total, pull, losses, duals,
    wrong,
):  # fmt: skip
    """alpha_i <- argmax over feasible a of dual_i(a) - a u_i - curvature/2 (a - alpha_i)^2 for every row of the block.

    problems   numbers k of the problems whose duals move; w: (V, K, d+1) weights, the duals see the first ones; the
               others are only looked at; lift (V, K): what is added to their margins, for the losses; blur (V, K): eps
               times their norms
    curvature  (K,), one over the step of the duals; 0: the duals that are best for the margins as they are;
               inf: duals that stay
    twice      alpha makes the step, and what is pulled is another from there (the paper's Algorithm 1)
    alpha      (K, n); total (K, n), or (K, 0): the duals are added to it
    pull       (K, S, d+1), added to: sum_i alpha_i a_i; with S = 2 the duals that pull the constant column down have a
               sum of their own, the second
    losses     (V, K, LOSS_SUMS) of all weights, duals (K, S, DUAL_SUMS), added to; ALPHA: sum of |alpha_i|; MOVED: of
               squared changes
    wrong      (V, trials), added to: rows whose class is not the one with the largest score, of several classes
    """
    V, K = w.shape[:2]
    per_trial = K // trials
    scores = np.empty((V, K))
    for i in range(block.rows()):
        row = numbers.row(i)
        if not labels.weight(row) > 0.0:
            continue
        block.prefetch_row(i + 2)
        size = row_norm(block, i, 2.0)
        for v in range(V):
            for k in range(K):
                scores[v, k] = block.exact_dot(i, w[v, k])
                cap = labels.cap(k, row)
                if cap > 0.0:
                    margin = labels.margin(k, row, scores[v, k])
                    u = margin + lift[v, k]
                    value = loss.primal(u, cap)
                    sums = losses[v, k]
                    sums[LOSSES], sums[LOSS_CARRY] = carried_sum(sums[LOSSES], sums[LOSS_CARRY], value)
                    rounding = margin_rounding(block.entries(i) + 1, size, blur[v, k])
                    sums[ROUNDING] += loss_rounding(loss, u, rounding, cap, value)
                    if labels.wrong(k, row, margin):
                        sums[MISTAKES] += 1.0
            if per_trial > 1:
                for trial in range(trials):
                    best = trial * per_trial
                    for k in range(best + 1, (trial + 1) * per_trial):
                        if scores[v, k] > scores[v, best]:
                            best = k
                    if not labels.own(best, row):
                        wrong[v, trial] += 1
        for k in problems:
            cap = labels.cap(k, row)
            if not cap > 0.0:
                continue
            u = labels.margin(k, row, scores[0, k]) + lift[0, k]
            old = alpha[k, row]
            a = old if curvature[k] == np.inf else loss.step(old, u, curvature[k], cap)
            alpha[k, row] = a
            change = a - old
            if twice:
                a = loss.step(a, u, curvature[k], cap)
            if total.shape[1] > 0:
                total[k, row] += a
            along = labels.sign(k, row) * a
            side = 1 if along < 0.0 and pull.shape[1] > 1 else 0
            add_dual(duals[k, side], loss.dual(a, cap), a * labels.target(row), a, size, change)
            if a != 0.0:
                block.add(i, along, pull[k, side])


def warm(sample: Sample) -> None:
    for loss in sample.losses("step"):
        pdprox_block(
            *sample.rows, loss, 1, ONE, np.zeros((2, 1, 3)), np.zeros((2, 1)), np.zeros((2, 1)), np.ones(1), False,
            np.zeros((1, 2)), np.zeros((1, 2)), weights()[None], np.zeros((2, 1, LOSS_SUMS)),
            np.zeros((1, 1, DUAL_SUMS)), counts(2)[:, None],
        )  # fmt: skip
