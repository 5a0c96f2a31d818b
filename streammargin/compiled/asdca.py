"""Accelerated dual coordinate ascent over the rows of blocks (lp-norm perceptron paper, Algorithm 2, in two vectors).

The extrapolated point is z = alpha + gamma^2 momentum, and A^T z = theta + gamma^2 drift. So a step changes
one entry of alpha and momentum, and the columns of one row (Fercoq and Richtarik 2015).
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.curvature import row_curvature
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import ONE, Sample, weights
from streammargin.compiled.sdca import FIGURES, GAP, MIN_MARGIN, MISTAKES, UPDATES, VISITS
from streammargin.compiled.sleep import FETCHED, LONGEST, groups_at_once, longer, rows_awake
from streammargin.compiled.slow_constant import enter, follow, leave
from streammargin.compiled.turns import in_turn
from streammargin.losses.base import lifted
from streammargin.rows.labels import RowNumbers
from streammargin.rows.visits import PLACES

# columns of `pace`, one row per problem: gamma of the next step; of the last one; ||A^T z||_q^2; values read since its
# last exact sum
GAMMA, LAST, SQUARE, READ, PACE = 0, 1, 2, 3, 4


@register_jitable
def next_gamma(gamma: float) -> float:
    """The positive root of x^2 = (1 - x) gamma^2."""
    return 0.5 * gamma * (math.sqrt(gamma * gamma + 4.0) - gamma)


@kernel
def asdca_turns(
    turns, labels, common, norm, problems, steps, refresh, alpha, momentum, sleep, longest, curvature, theta, drift,
    pace, centre, damping, figures,
):  # fmt: skip
    """Visit every row of these turns that is awake, for every problem listed.

    turns, labels, common, problems, sleep, longest, curvature: as in `sdca_turns`; a sleeping row counts as a step of
              length 0;
    steps     (K,) rows present, the n of the paper; refresh: values read between exact sums of ||A^T z||_q^2;
    alpha     (K, n) the mirror sequence on the C scale, momentum (K, n);
    theta     (K, d+1) A^T alpha, drift (K, d+1) A^T momentum;
    pace      (K, PACE), GAMMA = 1/n after a restart;
    centre, damping: as in `sdca_turns`; the centre follows the averaged sequence;
    figures   (K, FIGURES), added to; GAP and MIN_MARGIN are those of z
    """
    visits, start, stop, parts = turns
    for step in range(start * PLACES, stop * PLACES):  # one loop: a function takes a second more to compile
        block, lowest, listed, whole, group = visits[step % PLACES]
        numbers, order = RowNumbers(lowest, listed), in_turn(whole, step // PLACES, parts)
        rows = block.rows()
        q = norm.q
        at_once = groups_at_once(group, problems.size)
        awake = np.empty(at_once * group, np.int64)
        for first in range(0, order.size, at_once):
            for k in problems:
                theta_k = theta[k]
                drift_k = drift[k]
                alpha_k = alpha[k]
                momentum_k = momentum[k]
                sleep_k = sleep[k]
                n = steps[k]
                gamma = pace[k, GAMMA]
                last = pace[k, LAST]
                square = pace[k, SQUARE]
                groups = order[first : first + at_once]
                found, asleep = rows_awake(groups, group, rows, numbers, labels, k, sleep_k, awake)
                enter(theta_k, centre[k], damping)
                drift_k[drift_k.size - 1] *= math.sqrt(damping)
                for _ in range(asleep):
                    last = gamma
                    gamma = next_gamma(gamma)
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
                    share = gamma * gamma
                    if q != 2.0:
                        pace[k, READ] += block.entries(i)
                        if pace[k, READ] >= refresh:
                            square = norm.combined_square(theta_k, drift_k, share)
                            pace[k, READ] = 0.0
                    sign = labels.sign(k, row)
                    score = norm.score(block, i, theta_k, drift_k, share, square)
                    u = labels.margin(k, row, score)
                    if place + 1 < found:
                        block.prefetch_weights(awake[place + 1], theta_k)
                        block.prefetch_weights(awake[place + 1], drift_k)
                    L = curvature[row]
                    if L == 0.0:
                        L = row_curvature(block, norm, i)
                        curvature[row] = L
                    old = np.float64(alpha_k[row])
                    speed = np.float64(momentum_k[row])
                    smallest = min(smallest, loss.slack(u))
                    missed += loss.missed(u)
                    if np.isfinite(cap):
                        gap += loss.gap(loss.feasible(old + share * speed, cap), u, cap)
                    alpha_k[row] = loss.step(old, u, n * gamma * L, cap)
                    change = np.float64(alpha_k[row]) - old
                    if change != 0.0:
                        block.add(i, sign * change, theta_k)
                        updates += 1
                        back = max(1.0 - n * gamma, 0.0) / share
                        if back > 0.0:
                            momentum_k[row] = speed - back * change
                            # the rounded change, so that drift stays A^T momentum
                            block.add(i, sign * (np.float64(momentum_k[row]) - speed), drift_k)
                        if q != 2.0:
                            # update the square as for p = 2, until the next exact sum
                            moved = n * gamma * change
                            square = max(square + moved * (2.0 * sign * score + moved * L / (q - 1.0)), 0.0)
                        sleep_k[row] = 0
                    elif loss.settled(old, cap):
                        sleep_k[row] = longer(sleep_k[row], loss, u, longest)
                    last = gamma
                    gamma = next_gamma(gamma)
                pace[k, GAMMA] = gamma
                pace[k, LAST] = last
                pace[k, SQUARE] = square
                leave(theta_k, centre[k], damping)
                drift_k[drift_k.size - 1] /= math.sqrt(damping)
                image = theta_k[theta_k.size - 1] + last * last * drift_k[drift_k.size - 1]
                centre[k] = follow(image, centre[k], damping, groups.size * group)
                figures[k, GAP] += gap
                figures[k, MIN_MARGIN] = min(figures[k, MIN_MARGIN], smallest)
                figures[k, MISTAKES] += missed
                figures[k, UPDATES] += updates
                figures[k, VISITS] += found


def warm(sample: Sample) -> None:
    for loss, norm, dtype in sample.dual_steps():
        alpha, momentum = np.zeros((2, 1, 2), dtype)
        asdca_turns(
            sample.turns, sample.labels, loss, norm, ONE, np.ones(1), 0.0, alpha, momentum, np.zeros((1, 2), np.uint8),
            LONGEST, np.zeros(2), weights(dtype), weights(dtype), np.ones((1, PACE)), np.zeros(1), 1.0,
            np.zeros((1, FIGURES)),
        )  # fmt: skip
