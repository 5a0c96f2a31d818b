"""Steps along single rows for the hard margin: the norms of the rows, and the mean of a pass as a bound."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import primal as kernel
from streammargin.compiled import row_norms as norms
from streammargin.errors import out_of_range
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.base import PassReport, State
from streammargin.solvers.margin.hull import hull_bound, hull_layout, hull_rounding
from streammargin.solvers.old_state import Array, Layout
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import EPS, mean_rounding
from streammargin.solvers.streams.primal import Primal

# row norms within these bounds have squares that are far from the ends of a float64
PLAIN = (1e-50, 1e50)
# a pass moves theta by little: what is left of rounding after the subtraction may be this, relative to the largest row
CANCELLED = 1e-9


class HardPrimal(Primal):
    """State beside that of Primal: figures of the row norms; theta (K, d+1) and its mass when the pass began, in `left`
    and `left_total`; `nearest` (K,), the least length of a mean of a pass; the hull.
    """

    default_C = math.inf

    def layout(self, problem: Problem) -> Layout:
        K, width = problem.count, problem.features + 1
        return {
            **super().layout(problem),
            "row_norms": Array((norms.ROW_FIGURES,)),
            "left": Array((K, width)),
            "left_total": Array((K,)),
            "nearest": Array((K,), fill=math.inf),
            **hull_layout(problem),
        }

    def measure(self, problem: Problem, state: State, block: Block, first: int) -> None:
        """Take the rows of a block into the figures of the row norms, before anything is learned from them."""
        figures = state.arrays["row_norms"]
        norms.row_norms(block, numbered_from(first), problem.labels, problem.q, figures)
        largest = float(figures[norms.LARGEST])
        if not math.isfinite(largest):
            raise out_of_range()
        if state.numbers["base"] == 0.0 and largest > 0.0:
            plain = problem.p == 2.0 and PLAIN[0] < largest < PLAIN[1]
            state.numbers["base"] = 1.0 if plain else 2.0 ** math.floor(math.log2(largest))

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        super().begin_pass(problem, state, number)
        a = state.arrays
        np.multiply(a["theta"], a["unit"][:, None], out=a["left"])
        a["left_total"][:] = a["carried"][:, kernel.TOTAL]

    def stream_block(self, problem: Problem, state: State, block: Block) -> int:
        # step sizes and rows of norm 0 are those of all rows up to this block's last
        self.measure(problem, state, block, 0)
        return super().stream_block(problem, state, block)

    def longest(self, state: State) -> float:
        return float(state.arrays["row_norms"][norms.LARGEST])

    def margin_bound(self, problem: Problem, state: State, k: int) -> float:
        if self.has_empty_row(problem, state):
            return 0.0
        return min(super().margin_bound(problem, state, k), float(state.arrays["nearest"][k]))

    def end_pass(self, problem: Problem, state: State, active: np.ndarray) -> PassReport:
        for k in active:
            self._mean_of_the_pass(problem, state, k)
        return super().end_pass(problem, state, active)

    def _mean_of_the_pass(self, problem: Problem, state: State, k: int) -> None:
        """The mean of the rows that this pass stepped along is a point of their hull: it may bound the margin better.

        Late passes step along the rows that matter; where nothing separates them, these all but cancel.
        """
        a = state.arrays
        mass = float(a["carried"][k, kernel.TOTAL] - a["left_total"][k])
        largest = float(a["row_norms"][norms.LARGEST]) / self.base(state)
        if not mass > 0.0:
            return
        theta = a["theta"][k] * a["unit"][k]
        rounding = (a["figures"][k, kernel.UPDATES] + 1.0) * EPS * lp_norm(theta, problem.q) / mass
        if rounding <= CANCELLED * largest:
            bound = hull_bound(problem, state, k, 1.0 / mass, theta - a["left"][k], largest) + CANCELLED * largest
            a["nearest"][k] = min(a["nearest"][k], bound * self.base(state))

    def estimate(self, problem: Problem, state: State, k: int) -> float:
        upper = self.margin_bound(problem, state, k)
        if upper < self.smallest_margin(problem, state):
            return 0.0
        size = lp_norm(self._current(problem, state, k), problem.p)
        if not (size > 0.0 and 0.0 < upper < math.inf):
            return math.inf
        lower = float(state.arrays["figures"][k, kernel.MIN_MARGIN]) / size * self.base(state)
        return max(0.0, 1.0 - lower / upper)

    def mean_norm(self, problem: Problem, state: State) -> float:
        figures = state.arrays["row_norms"]
        return float(figures[norms.TOTAL]) / max(1.0, float(figures[norms.ROWS]))

    def rounding(self, problem: Problem, state: State) -> float:
        largest = float(state.arrays["row_norms"][norms.LARGEST])
        steps = float(state.numbers["pass"]) * problem.present
        return 2.0 * mean_rounding(steps, largest) + (hull_rounding(state) + CANCELLED) * largest

    def has_empty_row(self, problem: Problem, state: State) -> bool:
        return bool(state.arrays["row_norms"][norms.EMPTY] > 0.0)
