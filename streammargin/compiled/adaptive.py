"""Adaptive sampling inside one block (dual acceleration paper, Algorithm 2 and section 5.2)."""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import SampleBlock, counts, weights
from streammargin.rows.blocks import CSRBlock

# figures of one problem
STEPS_DONE, MASS_G, MASS_W, SMALLEST_SEEN_MARGIN, LOG_MASS, ADAPTIVE_FIGURES = range(6)


@kernel
def transpose(data, indices, indptr, columns, starts, rows, values):
    """Transpose CSR rows by a counting sort: column j has the rows and values at starts[j] .. starts[j + 1]."""
    starts[:] = 0
    for place in range(data.size):
        starts[indices[place] + 1] += 1
    for j in range(columns):
        starts[j + 1] += starts[j]
    for i in range(indptr.size - 1):
        for place in range(indptr[i], indptr[i + 1]):
            j = indices[place]
            rows[starts[j]] = i
            values[starts[j]] = data[place]
            starts[j] += 1
    for j in range(columns, 0, -1):
        starts[j] = starts[j - 1]
    starts[0] = 0


@register_jitable
def _products(block, inverted, i, size, row, out):
    """row (d+1,) = x_i / size, and out[j] = x_j . x_i / size^2 for every row j of the block."""
    row[:] = 0.0
    block.add(i, 1.0 / size, row)
    if inverted.rows() > 0:
        d = row.size - 1
        out[:] = row[d] * (block.bias / size)
        for j in range(d):
            if row[j] != 0.0:
                inverted.add(j, row[j] / size, out)
    else:
        for j in range(block.rows()):
            out[j] = block.exact_dot(j, row) / size


@register_jitable
def _draw(uniforms, step, total, low, outside):
    """A random point of the total mass, inside plus outside the block; >= total: a row outside. Step 0 is inside."""
    if step == uniforms.size or not total > 0.0:
        return np.inf
    beyond = math.exp(min(outside + low, 700.0)) if step > 0 else 0.0
    return uniforms[step] * (total + beyond)


@register_jitable
def _log_mass(low, total):
    return math.log(total) - low if total > 0.0 else -np.inf


@register_jitable
def count_step(figures: np.ndarray, rate: float, momentum: bool) -> float:
    """Add a step to the figures; returns beta, the share of g that stays."""
    beta = figures[STEPS_DONE] / (figures[STEPS_DONE] + 1.0) if momentum else 0.0
    figures[STEPS_DONE] += 1.0
    figures[MASS_W] += rate * (beta * (figures[MASS_G] + 1.0) + 1.0)
    figures[MASS_G] = beta * (figures[MASS_G] + 1.0)
    return beta


@kernel
def adaptive_block(block, numbers, labels, inverted, k, size, rate, momentum, uniforms, outside, w, g, figures):
    """Steps of problem k on the rows of the block, at most one for each of the uniforms; rows are divided by `size`.

    Row i is drawn with a probability proportional to exp(-a_i.w); then g <- beta (g + a_i) and w <- w + rate (g + a_i),
    where beta = t / (t + 1) with momentum and 0 without. (The paper's g has the other sign.) After the first
    step, a draw that falls on a row outside the block ends the visit.

    `block`, `inverted`  rows of the data, and their transpose, a CSRBlock of d rows (0 rows: not available).
    `outside`            log of the sum of exp(-a_i.w) over the rows outside the block, -inf if there are none.
    `w`, `g`             (d+1,) of this problem: combinations of rows with coefficients >= 0.
    `figures`            (ADAPTIVE_FIGURES,): STEPS_DONE t; MASS_G and MASS_W the sums of those coefficients;
                         SMALLEST_SEEN_MARGIN out: smallest a_i.w before the first step; LOG_MASS out: log sum
                         exp(-a_i.w) after the last step.
    """
    m = block.rows()
    # one more entry, for the constant column of `inverted`
    scores, carried, column, chances = np.zeros(m + 1), np.zeros(m + 1), np.zeros(m + 1), np.zeros(m)
    signs = np.zeros(m)
    row = np.zeros(w.size)
    for j in range(m):
        number = numbers.row(j)
        if labels.weight(number) > 0.0:
            signs[j] = labels.sign(k, number)
            scores[j] = signs[j] * (block.exact_dot(j, w) / size)
            carried[j] = signs[j] * (block.exact_dot(j, g) / size)
            figures[SMALLEST_SEEN_MARGIN] = min(figures[SMALLEST_SEEN_MARGIN], scores[j])
    for step in range(uniforms.size + 1):
        low = np.inf
        for j in range(m):
            if signs[j] != 0.0:
                low = min(low, scores[j])
        total = 0.0
        for j in range(m):
            if signs[j] != 0.0:
                chances[j] = np.exp(low - scores[j])
                total += chances[j]
        left = _draw(uniforms, step, total, low, outside)
        if not left < total:
            figures[LOG_MASS] = _log_mass(low, total)
            break
        i = -1
        for j in range(m):
            if chances[j] > 0.0:
                i = j
                left -= chances[j]
                if left < 0.0:
                    break
        beta = count_step(figures, rate, momentum)
        _products(block, inverted, i, size, row, column)
        for j in range(m):
            value = signs[j] * signs[i] * column[j]
            carried[j] = beta * (carried[j] + value)
            scores[j] += rate * (carried[j] + value)
        for j in range(w.size):
            value = signs[i] * row[j]
            g[j] = beta * (g[j] + value)
            w[j] += rate * (g[j] + value)


