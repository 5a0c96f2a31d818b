"""Primal steps along single rows for the hard margin, with row norms and better bounds."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.compiled import primal as kernel
from streammargin.compiled import row_norms as norms
from streammargin.errors import out_of_range
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.base import MarginSizes, PassReport, margin_sizes
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import EPS, mean_rounding
from streammargin.solvers.roles import K, Shared, Sum, f8, of, state
from streammargin.solvers.space import Hull, hull_bound, hull_rounding
from streammargin.solvers.state import labels_of
from streammargin.solvers.streams.primal import Primal, Steps

# squares of row norms in this range do not over- or underflow
PLAIN_NORMS = (1e-50, 1e50)
# largest rounding error, relative to the largest row, at which the mean of a pass is used as a bound
CANCELLED = 1e-9


@state
class HardSteps(Steps):
    """row_norms: figures of the rows seen (compiled/row_norms.py).

    left, left_total: theta at the start of the pass, and the sum of its coefficients; nearest: the smallest norm of a
    mean of a pass.
    """

    hull: Hull
    row_norms: Sum[f8] = of(norms.ROW_FIGURES, largest=(norms.LARGEST_NORM,))
    left: Shared[f8]
    left_total: Shared[f8] = of(K)
    nearest: Shared[f8] = of(K, fill=math.inf)


class HardPrimal(Primal[HardSteps]):
    """Adds row norms, which step sizes need, and bounds by the rows of single passes."""

    default_C: ClassVar[float] = math.inf

    def measure(self, problem: Problem, state: HardSteps, block: Block, first: int) -> None:
        """Update the figures of the row norms with a block, before learning from it."""
        norms.row_norms(block, numbered_from(first), labels_of(problem, state), problem.q, state.row_norms)
        largest = self.longest(state)
        if not math.isfinite(largest):
            raise out_of_range()
        if state.base == 0.0 and largest > 0.0:
            plain = problem.p == 2.0 and PLAIN_NORMS[0] < largest < PLAIN_NORMS[1]
            state.base = 1.0 if plain else 2.0 ** math.floor(math.log2(largest))

    def begin_pass(self, problem: Problem, state: HardSteps, active: np.ndarray) -> None:
        super().begin_pass(problem, state, active)
        np.multiply(state.theta, state.unit[:, None], out=state.left)
        state.left_total[:] = state.carried[:, kernel.TOTAL]

    def stream_block(self, problem: Problem, state: HardSteps, block: Block) -> int:
        # step sizes use the rows seen so far, this block included
        self.measure(problem, state, block, 0)
        return super().stream_block(problem, state, block)

    def longest(self, state: HardSteps) -> float:
        return float(state.row_norms[norms.LARGEST_NORM])

    def margin_bound(self, problem: Problem, state: HardSteps, k: int) -> float:
        if self.has_empty_row(problem, state):
            return problem.margin_of_zeros
        return min(super().margin_bound(problem, state, k), float(state.nearest[k]))

    def end_pass(self, problem: Problem, state: HardSteps, active: np.ndarray) -> PassReport:
        for k in active:
            self._mean_of_the_pass(problem, state, k)
        return super().end_pass(problem, state, active)

    def _mean_of_the_pass(self, problem: Problem, state: HardSteps, k: int) -> None:
        """Bound the margin by the norm of the mean of the rows added in this pass, a point of their convex hull.

        In late passes these are mostly support vectors; for inseparable rows they nearly cancel.
        """
        mass = float(state.carried[k, kernel.TOTAL] - state.left_total[k])
        largest = self.longest(state) / self.base(state)
        if not mass > 0.0:
            return
        theta = state.theta[k] * state.unit[k]
        rounding = (state.figures[k, kernel.UPDATES] + 1.0) * EPS * lp_norm(theta, problem.q) / mass
        if rounding <= CANCELLED * largest:
            bound = hull_bound(problem, state.hull, k, 1.0 / mass, theta - state.left[k], largest) + CANCELLED * largest
            state.nearest[k] = min(state.nearest[k], bound * self.base(state))

    def estimate(self, problem: Problem, state: HardSteps, k: int) -> float:
        upper = self.margin_bound(problem, state, k)
        if upper < self.margin_sizes(problem, state).least:
            return 0.0
        size = lp_norm(self._current(problem, state, k), problem.p)
        if not (size > 0.0 and 0.0 < upper < math.inf):
            return math.inf
        lower = float(state.figures[k, kernel.MIN_MARGIN]) / size * self.base(state)
        return max(0.0, 1.0 - lower / upper)

    def margin_sizes(self, problem: Problem, state: HardSteps) -> MarginSizes:
        largest, mean = (
            self.longest(state),
            float(state.row_norms[norms.TOTAL] / max(1.0, state.row_norms[norms.PRESENT_ROWS])),
        )
        steps = float(state.number) * problem.present
        rounding = 2.0 * mean_rounding(steps, largest) + (hull_rounding(state.hull) + CANCELLED) * largest
        return margin_sizes(problem, mean, rounding)

    def has_empty_row(self, problem: Problem, state: HardSteps) -> bool:
        return bool(state.row_norms[norms.EMPTY] > 0.0)
