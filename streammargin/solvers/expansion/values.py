"""The kernel of a training: its values, how large and how exact they are, and what they take of the memory."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.compiled import gram as sums
from streammargin.errors import DataError
from streammargin.kernels.base import Kernel
from streammargin.points import gram
from streammargin.rows.blocks import Block, CSRBlock, DenseBlock, values_of
from streammargin.solvers.base import Solver
from streammargin.solvers.expansion.columns import NONE
from streammargin.solvers.expansion.found import SmoState
from streammargin.solvers.expansion.matrices import check_symmetric
from streammargin.solvers.expansion.memory import Memory
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import EPS
from streammargin.solvers.visits import Visit

NEARLY = 1e-7  # of the mean length of a row: a hard margin below this is given up
LARGEST_VALUE = 1e60
ROUGH = 2e-3  # error of a value in float32, relative to the largest, from which on float64 is taken
STEEP = 32.0  # coefficients at their bound that a round moves: their rounding adds up in a score
FEW = 2048  # rows whose columns are float64 in any case
LOOKED = 2048  # support rows that the pieces of a certificate are cut for


class Values(Solver[SmoState]):
    """What is known of the kernel once the rows were read for the first time."""

    state_class: ClassVar[type[SmoState]] = SmoState
    requires: ClassVar[tuple[str, ...]] = ("primal", "dual_form")
    prologue: ClassVar[int] = 1

    def prologue_passes(self, problem: Problem) -> int:
        return 1 if problem.kernel is None or problem.kernel.by_products or problem.kernel.of_numbers else 2

    def prologue_visit(self, problem: Problem, state: SmoState, index: int) -> Visit:
        return Visit("prologue", self.prologue_block, (index,), leaves=False, lines=problem.count)

    def prologue_block(self, problem: Problem, state: SmoState, index: int, block: Block, first: int) -> None:
        kernel = given(problem)
        if kernel.of_numbers:
            assert isinstance(block, DenseBlock)
            check_symmetric(block.X[:, first : first + block.rows()], first)
        elif index == 0:
            squares, values = np.empty(block.rows()), values_of(block)
            sums.squares_of(block._replace(bias=0.0), 0, block.rows(), squares)
            values = values[block.indptr[0] : block.indptr[-1]] if isinstance(block, CSRBlock) else values.reshape(-1)
            sums.add_moments(values, squares, state.moments)
            return
        own = gram.diagonal(self.kernel_of(problem, state), block, first)
        state.largest[0] = max(state.largest[0], float(np.abs(own).max(initial=0.0)))

    def kernel_of(self, problem: Problem, state: SmoState) -> Kernel:
        """The kernel with numbers in place of words; known after the first read."""
        rows, total, squares, _ = state.moments.tolist()
        count = max(1.0, rows * problem.features)
        return given(problem).resolved(problem.features, max(0.0, squares / count - (total / count) ** 2))

    def largest_value(self, problem: Problem, state: SmoState) -> float:
        """The largest |K(x, x)|, or a bound on it. DataError where values overflow."""
        kernel, value = self.kernel_of(problem, state), float(state.largest[0])
        if kernel.by_products:
            squares = np.array([0.0, state.moments[sums.LONGEST]])
            with np.errstate(all="ignore"):
                value = float(np.abs(kernel.of_products(squares.copy(), squares, squares)).max())
        if not value <= LARGEST_VALUE:
            raise DataError(
                f"the kernel {kernel} has values of {value:.3g}, too large to compute with; use `scale=std`, or a "
                "smaller gamma or weight"
            )
        return value

    def _blur(self, problem: Problem, state: SmoState, terms: int) -> float:
        """A bound on the rounding error of a score, for coefficients whose sizes add up to 1."""
        value = self.largest_value(problem, state)
        of_value = self.kernel_of(problem, state).blur(float(state.moments[sums.LONGEST]), value, problem.features)
        return EPS * (of_value + value * (terms + 8.0))

    def _dtype(self, problem: Problem, state: SmoState) -> np.dtype:
        """Of the columns: float32 unless rows are few, or its rounding is large for this C and tolerance."""
        kernel, value = self.kernel_of(problem, state), self.largest_value(problem, state)
        if kernel.of_numbers:
            return problem.dtype
        width = int(problem.values / max(1, problem.rows))
        rough = kernel.blur(float(state.moments[sums.LONGEST]), value, width) * 2.0**-24
        large = float(problem.outputs.caps.max()) * value / (problem.largest_target or 1.0)
        wide = rough > ROUGH * value or STEEP * large * 2.0**-24 > problem.tol or problem.rows <= FEW
        return np.dtype(np.float64 if wide or not kernel.by_products else np.float32)

    def mean_norm(self, problem: Problem, state: SmoState) -> float:
        rows, _, squares, _ = state.moments.tolist()
        kernel = self.kernel_of(problem, state)
        if not kernel.by_products:
            return math.sqrt(float(state.largest[0]))
        mean = np.array([squares / rows]) if rows else np.zeros(1)
        return math.sqrt(max(0.0, float(kernel.of_products(mean.copy(), mean, mean)[0]))) if rows else 0.0

    def smallest_margin(self, problem: Problem, state: SmoState) -> float:
        # the bound of classes that overlap falls fast: a proof that there is no margin is near
        return max(min(problem.tol, NEARLY) * self.mean_norm(problem, state), self.rounding(problem, state))

    def rounding(self, problem: Problem, state: SmoState) -> float:
        return 2.0 * math.sqrt(self._blur(problem, state, state.frozen.numbers.size))

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
        inside = all(np.all((one >= NONE) & (one < problem.rows)) for one in (held.rows, held.batches[1]))
        points = (state.frozen, state.best_point)
        known = all(
            one.coef.shape[1] == one.numbers.size and np.all((one.numbers >= 0) & (one.numbers < problem.rows))
            for one in points
        )
        return len(slots) == 1 and inside and known


def given(problem: Problem) -> Kernel:
    """The kernel as it was given."""
    assert problem.kernel is not None
    return problem.kernel