@kernel
def adaptive_joint_block(block, numbers, labels, inverted, size, rate, momentum, uniforms, outside, w, g, figures):
    """The same for a joint margin: the rows are x_i (e_c - e_c') / sqrt 2, c the class of x_i, c' another one.

    w and g (K, d+1) have a row for each class of `positive`. figures (ADAPTIVE_FIGURES,) as above.
    """
    m = block.rows()
    K = w.shape[0]
    root = math.sqrt(0.5)
    scores, carried, chances = np.zeros((K, m)), np.zeros((K, m)), np.zeros((K, m))
    column = np.zeros(m + 1)
    line = np.full(m, -1)  # index of each row's class
    row = np.zeros(w.shape[1])
    for j in range(m):
        number = numbers.row(j)
        if labels.weight(number) > 0.0:
            for k in range(K):
                if labels.own(k, number):
                    line[j] = k
        if line[j] >= 0:
            for k in range(K):
                scores[k, j] = block.exact_dot(j, w[k]) / size
                carried[k, j] = block.exact_dot(j, g[k]) / size
            for k in range(K):
                if k != line[j]:
                    figures[SMALLEST_SEEN_MARGIN] = min(
                        figures[SMALLEST_SEEN_MARGIN], root * (scores[line[j], j] - scores[k, j])
                    )
    for step in range(uniforms.size + 1):
        low = np.inf
        for j in range(m):
            if line[j] >= 0:
                for k in range(K):
                    if k != line[j]:
                        low = min(low, root * (scores[line[j], j] - scores[k, j]))
        total = 0.0
        for j in range(m):
            if line[j] >= 0:
                for k in range(K):
                    if k != line[j]:
                        chances[k, j] = np.exp(low - root * (scores[line[j], j] - scores[k, j]))
                        total += chances[k, j]
        left = _draw(uniforms, step, total, low, outside)
        if not left < total:
            figures[LOG_MASS] = _log_mass(low, total)
            break
        i, other = -1, -1
        for j in range(m):
            for k in range(K):
                if left >= 0.0 and chances[k, j] > 0.0:
                    i, other = j, k
                    left -= chances[k, j]
            if left < 0.0:
                break
        beta = count_step(figures, rate, momentum)
        _products(block, inverted, i, size, row, column)
        for k in range(K):
            sign = root if k == line[i] else (-root if k == other else 0.0)
            for j in range(m):
                value = sign * column[j]
                carried[k, j] = beta * (carried[k, j] + value)
                scores[k, j] += rate * (carried[k, j] + value)
            for j in range(row.size):
                value = sign * row[j]
                g[k, j] = beta * (g[k, j] + value)
                w[k, j] += rate * (g[k, j] + value)


def warm(sample: SampleBlock) -> None:
    inverted = CSRBlock(np.ones(2, sample.dtype), np.zeros(2, np.uint32), np.array([0, 1, 2]), 2, 0.0)
    if isinstance(sample.block, CSRBlock):
        data, indices, indptr = sample.block[:3]
        transpose(data, indices, indptr, 2, counts(3), indices.copy(), data.copy())
    steps = 1.0, 1.0, True, np.ones(1), 0.0
    w, g, figures = weights(), weights(), np.zeros(ADAPTIVE_FIGURES)
    adaptive_block(*sample.rows, inverted, 0, *steps, w[0], g[0], figures)
    adaptive_joint_block(*sample.rows, inverted, *steps, w, g, figures)
