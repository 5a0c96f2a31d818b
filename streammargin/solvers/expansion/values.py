"""The kernel of a training: its values, how large and how exact they are, and what they take of the memory."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.rows.blocks import Block
from streammargin.solvers.base import Solver
from streammargin.solvers.expansion.columns import NONE
from streammargin.solvers.expansion.found import SmoState, inside
from streammargin.solvers.expansion.measured import (
    blur,
    given,
    kernel_of,
    largest_value,
    measure,
    smallest_margin,
    squares_of,
)
from streammargin.solvers.expansion.memory import Memory
from streammargin.solvers.problem import Problem
from streammargin.solvers.visits import Visit

ROUGH = 2e-3  # error of a value in float32, relative to the largest, from which on float64 is taken
STEEP = 32.0  # coefficients at their bound that a round moves: their rounding adds up in a score
FEW = 2048  # rows whose columns are float64 in any case
LOOKED = 2048  # support rows that the pieces of a certificate are cut for


class Values(Solver[SmoState]):
    """The kernel as measured in the first read of the rows."""

    state_class: ClassVar[type[SmoState]] = SmoState
    requires: ClassVar[tuple[str, ...]] = ("primal", "dual_form")
    prologue: ClassVar[int] = 1

    def prologue_passes(self, problem: Problem) -> int:
        return 1 if problem.kernel is None or problem.kernel.by_products or problem.kernel.of_numbers else 2

    def prologue_visit(self, problem: Problem, state: SmoState, index: int) -> Visit:
        return Visit("prologue", self.prologue_block, (index,), leaves=False, lines=problem.count)

    def prologue_block(self, problem: Problem, state: SmoState, index: int, block: Block, first: int) -> None:
        if index == 0:
            measure(problem, state.measured, state.labels, block, first)
        if index == 1 or given(problem).of_numbers:
            squares_of(problem, state.measured, state.labels, block, first)

    def _dtype(self, problem: Problem, state: SmoState) -> np.dtype:
        """Of the columns: float32 unless rows are few, or its rounding is large for this C and tolerance."""
        kernel, value = kernel_of(problem, state.measured), largest_value(problem, state.measured)
        if kernel.of_numbers:
            return problem.dtype
        width = int(problem.values / max(1, problem.rows))
        rough = kernel.blur(state.measured.longest, value, width) * 2.0**-24
        large = float(problem.outputs.caps.max()) * value / (problem.largest_target or 1.0)
        wide = rough > ROUGH * value or STEEP * large * 2.0**-24 > problem.tol or problem.rows <= FEW
        return np.dtype(np.float64 if wide or not kernel.by_products else np.float32)

    def mean_norm(self, problem: Problem, state: SmoState) -> float:
        """The mean length of a row in the space of the kernel, about."""
        mass, _, squares, _ = state.measured.moments.tolist()
        kernel = kernel_of(problem, state.measured)
        if not kernel.by_products:
            return math.sqrt(float(state.measured.largest[0]))
        mean = np.array([squares / mass]) if mass else np.zeros(1)
        return math.sqrt(max(0.0, float(kernel.of_products(mean.copy(), mean, mean)[0]))) if mass else 0.0

    def smallest_margin(self, problem: Problem, state: SmoState) -> float:
        hidden = 2.0 * math.sqrt(blur(problem, state.measured, state.frozen.numbers.size))  # by rounding
        return smallest_margin(problem, self.mean_norm(problem, state), hidden)

    # memory

    def reserved_bytes(self, problem: Problem) -> int:
        return Memory.of(problem).bytes

    def kept_bytes(self, problem: Problem) -> int:
        return 0 if problem.resident else Memory.of(problem).bytes

    def look_work(self, problem: Problem) -> float:
        return 2.0 * min(LOOKED, problem.rows)

    def fits(self, problem: Problem, state: SmoState) -> bool:
        held = state.held
        slots = {held.rows.shape, held.batch.shape, held.used.shape}
        cached = all(np.all((one >= NONE) & (one < problem.rows)) for one in (held.rows, held.batches[1], held.recent))
        known = all(inside(problem, one) for one in (state.frozen, state.best_point, state.kept_point))
        return len(slots) == 1 and cached and known
