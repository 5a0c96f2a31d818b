"""Dual coordinate ascent for a loss of all lines of weights together: a step for all duals of a row at once.

    z <- x_i . W_g for all lines g;
    alpha_i <- argmax over feasible a of share(a) - a.u(z) - ||x_i||^2 / 2 ||a - alpha_i||^2     (`coupled_step`);
    W_g <- W_g + sign_g (change of alpha_ig) x_i.

Under the ridge W_g = sum_i sign_g alpha_ig x_i, so the step maximises the dual over the duals of the row.

Source: Keerthi, Sundararajan, Chang, Hsieh and Lin 2008, A sequential dual method for large scale multi-class linear
SVMs; Shalev-Shwartz and Zhang 2014, Accelerated proximal stochastic dual coordinate ascent.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from streammargin.compiled import overloads  # noqa: F401
from streammargin.compiled.classes import own_is_largest
from streammargin.compiled.jit import kernel
from streammargin.compiled.samples import ONLY_PROBLEM, SampleBlock
from streammargin.compiled.sleep import AWAKE, FETCHED, longer
from streammargin.rows.blocks import Block, DenseBlock
from streammargin.rows.labels import RowNumbers
from streammargin.rows.products import ahead
from streammargin.rows.visits import VISITS_PER_CALL, all_at_once, in_turn

# columns of the running figures of a pass, a row of figures for each group
PASS_GAP, PASS_DUAL_SHARE, MISSED, UPDATES, VISITS, COUPLED_FIGURES = range(6)


@kernel
def row_steps(turns, labels, loss, groups, lines, longest, alpha, sleep, squares, W, figures):
    """Make a step for every row of these turns that is awake, in every group listed.

    `turns`    of rows/visits.py; labels: of all n rows; groups: indices of the groups, of `lines` lines each.
    `longest`  passes that a row may sleep, 0 for none.
    `alpha`    (n, K) duals on the C scale; sleep (n, groups) uint8; squares (n,): ||x_i||^2, 0 until first needed.
    `W`        weights in the layout of the block's `line_scores`; figures (groups, COUPLED_FIGURES), added to.
    """
    visits, start, stop, parts = turns
    none, u, signs = np.zeros(lines), np.empty(lines), np.empty(lines)
    old, a, z, moves = np.empty(lines), np.empty(lines), np.empty(lines, W.dtype), np.empty(lines, W.dtype)
    for step in range(start * VISITS_PER_CALL, stop * VISITS_PER_CALL):
        block, lowest, listed, whole, group = visits[step % VISITS_PER_CALL]
        numbers, order = RowNumbers(lowest, listed), in_turn(whole, step // VISITS_PER_CALL, parts)
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
                    figures[at, PASS_DUAL_SHARE] += share
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
                    figures[at, PASS_GAP] += value - share + met
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


def warm(sample: SampleBlock) -> None:
    for loss in sample.joint_losses():
        for dtype in {np.dtype(np.float64), sample.dtype}:
            W = np.zeros((3, 2) if sample.sparse else (2, 3), dtype)
            alpha, sleep = np.zeros((2, 2), dtype), np.zeros((2, 1), np.uint8)
            turns = [sample.turns]
            if not sample.sparse:
                found = ahead(DenseBlock(np.ones((2, 2), dtype), 0.0), W)
                turns.append(all_at_once(cast(Block, found), RowNumbers(0, np.arange(2)), np.arange(2), 1))
            for each in turns:
                row_steps(
                    each, sample.joint_labels, loss, ONLY_PROBLEM, 2, 0, alpha, sleep, np.zeros(2), W,
                    np.zeros((1, COUPLED_FIGURES)),
                )  # fmt: skip
