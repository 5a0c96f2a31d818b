"""Dual coordinate ascent over the rows of blocks (lp-norm perceptron paper, Algorithm 1 and appendix C).

With momentum it is Algorithm 2, in two vectors. The extrapolated point is z = alpha + gamma^2 momentum, and A^T z =
theta + gamma^2 drift. So a step changes one entry of alpha and momentum, and the columns of one row (Fercoq and
Richtarik 2015).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.curvature import OTHER_NORMS, now_and_curvature, row_curvature
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import ONLY_PROBLEM, SampleBlock, weights
from streammargin.compiled.sleep import FETCHED, LONGEST_SLEEP, groups_at_once, longer, rows_awake
from streammargin.compiled.slow_constant import enter, follow, leave
from streammargin.losses.base import lifted
from streammargin.rows.labels import RowNumbers
from streammargin.rows.visits import VISITS_PER_CALL, in_turn

# columns of the running figures of a pass, one row per problem
PASS_GAP, MIN_MARGIN, PASS_MISTAKES, UPDATES, VISITS, ASCENT_FIGURES = range(6)
# columns of `pace`, one row per problem: gamma of the next step; of the last one; ||A^T z||_q^2; values read since its
# last exact sum
GAMMA, LAST, SQUARE, READ, PACE = range(5)


class Ahead(NamedTuple):
    """Momentum of alpha, which is then the mirror sequence; PASS_GAP and MIN_MARGIN are those of z.

    `momentum`  (K, n).
    `drift`     (K, d+1): A^T momentum.
    `steps`     (K,): rows present, the n of the paper.
    `pace`      (K, PACE): GAMMA is 1/n after a restart.
    `refresh`   values read between exact sums of ||A^T z||_q^2.
    """

    momentum: np.ndarray
    drift: np.ndarray
    steps: np.ndarray
    pace: np.ndarray
    refresh: float


@register_jitable
def next_gamma(gamma: float) -> float:
    """The positive root of x^2 = (1 - x) gamma^2."""
    return 0.5 * gamma * (math.sqrt(gamma * gamma + 4.0) - gamma)


@kernel
def sdca_turns(
    turns, labels, common, norm, problems, alpha, sleep, longest, curvature, theta, powers, power_sum, ahead, centre,
    damping, figures,
):  # fmt: skip
    """Visit every row of these turns that is awake, for every problem listed.

    `turns`      of rows/visits.py; labels: of all n rows; common: the loss, before a row's own epsilon widens it.
    `problems`   indices k of the problems to update.
    `alpha`      (K, n) duals on the C scale; sleep (K, n) uint8; longest: passes that a row may sleep, 0 for none.
    `curvature`  (n,) L_i, 0 until first needed, inf if it overflows.
    `theta`      (K, d+1) A^T alpha, powers the vector that the penalty keeps beside it (or theta), power_sum (K,).
    `ahead`      an Ahead, for which powers and power_sum stay; or None, and its parts are not compiled.
    `centre`     (K,) of the constant's weight, updated, of the averaged sequence if there is momentum; damping: 1, or
                 the factor of that weight's distance from the centre. The block's constant is then sqrt(damping) times
                 its value (slow_constant.py).
    `figures`    (K, ASCENT_FIGURES), added to. With momentum a sleeping row counts as a step of length 0.
    """
    visits, start, stop, parts = turns
    for step in range(
        start * VISITS_PER_CALL, stop * VISITS_PER_CALL
    ):  # one loop: a function takes a second more to compile
        block, lowest, listed, whole, group = visits[step % VISITS_PER_CALL]
        numbers, order = RowNumbers(lowest, listed), in_turn(whole, step // VISITS_PER_CALL, parts)
        rows = block.rows()
        at_once = groups_at_once(group)
        awake = np.empty(at_once * group, np.int64)
        for first in range(0, order.size, at_once):
            for k in problems:
                theta_k, powers_k, alpha_k, sleep_k = theta[k], powers[k], alpha[k], sleep[k]
                groups = order[first : first + at_once]
                found, asleep = rows_awake(groups, group, rows, numbers, labels, k, sleep_k, awake)
                enter(theta_k, centre[k], damping)
                if ahead is not None:
                    momentum_k, drift_k, n, pace = ahead.momentum[k], ahead.drift[k], ahead.steps[k], ahead.pace[k]
                    q, gamma, last, square = norm.q, pace[GAMMA], pace[LAST], pace[SQUARE]
                    drift_k[drift_k.size - 1] *= math.sqrt(damping)
                    for _ in range(asleep):
                        last, gamma = gamma, next_gamma(gamma)
                for place in range(min(FETCHED, found)):
                    block.prefetch_row(awake[place])
                gap, smallest, missed, updates = 0.0, np.inf, 0, 0
                for place in range(found):
                    if place + FETCHED < found:
                        block.prefetch_row(awake[place + FETCHED])
                    i = awake[place]
                    row = numbers.row(i)
                    loss, cap = lifted(common, labels.epsilon(row)), labels.cap(k, row)
                    old, L = np.float64(alpha_k[row]), curvature[row]
                    sign, shown, longer_step = labels.sign(k, row), old, 1.0
                    if ahead is not None:
                        share, speed = gamma * gamma, np.float64(momentum_k[row])
                        shown, longer_step = old + share * speed, n * gamma
                        if q != 2.0:
                            pace[READ] += block.entries(i)
                            if pace[READ] >= ahead.refresh:
                                square = norm.combined_square(theta_k, drift_k, share)
                                pace[READ] = 0.0
                        score = norm.score(block, i, theta_k, drift_k, share, square)
                        if L == 0.0:
                            L = row_curvature(block, norm, i)
                            curvature[row] = L
                    if ahead is None:
                        if L == 0.0:
                            score, L = now_and_curvature(block, norm, i, theta_k, powers_k, power_sum[k])
                            curvature[row] = L
                        else:
                            score = norm.now(block, i, theta_k, powers_k, power_sum[k])
                    u = labels.margin(k, row, score)
                    if place + 1 < found:
                        block.prefetch_weights(awake[place + 1], theta_k)
                        if ahead is not None:
                            block.prefetch_weights(awake[place + 1], drift_k)
                    if np.isfinite(cap):
                        gap += loss.gap(loss.feasible(shown, cap), u, cap)
                    smallest = min(smallest, loss.slack(u))
                    missed += loss.missed(u)
                    new = loss.step(old, u, longer_step * L, cap)
                    alpha_k[row] = new
                    change = np.float64(alpha_k[row]) - old
                    if change != 0.0:
                        if ahead is None:
                            power_sum[k] = norm.move(block, i, sign * change, theta_k, powers_k, power_sum[k])
                        if ahead is not None:
                            block.add(i, sign * change, theta_k)
                            back = max(1.0 - longer_step, 0.0) / share
                            if back > 0.0:
                                momentum_k[row] = speed - back * change
                                # the rounded change, so that drift stays A^T momentum
                                block.add(i, sign * (np.float64(momentum_k[row]) - speed), drift_k)
                            if q != 2.0:
                                # update the square as for p = 2, until the next exact sum
                                moved = longer_step * change
                                square = max(square + moved * (2.0 * sign * score + moved * L / (q - 1.0)), 0.0)
                        updates += 1
                        sleep_k[row] = 0
                    elif loss.settled(new if ahead is None else old, cap):
                        sleep_k[row] = longer(sleep_k[row], loss, u, longest)
                    if ahead is not None:
                        last, gamma = gamma, next_gamma(gamma)
                leave(theta_k, centre[k], damping)
                image = theta_k[theta_k.size - 1]
                if ahead is not None:
                    pace[GAMMA], pace[LAST], pace[SQUARE] = gamma, last, square
                    drift_k[drift_k.size - 1] /= math.sqrt(damping)
                    image += last * last * drift_k[drift_k.size - 1]
                centre[k] = follow(image, centre[k], damping, groups.size * group)
                figures[k, PASS_GAP] += gap
                figures[k, MIN_MARGIN] = min(figures[k, MIN_MARGIN], smallest)
                figures[k, PASS_MISTAKES] += missed
                figures[k, UPDATES] += updates
                figures[k, VISITS] += found


def warm(sample: SampleBlock) -> None:
    cases: list[Any] = [
        (loss, norm, np.dtype(np.float64), False) for loss in sample.losses("step") for norm in OTHER_NORMS
    ]
    cases += [(*one, fast) for one in sample.dual_steps() for fast in (False, True)]
    for loss, norm, dtype, fast in cases:
        alpha, momentum = np.zeros((2, 1, 2), dtype)
        sdca_turns(
            sample.turns, sample.labels, loss, norm, ONLY_PROBLEM, alpha, np.zeros((1, 2), np.uint8), LONGEST_SLEEP,
            np.zeros(2), weights(dtype), weights(dtype), np.zeros(1),
            Ahead(momentum, weights(dtype), np.ones(1), np.ones((1, PACE)), 0.0) if fast else None, np.zeros(1), 1.0,
            np.zeros((1, ASCENT_FIGURES)),
        )  # fmt: skip
