"""Dual coordinate ascent for a loss of all lines of weights together: a step for all duals of a row at once.

    z <- x_i . W_g for all lines g
    alpha_i <- argmax over feasible a of share(a) - a.u(z) - ||x_i||^2 / 2 ||a - alpha_i||^2     (`coupled_step`)
    W_g <- W_g + sign_g (change of alpha_ig) x_i

Under the ridge W_g = sum_i sign_g alpha_ig x_i, so the step maximises the dual over the duals of the row.

Source: Keerthi, Sundararajan, Chang, Hsieh and Lin 2008, A sequential dual method for large scale multi-class linear
SVMs; Shalev-Shwartz and Zhang 2014, Accelerated proximal stochastic dual coordinate ascent.
"""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.careful import carried_sum, margin_rounding
from streammargin.compiled.classes import own_is_largest
from streammargin.compiled.jit import kernel
from streammargin.compiled.look import (
    ADDED,
    ALPHA,
    CARRY,
    DUAL,
    DUAL_SUMS,
    LOSS_CARRY,
    LOSS_SUMS,
    LOSSES,
    MISTAKES,
    PULLED,
    ROUNDING,
    SUMMED,
)
from streammargin.compiled.row_norms import length_of
from streammargin.compiled.samples import ONE, Sample, counts
from streammargin.compiled.sleep import AWAKE, FETCHED, longer
from streammargin.rows.labels import RowNumbers
from streammargin.rows.visits import PLACES, in_turn

# columns of the running figures of a pass, a row of figures for each group
GAP, SHARE, MISSED, UPDATES, VISITS, FIGURES = range(6)
SURE = 1e-12  # a row's gap, relative to its terms, below which it is one of 0 that was rounded


