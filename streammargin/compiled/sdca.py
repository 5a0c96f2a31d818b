"""Dual coordinate ascent over the rows of blocks (lp-norm perceptron paper, Algorithm 1 and appendix C)."""

from __future__ import annotations

import numpy as np

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.curvature import OTHERS, now_and_curvature
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import ONE, Sample, weights
from streammargin.compiled.sleep import FETCHED, LONGEST, groups_at_once, longer, rows_awake
from streammargin.compiled.slow_constant import enter, follow, leave
from streammargin.compiled.turns import in_turn
from streammargin.losses.base import lifted
from streammargin.rows.labels import RowNumbers
from streammargin.rows.visits import PLACES

# columns of the running figures of a pass, one row per problem
GAP, MIN_MARGIN, MISTAKES, UPDATES, VISITS, FIGURES = 0, 1, 2, 3, 4, 5


@kernel
def sdca_turns(
    turns, labels, common, norm, problems, alpha, sleep, longest, curvature, theta, powers, power_sum, centre, damping,
    figures,
):  # fmt: skip
    """Visit every row of these turns that is awake, for every problem listed.

    turns     of rows/visits.py; labels: of all n rows; common: the loss, before a row's own epsilon widens it;
    problems  indices k of the problems to update;
    alpha     (K, n) duals on the C scale; sleep (K, n) uint8; longest: passes that a row may sleep, 0 for none;
    curvature (n,) L_i, 0 until first needed, inf if it overflows;
    theta     (K, d+1) A^T alpha, powers the vector that the penalty keeps beside it (or theta), power_sum (K,);
    centre    (K,) of the constant's weight, updated; damping: 1, or the factor of that weight's distance from the
              centre. The block's constant is then sqrt(damping) times its value (slow_constant.py);
    figures   (K, FIGURES), added to
    """
    visits, start, stop, parts = turns
    for step in range(start * PLACES, stop * PLACES):  # one loop: a function takes a second more to compile
        block, lowest, listed, whole, group = visits[step % PLACES]
        numbers, order = RowNumbers(lowest, listed), in_turn(whole, step // PLACES, parts)
        rows = block.rows()
        at_once = groups_at_once(group, problems.size)
        awake = np.empty(at_once * group, np.int64)
        for first in range(0, order.size, at_once):
            for k in problems:
                theta_k = theta[k]
                powers_k = powers[k]
                alpha_k = alpha[k]
                sleep_k = sleep[k]
                groups = order[first : first + at_once]
                found, _ = rows_awake(groups, group, rows, numbers, labels, k, sleep_k, awake)
                enter(theta_k, centre[k], damping)
                for place in range(min(FETCHED, found)):
                    block.prefetch_row(awake[place])
                gap, smallest, missed, updates = 0.0, np.inf, 0, 0
                for place in range(found):
                    if place + FETCHED < found:
                        block.prefetch_row(awake[place + FETCHED])
                    i = awake[place]
                    row = numbers.row(i)
                    loss = lifted(common, labels.epsilon(row))
                    cap = labels.cap(k, row)
                    old = np.float64(alpha_k[row])
                    L = curvature[row]
                    if L == 0.0:
                        score, L = now_and_curvature(block, norm, i, theta_k, powers_k, power_sum[k])
                        curvature[row] = L
                    else:
                        score = norm.now(block, i, theta_k, powers_k, power_sum[k])
                    u = labels.margin(k, row, score)
                    if place + 1 < found:
                        block.prefetch_weights(awake[place + 1], theta_k)
                    if np.isfinite(cap):
                        gap += loss.gap(loss.feasible(old, cap), u, cap)
                    smallest = min(smallest, loss.slack(u))
                    missed += loss.missed(u)
                    new = loss.step(old, u, L, cap)
                    alpha_k[row] = new
                    change = np.float64(alpha_k[row]) - old
                    if change != 0.0:
                        move = labels.sign(k, row) * change
                        power_sum[k] = norm.move(block, i, move, theta_k, powers_k, power_sum[k])
                        updates += 1
                        sleep_k[row] = 0
                    elif loss.settled(new, cap):
                        sleep_k[row] = longer(sleep_k[row], loss, u, longest)
                leave(theta_k, centre[k], damping)
                centre[k] = follow(theta_k[theta_k.size - 1], centre[k], damping, groups.size * group)
                figures[k, GAP] += gap
                figures[k, MIN_MARGIN] = min(figures[k, MIN_MARGIN], smallest)
                figures[k, MISTAKES] += missed
                figures[k, UPDATES] += updates
                figures[k, VISITS] += found


def warm(sample: Sample) -> None:
    steps = [(loss, norm, np.dtype(np.float64)) for loss in sample.losses("step") for norm in OTHERS]
    for loss, norm, dtype in (*sample.dual_steps(), *steps):
        sdca_turns(
            sample.turns, sample.labels, loss, norm, ONE, np.zeros((1, 2), dtype), np.zeros((1, 2), np.uint8),
            LONGEST, np.zeros(2), weights(dtype), weights(dtype), np.zeros(1), np.zeros(1), 1.0,
            np.zeros((1, FIGURES)),
        )  # fmt: skip
