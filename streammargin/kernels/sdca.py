"""Dual coordinate ascent over one block (lp-norm perceptron paper, Algorithm 1 and appendix C)."""

from __future__ import annotations

import numpy as np

from streammargin.kernels import overloads  # noqa: F401
from streammargin.kernels.curvature import row_curvature
from streammargin.kernels.jit import kernel
from streammargin.kernels.samples import ONE, Sample, weights
from streammargin.kernels.sleep import FETCHED, groups_together, longer, rows_awake
from streammargin.kernels.slow_constant import enter, follow, leave
from streammargin.specs.norms import Grouped, Shrunk

# columns of the running figures of a pass, one row per problem
GAP, MIN_MARGIN, MISTAKES, UPDATES, FIGURES = 0, 1, 2, 3, 4


@kernel
def sdca_block(
    block, numbers, labels, loss, norm, order, group, problems, alpha, sleep, curvature, theta, powers, power_sum,
    centre, damping, figures,
):  # fmt: skip
    """One visit of every row of the block that is awake, for every problem listed.

    block     rows of the data; numbers, labels: of these rows, and of all n
    order     permutation of the groups of `group` consecutive rows: random access costs a cache miss
              a row, a short run of neighbours costs one a group and converges as well
    problems  numbers k of the problems to update
    alpha     (K, n) duals on the C scale; sleep (K, n) uint8; curvature (n,) L_i, 0 until
              first needed, inf where it overflowed
    theta     (K, d+1) A^T alpha, powers what the norm keeps beside it (or the same array), power_sum (K,)
    centre    (K,) of the constant's weight, which follows; damping: 1, or how far that weight goes from there, the
              constant of the block being sqrt(damping) times what it is to be
    figures   (K, FIGURES), added to
    """
    rows = block.rows()
    together = groups_together(group, problems.size)
    awake = np.empty(together * group, np.int64)
    for first in range(0, order.size, together):
        for k in problems:
            theta_k = theta[k]
            powers_k = powers[k]
            alpha_k = alpha[k]
            sleep_k = sleep[k]
            groups = order[first : first + together]
            found, _ = rows_awake(groups, group, rows, numbers, labels, k, sleep_k, awake)
            enter(theta_k, centre[k], damping)
            for place in range(min(FETCHED, found)):
                block.prefetch_row(awake[place])
            gap = 0.0
            for place in range(found):
                if place + FETCHED < found:
                    block.prefetch_row(awake[place + FETCHED])
                i = awake[place]
                row = numbers.row(i)
                cap = labels.cap(k, row)
                old = np.float64(alpha_k[row])
                u = labels.margin(k, row, norm.now(block, i, theta_k, powers_k, power_sum[k]))
                if place + 1 < found:
                    block.prefetch_weights(awake[place + 1], theta_k)
                if np.isfinite(cap):
                    gap += loss.gap(loss.feasible(old, cap), u, cap)
                figures[k, MIN_MARGIN] = min(figures[k, MIN_MARGIN], loss.slack(u))
                if loss.missed(u):
                    figures[k, MISTAKES] += 1.0
                L = curvature[row]
                if L == 0.0:
                    L = row_curvature(block, norm, i)
                    curvature[row] = L
                new = loss.step(old, u, L, cap)
                alpha_k[row] = new
                change = np.float64(alpha_k[row]) - old
                if change != 0.0:
                    power_sum[k] = norm.move(block, i, labels.sign(k, row) * change, theta_k, powers_k, power_sum[k])
                    figures[k, UPDATES] += 1.0
                    sleep_k[row] = 0
                elif loss.settled(new, cap):
                    sleep_k[row] = longer(sleep_k[row])
            leave(theta_k, centre[k], damping)
            centre[k] = follow(theta_k[theta_k.size - 1], centre[k], damping, groups.size * group)
            figures[k, GAP] += gap


def warm(sample: Sample) -> None:
    others = (Shrunk(0.5, 0.5), Grouped(np.zeros(3, np.int32), np.ones(1), 0.5, 0.5))
    steps = [(loss, norm, np.dtype(np.float64)) for loss in sample.losses("step") for norm in others]
    for loss, norm, dtype in (*sample.dual_steps(), *steps):
        sdca_block(
            *sample.rows, loss, norm, ONE, 2, ONE, np.zeros((1, 2), dtype), np.zeros((1, 2), np.uint8), np.zeros(2),
            weights(dtype), weights(dtype), np.zeros(1), np.zeros(1), 1.0, np.zeros((1, FIGURES)),
        )  # fmt: skip
