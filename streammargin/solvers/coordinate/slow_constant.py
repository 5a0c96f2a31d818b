"""The weight of the constant column follows slowly while rows are visited one at a time.

All rows share that column. Where its square is no small part of theirs, as in text, whose rows have length 1, each step
takes back what others did to reach it, and ascent takes several times the passes that it takes without a constant. So
rows see the weight b of the problem with (1/rho - 1)/2 (b - c)^2 added to it: a step of the proximal point method
(Rockafellar 1976) in b alone. Its dual is that of the same rows with the constant sqrt(rho) times as large, and
b = c + rho (S - c), where S is the last entry of A^T alpha; the centre c moves to b after so many rows
(compiled/sleep.py, AHEAD). At the optimum b, c and S are one, and on the way b is what is certified.
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

PART = 0.01  # of the mean square of a row: the constant's as rows see it; with 0.06 momentum did not end on one set
FLAT = 4.0  # rho times the curvature of all losses in b is above it: at a small C b would not get anywhere else
FEW = 8  # passes in which b follows at the latest: momentum swings for ever with 20 where no column tells the classes
SOME = 256  # rows that are looked at for that mean


@state
class SlowConstant:
    """The centres c (K,), and rho, 0 until rows are seen."""

    centre: Shared[f8] = of(K)
    damping: float = 0.0


def damp(problem: Problem, labels: RowLabels, constant: SlowConstant, blocks: Blocks) -> None:
    """Choose rho by the first blocks; 1 where there is no constant, or it is small beside the rows."""
    if constant.damping:
        return
    first, block = blocks[0]
    column = block.bias * block.bias
    if not problem.linear or problem.hard or column == 0.0:
        constant.damping = 1.0
        return
    present = np.flatnonzero(labels.present(slice(first, first + min(SOME, block.rows()))))
    values = values_of(take(block, present)).astype(np.float64)
    square = float(np.square(values).sum()) / max(1, present.size)
    losses = float(problem.caps.max()) * problem.present
    rho = max(PART * square / column, FLAT / losses / column, AHEAD / (FEW * problem.present))
    constant.damping = rho if 0.0 < rho < 0.5 else 1.0


def shortened(block: Block, constant: SlowConstant) -> Block:
    """The rows with the constant that they are visited with."""
    return block._replace(bias=block.bias * math.sqrt(constant.damping))


def seen(constant: SlowConstant, k: int, image: np.ndarray) -> np.ndarray:
    """A^T alpha `image` (d+1,) with b as its last entry: the weights that rows see, in place."""
    rho = constant.damping
    if 0.0 < rho < 1.0:
        image[-1] = damped(float(image[-1]), constant.centre[k], rho)
    return image


def behind(constant: SlowConstant, k: int, image: np.ndarray) -> float:
    """What b adds to the gap while it is not S, the last entry of A^T alpha `image` (d+1,)."""
    rho, last = constant.damping, float(image[-1])
    return 0.5 * (damped(last, constant.centre[k], rho) - last) ** 2 if 0.0 < rho < 1.0 else 0.0
