"""Coordinate ascent on rows drawn with replacement: the lp-norm perceptron paper's own Algorithms 1 and 2.

Each draw is a step, and nothing else happens. No row sleeps or is kept in memory for more visits. The constant is not
damped, momentum never restarts, and the last iterate is certified. A pass makes as many draws as rows are present. Out
of core the draws of a block are among its rows.
"""

from __future__ import annotations

import numpy as np

from streammargin.compiled.curvature import curvatures
from streammargin.compiled.order import uniforms
from streammargin.kinds import Word, YesNo
from streammargin.rows.blocks import Block
from streammargin.rows.labels import RowLabels
from streammargin.solvers.coordinate.dual_ascent import A, DualAscent
from streammargin.solvers.coordinate.momentum import Momentum, MomentumAscent
from streammargin.solvers.coordinate.plain import Plain, PlainAscent
from streammargin.solvers.problem import Problem
from streammargin.solvers.visits import Visit
from streammargin.words import entry

UNIFORM, IMPORTANCE = "uniform", "importance"


class Drawn(DualAscent[A]):
    """Rows are drawn uniformly, or in proportion to L_i (the remark after eq. (5)).

    equal: all rows have the step 1 / max L_i, as in eq. (7) and Corollary C.1. By Lemma 2 such steps of interpolation
    are those of stochastic mirror descent on least squares. A read finds the largest L_i before the first pass.
    """

    draws: str = entry(UNIFORM, Word((UNIFORM, IMPORTANCE)), "the probability of a row")
    equal: bool = entry(False, YesNo(), "one step length for all rows")
    blocks_per_step = 1
    longest = 0

    def prologue_visit(self, problem: Problem, state: A, index: int) -> Visit:
        return Visit("prologue", self.measure, leaves=False)

    def measure(self, problem: Problem, state: A, block: Block, first: int) -> None:
        """The curvatures of these rows."""
        rows = slice(first, first + block.rows())
        curvatures(block, problem.norm, np.flatnonzero(state.labels.present(rows)), state.curvature[rows])
        state.norms.visited += block.rows()

    def begin_pass(self, problem: Problem, state: A, active: np.ndarray) -> None:
        super().begin_pass(problem, state, active)
        if self.equal and state.number == 1:
            self.check_scale(problem, state)
            self.measure_norms(problem, state)  # before all curvatures are alike
            state.curvature[state.curvature > 0.0] = state.curvature.max()

    def start(self, problem: Problem, labels: RowLabels) -> A:
        state = super().start(problem, labels)
        state.constant.damping = 1.0
        return state

    def order_of(self, problem: Problem, state: A, block: Block, first: int, *seeds: int) -> tuple[np.ndarray, int]:
        rows = slice(first, first + block.rows())
        present, L = np.flatnonzero(state.labels.present(rows)), state.curvature[rows]
        curvatures(block, problem.norm, present, L)
        numbers = uniforms(present.size, problem.seed, state.number, first, *seeds)
        if self.draws == UNIFORM:
            return present[(numbers * present.size).astype(np.int64)], 1
        self.check_rows(problem, L, first)
        # a row of zeros is never drawn; its step moves no weight, and one is enough
        zeros, others = present[L[present] == 0.0], present[L[present] > 0.0]
        if not others.size:
            return zeros, 1
        ends = np.cumsum(L[others] / L.max())
        chosen = np.searchsorted(ends, numbers * ends[-1], side="right")
        return np.concatenate([zeros, others[np.minimum(chosen, others.size - 1)]]), 1


class DrawnPlain(Drawn[PlainAscent], Plain):
    """Algorithm 1."""

    name = "drawn ascent"

    def kept_bytes(self, problem: Problem) -> int:
        return 0


class DrawnMomentum(Drawn[MomentumAscent], Momentum):
    """Algorithm 2. For p < 2 each step sums up ||A^T z||_q over all columns."""

    name = "drawn accelerated ascent"
    refresh = 0

    def pace(self, problem: Problem, state: MomentumAscent, k: int, estimate: float, dual: float) -> None:
        """Nothing: it never restarts."""
