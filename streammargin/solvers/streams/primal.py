"""What the methods that keep nothing per row have in common: they also learn from rows that pass by once."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from streammargin.compiled import primal as kernel
from streammargin.compiled.order import permutation
from streammargin.penalties.mirror_maps import lp_norm, mirror
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.rows.steps import Rule
from streammargin.solvers.base import PassReport, State, StreamSolver
from streammargin.solvers.coordinate.dual_ascent import group_of
from streammargin.solvers.old_state import Array, Layout, Number
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.old_sweep import CertifiedBySweep
from streammargin.solvers.proof.rounding import mean_rounding


class Primal(CertifiedBySweep, StreamSolver):
    """State: theta (K, d+1), the sum of the rows with the multiples that the steps gave them; no number per row.

    Rows are taken in units of `base`, a power of two (1 unless their norms are extreme, or p < 2): theta and
    w = mirror(theta) are those of the rows x / base.
    """

    options = ("average",)

    def layout(self, problem: Problem) -> Layout:
        K, width = problem.count, problem.features + 1
        return {
            "theta": Array((K, width)),
            "powers": Array((K, width if problem.p != 2.0 else 0)),
            "power_sum": Array((K,)),
            "unit": Array((K,), fill=1.0),
            "mean": Array((K, width if problem.options.get("average") else 0)),
            "carried": Array((K, kernel.CARRIED)),
            "figures": Array((K, kernel.FIGURES)),
            **self.certificates(problem, np.dtype(np.float64)),
            "base": Number(0.0),  # until a row is seen
        }

    def base(self, state: State) -> float:
        """The unit of the rows."""
        return state.numbers["base"] or 1.0

    def length(self, state: State) -> float:
        """Factor from w of the rows x / base to the weights that are reported."""
        return 1.0 / self.base(state)

    @abstractmethod
    def rule(self, problem: Problem, state: State) -> Rule:
        """What a step adds, for rows in units of the base."""

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        super().begin_pass(problem, state, number)
        a = state.arrays
        a["figures"][:] = 0.0
        a["figures"][:, kernel.MIN_MARGIN] = math.inf

    def run_block(self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int) -> None:
        group = group_of(block)
        order = permutation(-(-block.rows() // group), problem.seed, state.numbers["pass"], first)
        self._learn(problem, state, active, block, first, order, group)

    def stream_block(self, problem: Problem, state: State, block: Block) -> int:
        """Learn from each row of the block once, in order, and count the mistakes made on the way.

        The codes and weights of the problem are those of the block, `present` the rows that the objective is made of.
        """
        state.arrays["figures"][:] = 0.0
        self._learn(problem, state, np.arange(problem.count), block, 0, np.zeros(1, np.int64), block.rows())
        return int(state.arrays["figures"][:, kernel.MISTAKES].sum())

    def _learn(
        self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int, order: np.ndarray,
        group: int,
    ) -> None:  # fmt: skip
        a = state.arrays
        kernel.primal_block(
            block, numbered_from(first), problem.labels, problem.norm, self.rule(problem, state), self.base(state),
            order, group, active, a["theta"], self.powers(problem, state), a["power_sum"], a["unit"], a["mean"],
            a["carried"], a["figures"],
        )  # fmt: skip

    def margin_bound(self, problem: Problem, state: State, k: int) -> float:
        """||theta||_q / sum of the multiples: their shares are a point of the simplex. inf before the first step.

        With what rounding may have moved it by, where the norms of the rows are known.
        """
        a = state.arrays
        total = float(a["carried"][k, kernel.TOTAL])
        size = lp_norm(a["theta"][k], problem.q) * float(a["unit"][k])
        bound = size / total * self.base(state) if total > 0.0 else math.inf
        return bound + mean_rounding(float(a["carried"][k, kernel.STEPS]), self.longest(state))

    def longest(self, state: State) -> float:
        """The largest norm of the rows, where it is known."""
        return 0.0

    def bounds(self, problem: Problem, state: State, k: int, longest: float) -> tuple[float, float]:
        upper = self.margin_bound(problem, state, k)
        return problem.objective.dual(upper), upper

    def scale(self, problem: Problem, state: State, k: int) -> float:
        """Factor from mirror(theta) to the weights that the last step left."""
        return 1.0

    def frozen(self, problem: Problem, state: State, k: int) -> np.ndarray:
        a = state.arrays
        carried = a["carried"][k]
        if not problem.options.get("average"):
            return self._current(problem, state, k) * (self.scale(problem, state, k) * self.length(state))
        steps = max(float(carried[kernel.STEPS]), 1.0)
        if problem.p == 2.0:
            total = carried[kernel.CLOCK] * a["theta"][k] - a["mean"][k]
        else:
            total = (carried[kernel.CLOCK] - carried[kernel.COUNTED]) * self._current(problem, state, k) + a["mean"][k]
        return total / steps * self.length(state)

    def _current(self, problem: Problem, state: State, k: int) -> np.ndarray:
        return mirror(state.arrays["theta"][k], problem.q) * state.arrays["unit"][k]

    def weights(self, problem: Problem, state: State) -> np.ndarray:
        return np.stack([self.frozen(problem, state, k) for k in range(problem.count)])

    def end_pass(self, problem: Problem, state: State, active: np.ndarray) -> PassReport:
        figures = state.arrays["figures"]
        estimate = np.zeros(problem.count)
        for k in active:
            estimate[k] = self.estimate(problem, state, k)
        still = self.rests(problem) and not figures[active, kernel.UPDATES].any()
        return PassReport(estimate, int(figures[:, kernel.MISTAKES].sum()), still=still)

    def rests(self, problem: Problem) -> bool:
        """Whether the weights stay as they are while there are no updates."""
        return not problem.options.get("average")

    @abstractmethod
    def estimate(self, problem: Problem, state: State, k: int) -> float:
        """The relative (margin) gap that problem k is believed to have after a pass; 0 once it is believed done."""
