"""Primal steps along single rows: perceptron, mirror descent, and Pegasos, in one loop.

All three add positive multiples of signed rows to theta, with w = mirror(theta) (lp-norm perceptron paper, eq. (10)
and its baselines; Pegasos: Shalev-Shwartz et al. 2007).
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import NORMS, ONLY_PROBLEM, SampleBlock, weights
from streammargin.rows.steps import perceptron

# columns of `carried`, kept for the whole training: rows seen; the sum of their caps; the sum of the multiples added to
# theta; the sum of the weights of the iterates; the part of it in `mean` (p < 2); updates since the last `renew`
ROWS_SEEN, CAPS, TOTAL, CLOCK, COUNTED, AGE, CARRIED = range(7)
# columns of the running figures of a pass
LOSS, MIN_MARGIN, PASS_MISTAKES, UPDATES, PRIMAL_FIGURES = range(5)
LARGE_POWER_SUM, SMALL_POWER_SUM = 1e100, 1e-100  # beyond these `renew` follows, before a float64 over- or underflows
STEEP = 256.0  # for q up to this, 2^q < LARGE_POWER_SUM
LEAST_AGE = 1024  # least number of updates between two `renew`, which costs d powers


@register_jitable
def renew(theta: np.ndarray, powers: np.ndarray, q: float) -> tuple[float, float]:
    """Divide theta by a number near max |theta| and recompute its powers; returns (sum |theta|^q, divisor).

    The divisor is a power of two, so that nothing is rounded, unless powers of numbers below 2 could overflow.
    """
    top = 0.0
    for j in range(theta.size):
        top = max(top, abs(theta[j]))
    factor = 1.0
    if top > 0.0:
        factor = top if q > STEEP else 2.0 ** np.floor(np.log2(top))
    total = 0.0
    for j in range(theta.size):
        theta[j] /= factor
        powers[j] = np.sign(theta[j]) * abs(theta[j]) ** (q - 1.0)
        total += theta[j] * powers[j]
    return total, factor


@kernel
def primal_block(
    block, numbers, labels, norm, rule, base, order, group, problems, theta, powers, power_sum, unit, mean, carried,
    figures,
):  # fmt: skip
    """Visit every row of the block, for every problem listed.

    `block`     rows of the data; numbers, labels: of these rows, and of all n.
    `rule`      what a step adds (rows/steps.py).
    `base`      a power of two: rows are used as x / base, as their squares might overflow.
    `order`     permutation of the groups of `group` consecutive rows.
    `problems`  indices k of the problems to update.
    `theta`     (K, d+1) in units of unit (K,), powers its mirrored powers (the same array at p = 2), power_sum (K,).
    `mean`      (K, d+1), or (K, 0) for no average. Iterate t has the weight g_t, and G_t = g_0 + ... + g_{t-1}. For p =
                2 it is the sum of the changes of theta, each times G_t. Then sum g_t w_t = CLOCK theta - mean takes no
                O(d) work per change. For p < 2 it is sum g_t w_t itself, without the current w.
    `carried`   (K, CARRIED), figures (K, PRIMAL_FIGURES): added to.
    """
    averaging = mean.shape[1] > 0
    euclidean = norm.q == 2.0
    for position in range(order.size):
        start = order[position] * group
        for i in range(start, min(start + group, block.rows())):
            row = numbers.row(i)
            if not labels.weight(row) > 0.0:
                continue
            block.prefetch_row(i + 2)
            for k in problems:
                cap = labels.cap(k, row)
                if not cap > 0.0:
                    continue
                sign = labels.sign(k, row)
                share = rule.factor(carried[k, ROWS_SEEN])
                scale = unit[k] * norm.scale(power_sum[k])
                u = sign * share * scale * np.float64(block.dot(i, powers[k])) / base
                carried[k, ROWS_SEEN] += 1.0
                carried[k, CLOCK] += share
                figures[k, MIN_MARGIN] = min(figures[k, MIN_MARGIN], u)
                if u <= 0.0:
                    figures[k, PASS_MISTAKES] += 1.0
                if np.isfinite(cap):
                    carried[k, CAPS] += cap
                    figures[k, LOSS] += cap * (1.0 - u) if u < 1.0 else 0.0
                if not rule.moves(u):
                    continue
                step = rule.multiple(u, cap)
                if averaging:
                    if euclidean:
                        block.add(i, sign * step * carried[k, CLOCK] / base, mean[k])
                    else:
                        pending = carried[k, CLOCK] - carried[k, COUNTED]
                        for j in range(mean.shape[1]):
                            mean[k, j] += pending * scale * powers[k, j]
                        carried[k, COUNTED] = carried[k, CLOCK]
                carried[k, TOTAL] += step
                figures[k, UPDATES] += 1.0
                power_sum[k] = norm.move(block, i, sign * step / (base * unit[k]), theta[k], powers[k], power_sum[k])
                if not euclidean:
                    carried[k, AGE] += 1.0
                    old = carried[k, AGE] > max(theta.shape[1], LEAST_AGE)  # rounding accumulates
                    if old or not SMALL_POWER_SUM < power_sum[k] < LARGE_POWER_SUM:
                        power_sum[k], factor = renew(theta[k], powers[k], norm.q)
                        unit[k] *= factor
                        carried[k, AGE] = 0.0


def warm(sample: SampleBlock) -> None:
    for norm in NORMS:
        primal_block(
            *sample.rows, norm, perceptron(), 1.0, ONLY_PROBLEM, 2, ONLY_PROBLEM, weights(), weights(), np.zeros(1),
            np.ones(1), np.zeros((1, 0)), np.zeros((1, CARRIED)), np.zeros((1, PRIMAL_FIGURES)),
        )  # fmt: skip
