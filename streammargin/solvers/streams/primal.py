"""The common part of methods without numbers per row, which can also learn from streams."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, TypeVar

import numpy as np

from streammargin.compiled import primal as kernel
from streammargin.compiled.order import permutation
from streammargin.kinds import YesNo
from streammargin.penalties.mirror_maps import lp_norm, mirror
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.rows.steps import Rule
from streammargin.rows.visits import group_of
from streammargin.solvers.base import PassReport, StreamSolver
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.rounding import mean_rounding
from streammargin.solvers.proof.sweep import Certified, CertifiedBySweep
from streammargin.solvers.roles import K, Shared, Sum, W, f8, of, state
from streammargin.solvers.state import labels_of
from streammargin.words import entry


@state
class Steps(Certified):
    """theta: the sum of multiples of rows, divided by `unit`, with its powers; mean: for the average;
    carried: numbers kept for the whole training (columns of compiled/primal.py);
    base: divisor of the rows; 0 until a row is seen.
    """

    theta: Shared[f8]
    powers: Shared[f8] = of(K, W.where(lambda problem: problem.p != 2.0))
    power_sum: Shared[f8] = of(K)
    unit: Shared[f8] = of(K, fill=1.0)
    mean: Shared[f8] = of(K, W)
    carried: Shared[f8] = of(K, kernel.CARRIED)
    figures: Sum[f8] = of(K, kernel.PRIMAL_FIGURES, smallest=(kernel.MIN_MARGIN,))
    base: float = 0.0


P = TypeVar("P", bound=Steps)


class Primal(CertifiedBySweep[P], StreamSolver[P]):
    """Primal steps along single rows, without numbers per row.

    Rows are divided by `base`, a power of two. It is 1 unless their norms are extreme, or p < 2. For the rows x / base
    are theta and w = mirror(theta).
    """

    requires: ClassVar[tuple[str, ...]] = ()  # the default loss, whose steps the kernel has
    average: bool = entry(False, YesNo(), "report the mean of all iterates in place of the last one")

    def base(self, state: P) -> float:
        """The divisor of the rows."""
        return state.base or 1.0

    def length(self, state: P) -> float:
        """The factor from w, for rows x / base, to the reported weights."""
        return 1.0 / self.base(state)

    @abstractmethod
    def rule(self, problem: Problem, state: P) -> Rule:
        """The step rule, for rows divided by the base."""

    def begin_pass(self, problem: Problem, state: P, active: np.ndarray) -> None:
        state.figures[:] = 0.0
        state.figures[:, kernel.MIN_MARGIN] = math.inf

    def run_block(self, problem: Problem, state: P, active: np.ndarray, block: Block, first: int) -> None:
        group = group_of(block)
        order = permutation(-(-block.rows() // group), problem.seed, state.number, first)
        self._learn(problem, state, active, block, first, order, group)

    def stream_block(self, problem: Problem, state: P, block: Block) -> int:
        state.figures[:] = 0.0
        self._learn(problem, state, np.arange(problem.count), block, 0, np.zeros(1, np.int64), block.rows())
        return int(state.figures[:, kernel.PASS_MISTAKES].sum())

    def _learn(
        self, problem: Problem, state: P, active: np.ndarray, block: Block, first: int, order: np.ndarray,
        group: int,
    ) -> None:  # fmt: skip
        kernel.primal_block(
            block, numbered_from(first), labels_of(problem, state), problem.norm, self.rule(problem, state),
            self.base(state), order, group, active, state.theta, state.powers if state.powers.size else state.theta,
            state.power_sum, state.unit, state.mean[:, : None if self.average else 0], state.carried, state.figures,
        )  # fmt: skip

    def margin_bound(self, problem: Problem, state: P, k: int) -> float:
        """||theta||_q / sum of the multiples, the norm of a convex combination of rows; inf before the first step.

        Includes a bound on rounding if the row norms are known.
        """
        total = float(state.carried[k, kernel.TOTAL])
        size = lp_norm(state.theta[k], problem.q) * float(state.unit[k])
        bound = size / total * self.base(state) if total > 0.0 else math.inf
        return bound + mean_rounding(float(state.carried[k, kernel.ROWS_SEEN]), self.longest(state))

    def longest(self, state: P) -> float:
        """The largest row norm, 0 if it is unknown."""
        return 0.0

    def bounds(self, problem: Problem, state: P, k: int, longest: float) -> tuple[float, float]:
        upper = self.margin_bound(problem, state, k)
        return problem.objective.dual(upper), upper

    def scale(self, problem: Problem, state: P, k: int) -> float:
        """The factor from mirror(theta) to the current weights."""
        return 1.0

    def frozen(self, problem: Problem, state: P, k: int) -> np.ndarray:
        carried = state.carried[k]
        if not self.average:
            return self._current(problem, state, k) * (self.scale(problem, state, k) * self.length(state))
        steps = max(float(carried[kernel.ROWS_SEEN]), 1.0)
        if problem.p == 2.0:
            total = carried[kernel.CLOCK] * state.theta[k] - state.mean[k]
        else:
            total = (carried[kernel.CLOCK] - carried[kernel.COUNTED]) * self._current(problem, state, k) + state.mean[k]
        return total / steps * self.length(state)

    def _current(self, problem: Problem, state: P, k: int) -> np.ndarray:
        return mirror(state.theta[k], problem.q) * state.unit[k]

    def weights(self, problem: Problem, state: P) -> np.ndarray:
        return np.stack([self.frozen(problem, state, k) for k in range(problem.count)])

    def end_pass(self, problem: Problem, state: P, active: np.ndarray) -> PassReport:
        estimate = np.zeros(problem.count)
        for k in active:
            estimate[k] = self.estimate(problem, state, k)
        still = self.rests(problem) and not state.figures[active, kernel.UPDATES].any()
        return PassReport(estimate, int(state.figures[:, kernel.PASS_MISTAKES].sum()), still=still)

    def rests(self, problem: Problem) -> bool:
        """Whether the weights stay as they are while there are no updates."""
        return not self.average

    @abstractmethod
    def estimate(self, problem: Problem, state: P, k: int) -> float:
        """The estimated relative (margin) gap of problem k after a pass; 0 once it is probably done."""
