"""Subgradient steps on the regularised hinge loss with a decreasing penalty (homotopic paper, Algorithm 1)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import ONLY_PROBLEM, SampleBlock, weights
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, RowNumbers

# columns of `carried`, one row per problem: outer iterations done; steps of the current one; the sum of the
# coefficients of the rows in v; the same for `kept` (the sum of the iterates, or the best one), and the objective of
# the best iterate
OUTER_DONE, INNER_DONE, ITERATE_MASS, KEPT_MASS, BEST_OBJECTIVE, CARRIED = range(6)


# how the penalty lambda_s falls with s = s0, s0 + 1, ...
POWER_DECAY, LOG_DECAY, EXPONENTIAL_DECAY = range(3)


class Schedule(NamedTuple):
    """The parameters of Algorithm 1; decay: lambda_s is s^-p, 1/log s, or base^(s - s0) (section 6.2)."""

    s0: float
    p: float
    r: float
    decay: int
    base: float


@register_jitable
def penalty_of(outer: float, schedule: Schedule) -> float:
    """lambda_s in outer iteration s - s0 = 0, 1, ..."""
    s = schedule.s0 + outer
    if schedule.decay == LOG_DECAY:
        return 1.0 / math.log(s)
    if schedule.decay == EXPONENTIAL_DECAY:
        return schedule.base**outer
    return s ** (-schedule.p)


@register_jitable
def rates(outer: float, schedule: Schedule) -> tuple[float, float, float]:
    """lambda_s, t_s and eta_s in outer iteration s - s0 = 0, 1, ... (Algorithm 1, with the C of Lemma 4.3)."""
    s0, p, r = schedule.s0, schedule.p, schedule.r
    epsilon = (math.log(s0) - math.log(s0 - 1.0)) / math.log(s0)
    alpha = min((r - 2.0 * p) / (2.0 * (1.0 + epsilon)), 1.0 - p)
    C = max(4.0, 0.5 * (s0 - 1.0) ** alpha / penalty_of(0.0, schedule))
    s = s0 + outer
    steps = np.ceil(s**r)
    return penalty_of(outer, schedule), steps, C * (s - 1.0) ** (-alpha) / math.sqrt(steps)


@register_jitable
def look(
    block: Block, numbers: RowNumbers, labels: Labels, start: int, stop: int, k: int, v_k: np.ndarray, scale: float,
    inside: np.ndarray,
) -> tuple[int, int, float]:  # fmt: skip
    """Fill inside (group,) with the signs of the rows start .. stop that have a margin <= 1 under v_k (d+1,), else 0.

    Returns (rows present, rows inside, sum of the hinge losses).
    """
    present = 0
    hits = 0
    hinge = 0.0
    for i in range(start, stop):
        inside[i - start] = 0.0
        row = numbers.row(i)
        if not labels.cap(k, row) > 0.0:
            continue
        present += 1
        sign = labels.sign(k, row)
        u = sign * scale * block.exact_dot(i, v_k)
        if u <= 1.0:
            inside[i - start] = sign
            hits += 1
            hinge += 1.0 - u
    return present, hits, hinge


@kernel
def stochastic_block(block, numbers, labels, order, group, active, schedule, average, scale, v, kept, landed, carried):
    """A step for every group of rows of the block, including the ends of outer iterations (section 6.3).

    `order`    permutation of the groups of `group` consecutive rows.
    `schedule` of the penalty and the steps.
    `average`  whether an outer iteration ends with the mean of its iterates. Else it ends with that of the least
               objective, estimated on the rows of the following step.
    `v`        (K, d+1) iterates, for rows times scale; kept (K, d+1) the sum of the iterates, or the best one.
    `landed`   (K, d+2) end point of the last outer iteration, with its mass in the last column.
    `carried`  (K, CARRIED).
    """
    inside = np.empty(group)
    width = v.shape[1]
    for position in range(order.size):
        start = order[position] * group
        stop = min(start + group, block.rows())
        for k in active:
            v_k = v[k]
            kept_k = kept[k]
            c = carried[k]
            present, hits, hinge = look(block, numbers, labels, start, stop, k, v_k, scale, inside)
            if present == 0:
                continue
            penalty, steps, eta = rates(c[OUTER_DONE], schedule)
            if not average and c[INNER_DONE] > 0.0:
                objective = hinge / present
                for j in range(width):
                    objective += 0.5 * penalty * v_k[j] * v_k[j]
                if objective < c[BEST_OBJECTIVE]:
                    c[BEST_OBJECTIVE] = objective
                    c[KEPT_MASS] = c[ITERATE_MASS]
                    for j in range(width):
                        kept_k[j] = v_k[j]
            for j in range(width):
                v_k[j] *= 1.0 - penalty * eta
            for i in range(start, stop):
                if inside[i - start] != 0.0:
                    block.add(i, inside[i - start] * eta * scale / present, v_k)
            c[ITERATE_MASS] = (1.0 - penalty * eta) * c[ITERATE_MASS] + eta * hits / present
            if average:
                for j in range(width):
                    kept_k[j] += v_k[j]
                c[KEPT_MASS] += c[ITERATE_MASS]
            c[INNER_DONE] += 1.0
            if c[INNER_DONE] < steps:
                continue
            share = 1.0 / steps if average else 1.0
            for j in range(width):
                v_k[j] = landed[k, j] = share * kept_k[j]
            c[ITERATE_MASS] = landed[k, width] = share * c[KEPT_MASS]
            kept_k[:] = 0.0
            c[KEPT_MASS] = 0.0
            c[BEST_OBJECTIVE] = np.inf
            c[INNER_DONE] = 0.0
            c[OUTER_DONE] += 1.0


def warm(sample: SampleBlock) -> None:
    stochastic_block(
        *sample.rows, ONLY_PROBLEM, 2, ONLY_PROBLEM, Schedule(10.0, 0.5, 2.0, POWER_DECAY, 0.9), True, 1.0, weights(),
        weights(), np.zeros((1, 4)), np.zeros((1, CARRIED)),
    )  # fmt: skip