@kernel
def row_steps(turns, labels, loss, groups, lines, longest, alpha, sleep, squares, W, figures):
    """Make a step for every row of these turns that is awake, in every group listed.

    turns    of rows/visits.py; labels: of all n rows; groups: indices of the groups, of `lines` lines each;
    longest  passes that a row may sleep, 0 for none;
    alpha    (n, K) duals on the C scale; sleep (n, groups) uint8; squares (n,): ||x_i||^2, 0 until first needed;
    W        weights in the layout of the block's `line_scores`; figures (groups, FIGURES), added to
    """
    visits, start, stop, parts = turns
    none, u, signs = np.zeros(lines), np.empty(lines), np.empty(lines)
    old, a, z, moves = np.empty(lines), np.empty(lines), np.empty(lines, W.dtype), np.empty(lines, W.dtype)
    for step in range(start * PLACES, stop * PLACES):
        block, lowest, listed, whole, group = visits[step % PLACES]
        numbers, order = RowNumbers(lowest, listed), in_turn(whole, step // PLACES, parts)
        for place in range(order.size):
            for i in range(order[place] * group, min((order[place] + 1) * group, block.rows())):
                row = numbers.row(i)
                block.prefetch_row(i + FETCHED)
                for at in groups:
                    first = at * lines
                    cap = labels.cap(first, row)
                    if not cap > 0.0:
                        continue
                    for g in range(lines):
                        signs[g], old[g] = labels.sign(first + g, row), alpha[row, first + g]
                    share = loss.coupled_dual(signs, cap, old)
                    figures[at, SHARE] += share
                    if sleep[row, at] > AWAKE:
                        sleep[row, at] -= np.uint8(AWAKE + 1)
                        continue
                    block.line_scores(i, W, first, z)
                    if squares[row] == 0.0:
                        squares[row] = block.sum_powers(i, 2.0)
                    met = 0.0
                    for g in range(lines):
                        u[g] = labels.margin(first + g, row, np.float64(z[g]))
                        met += old[g] * u[g]
                    value, _, _ = loss.coupled_step(u, signs, none, old, cap, squares[row], a)
                    figures[at, GAP] += value - share + met
                    figures[at, MISSED] += not own_is_largest(labels, first, row, z)
                    figures[at, VISITS] += 1.0
                    moved = False
                    for g in range(lines):
                        alpha[row, first + g] = a[g]
                        change = np.float64(alpha[row, first + g]) - old[g]
                        moves[g] = signs[g] * change
                        moved = moved or change != 0.0
                    if moved:
                        block.add_to_lines(i, moves, W, first)
                        figures[at, UPDATES] += 1.0
                        sleep[row, at] = 0
                    else:
                        sleep[row, at] = longer(sleep[row, at], loss, 0.0, longest)


@kernel
def certify_rows(block, numbers, labels, loss, groups, lines, alpha, sleep, W, blur, losses, duals, pull, wrong):
    """Add the exact sums of a block's rows at frozen weights W and their duals, as compiled/look.py has them.

    W: as in `row_steps`; blur (K,): eps times the norms of the lines; losses (K, LOSS_SUMS), in the first line of each
    group; duals (K, 1, DUAL_SUMS); pull: A^T alpha in float64, in the layout of W; wrong (groups,): rows whose class is
    not the one with the largest score. Sleeping rows whose duals are not the best are woken up.
    """
    u, signs, old = np.empty(lines), np.empty(lines), np.empty(lines)
    off, a, z, moves = np.empty(lines), np.empty(lines), np.empty(lines), np.empty(lines)
    for i in range(block.rows()):
        row = numbers.row(i)
        block.prefetch_row(i + FETCHED)
        if not labels.weight(row) > 0.0:
            continue
        size = length_of(block, i, np.sqrt(block.sum_powers(i, 2.0)))
        for at in groups:
            first = at * lines
            cap = labels.cap(first, row)
            if not cap > 0.0:
                continue
            block.line_scores(i, W, first, z)
            for g in range(lines):
                u[g], signs[g] = labels.margin(first + g, row, z[g]), labels.sign(first + g, row)
                off[g] = margin_rounding(block.entries(i) + 1, size, blur[first + g])
                old[g] = alpha[row, first + g]
            value, share, slip = loss.coupled_step(u, signs, off, old, cap, math.inf, a)
            met, aimed = 0.0, 0.0
            for g in range(lines):
                moves[g] = signs[g] * a[g]
                met += a[g] * u[g]
                aimed += a[g] * labels.target(first + g, row)
                line = duals[first + g, 0]
                line[ALPHA] += abs(a[g])
                line[SUMMED] += 2.0 * abs(a[g]) + abs(a[g] * labels.target(first + g, row))
                line[PULLED] += abs(a[g]) * size
                line[ADDED] += 1.0
            block.add_to_lines(i, moves, pull, first)
            sums, line = losses[first], duals[first, 0]
            sums[LOSSES], sums[LOSS_CARRY] = carried_sum(sums[LOSSES], sums[LOSS_CARRY], value)
            sums[ROUNDING] += slip
            line[DUAL], line[CARRY] = carried_sum(line[DUAL], line[CARRY], share + aimed)
            line[SUMMED] += abs(share)
            if not own_is_largest(labels, first, row, z):
                sums[MISTAKES] += 1.0
                wrong[at] += 1
            if value - share + met > SURE * (value + abs(share) + abs(met)):
                sleep[row, at] = min(sleep[row, at], AWAKE)


def warm(sample: Sample) -> None:
    block, numbers, _ = sample.rows
    for loss in sample.joint_losses():
        for dtype in {np.dtype(np.float64), sample.dtype}:
            W = np.zeros((3, 2) if sample.sparse else (2, 3), dtype)
            alpha, sleep = np.zeros((2, 2), dtype), np.zeros((2, 1), np.uint8)
            row_steps(
                sample.turns, sample.joint_labels, loss, ONE, 2, 0, alpha, sleep, np.zeros(2), W,
                np.zeros((1, FIGURES)),
            )  # fmt: skip
            certify_rows(
                block, numbers, sample.joint_labels, loss, ONE, 2, alpha, sleep, W, np.zeros(2),
                np.zeros((2, LOSS_SUMS)), np.zeros((2, 1, DUAL_SUMS)), np.zeros(W.shape), counts(),
            )  # fmt: skip
