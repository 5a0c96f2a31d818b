"""Damping of the constant's weight in coordinate ascent.

All rows share the constant column. Its square may be a large part of the rows' squared norms, as in text with rows of
norm 1. Steps on different rows then undo each other's change of the constant, and ascent needs several times as many
passes. So the proximal term (1/rho - 1)/2 (b - c)^2 is added for the constant's weight b (proximal point method,
Rockafellar 1976). The dual of that problem has the same rows with a constant sqrt(rho) times as large. Its weight is
b = c + rho (S - c), where S is the last entry of A^T alpha. The centre c moves to b every AHEAD rows
(compiled/sleep.py). At the optimum b = c = S; until then b is certified.
"""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled.sleep import AHEAD
from streammargin.compiled.slow_constant import damped
from streammargin.rows.blocks import Block, values_of
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import Blocks
from streammargin.solvers.cache.rows import take
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import K, Shared, f8, of, state

DAMPED_SQUARE = 0.01  # square of the damped constant, relative to a row's mean square; with more, momentum may fail
LEAST_DAMPED_CURVATURE = 4.0  # rho times that of all losses in b: at a small C, b would not move otherwise
MOST_FOLLOWING_PASSES = 8  # until b follows; with more, momentum oscillates if no column separates the classes
SOME = 256  # rows sampled for the mean square
MEAN_SQUARE_VALUES = 1 << 13  # values of these rows that are copied at a time, or one row


@state
class SlowConstant:
    """The centres c (K,), and damping = rho, 0 until the first block."""

    centre: Shared[f8] = of(K)
    damping: float = 0.0


def damp(problem: Problem, labels: RowLabels, constant: SlowConstant, blocks: Blocks) -> None:
    """Choose rho from the first block; 1 if there is no constant, or it is small compared with the rows."""
    if 0.0 < constant.damping <= 1.0:
        return
    first, block = blocks[0]
    column = block.bias * block.bias
    if not problem.linear or problem.hard or column == 0.0:
        constant.damping = 1.0
        return
    present = np.flatnonzero(labels.present(slice(first, first + min(SOME, block.rows()))))
    step = max(1, MEAN_SQUARE_VALUES * block.rows() // max(1, values_of(block).size))
    squares = (
        np.square(values_of(take(block, present[low : low + step])), dtype=np.float64).sum()
        for low in range(0, present.size, step)
    )
    damp_by(problem, constant, float(sum(squares)) / max(1, present.size), column)


def damp_by(problem: Problem, constant: SlowConstant, square: float, column: float) -> None:
    """The same, of a row's mean square without the constant, and the constant's."""
    losses = float(problem.outputs.caps.max()) * problem.present
    rho = max(
        DAMPED_SQUARE * square / column,
        LEAST_DAMPED_CURVATURE / losses / column,
        AHEAD / (MOST_FOLLOWING_PASSES * problem.present),
    )
    constant.damping = rho if 0.0 < rho < 0.5 else 1.0


def shortened(block: Block, constant: SlowConstant) -> Block:
    """The rows with the damped constant."""
    return block._replace(bias=block.bias * math.sqrt(constant.damping))


def seen(constant: SlowConstant, k: int, image: np.ndarray) -> np.ndarray:
    """Replace the last entry of A^T alpha, `image` (d+1,), by b, in place."""
    rho = constant.damping
    if 0.0 < rho < 1.0:
        image[-1] = damped(float(image[-1]), constant.centre[k], rho)
    return image


def behind(constant: SlowConstant, k: int, image: np.ndarray) -> float:
    """The part of the gap due to b != S, the last entry of A^T alpha, `image` (d+1,)."""
    rho, last = constant.damping, float(image[-1])
    return 0.5 * (damped(last, constant.centre[k], rho) - last) ** 2 if 0.0 < rho < 1.0 else 0.0
