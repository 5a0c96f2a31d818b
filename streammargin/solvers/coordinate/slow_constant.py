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
from streammargin.solvers.base import Blocks, State
from streammargin.solvers.cache.rows import take
from streammargin.solvers.old_state import Array, Layout, Number
from streammargin.solvers.problem import Problem

PART = 0.01  # of the mean square of a row: the constant's as rows see it; with 0.06 momentum did not end on one set
FLAT = 4.0  # rho times the curvature of all losses in b is above it: at a small C b would not get anywhere else
FEW = 8  # passes in which b follows at the latest: momentum swings for ever with 20 where no column tells the classes
SOME = 256  # rows that are looked at for that mean


def layout(problem: Problem) -> Layout:
    """The centres c (K,), and rho, 0 until rows are seen."""
    return {"centre": Array((problem.count,)), "damping": Number(0.0)}


def damp(problem: Problem, state: State, blocks: Blocks) -> None:
    """Choose rho by the first blocks; 1 where there is no constant, or it is small beside the rows."""
    if state.numbers["damping"]:
        return
    first, block = blocks[0]
    constant = block.bias * block.bias
    if not problem.linear or problem.hard or constant == 0.0:
        state.numbers["damping"] = 1.0
        return
    there = np.flatnonzero(problem.there(slice(first, first + min(SOME, block.rows()))))
    values = values_of(take(block, there)).astype(np.float64)
    square = float(np.square(values).sum()) / max(1, there.size)
    losses = float(problem.caps.max()) * problem.present
    rho = max(PART * square / constant, FLAT / losses / constant, AHEAD / (FEW * problem.present))
    state.numbers["damping"] = rho if 0.0 < rho < 0.5 else 1.0


def shortened(block: Block, state: State) -> Block:
    """The rows with the constant that they are visited with."""
    return block._replace(bias=block.bias * math.sqrt(state.numbers["damping"]))


def seen(state: State, k: int, image: np.ndarray) -> np.ndarray:
    """A^T alpha `image` (d+1,) with b as its last entry: the weights that rows see, in place."""
    rho = state.numbers["damping"]
    if 0.0 < rho < 1.0:
        image[-1] = damped(float(image[-1]), state.arrays["centre"][k], rho)
    return image


def behind(state: State, k: int, image: np.ndarray) -> float:
    """What b adds to the gap while it is not S, the last entry of A^T alpha `image` (d+1,)."""
    rho, last = state.numbers["damping"], float(image[-1])
    return 0.5 * (damped(last, state.arrays["centre"][k], rho) - last) ** 2 if 0.0 < rho < 1.0 else 0.0
