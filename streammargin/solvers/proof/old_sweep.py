"""Certificates by a sweep over all rows with the weights frozen: for methods that move at every row."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from streammargin.compiled import certificate as sums
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.base import Solver, State
from streammargin.solvers.old_state import Array, Layout, Number
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.objectives.base import Sums
from streammargin.solvers.proof.old_best import best_figures, best_layout, keep_bounds, keep_weights
from streammargin.solvers.proof.rounding import blur


class CertifiedBySweep(Solver):
    """A subclass has `certificates` in its layout, and says what is frozen, which duals belong to it, and what to do
    with A^T alpha once that is known exactly.
    """

    @abstractmethod
    def frozen(self, problem: Problem, state: State, k: int) -> np.ndarray:
        """The weights (d+1,) of problem k to certify; they may stand in the array `frozen` already."""

    def duals(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray]:
        """alpha (K, n) on the C scale and sleep counters (K, n) uint8, or both (K, 0) for a method without duals."""
        return np.zeros((problem.count, 0), state.arrays["best"].dtype), np.zeros((problem.count, 0), np.uint8)

    def bounds(self, problem: Problem, state: State, k: int, longest: float) -> tuple[float, float]:
        """A lower bound of the objective and an upper bound of the margin that the method knows without duals.

        longest: the largest Euclidean norm of the rows.
        """
        return -math.inf, math.inf

    def rebuilt(self, problem: Problem, state: State, k: int, theta: np.ndarray) -> None:
        """Called with A^T alpha (d+1,) of the duals, exact in float64."""

    def certificates(self, problem: Problem, dtype: np.dtype) -> Layout:
        """The best weights and bounds, and what a sweep sums up; the weights to certify are of this dtype."""
        K, width = problem.count, problem.features + 1
        return {
            **best_layout(problem, dtype),
            "frozen": Array((K, width), dtype),
            "blur": Array((K,)),
            "rebuilt": Array((K, width)),
            "sums": Array((K, sums.SUMS)),
            "wrong": Array((problem.trials,), np.int64),
            "largest blur": Number(0.0),
        }

    @staticmethod
    def powers(problem: Problem, state: State) -> np.ndarray:
        """What the norm keeps beside theta (K, d+1): theta itself where that is nothing."""
        return state.arrays["powers" if problem.keeps_powers else "theta"]

    def begin_certificate(self, problem: Problem, state: State, active: np.ndarray) -> None:
        a = state.arrays
        for k in range(problem.count):
            w = self.frozen(problem, state, k) if k in active else a["best"][k]
            if not np.may_share_memory(w, a["frozen"]):  # of many columns a copy costs
                a["frozen"][k] = w
        a["blur"] = blur(a["frozen"])
        a["sums"] = sums.new_sums(problem.count)
        for name in ("rebuilt", "wrong"):
            a[name][:] = 0

    def certify_block(self, problem: Problem, state: State, block: Block, first: int) -> None:
        a = state.arrays
        alpha, sleep = self.duals(problem, state)
        sums.certify_block(
            block, numbered_from(first), problem.labels, problem.loss, problem.trials, a["frozen"], a["blur"], alpha,
            sleep, a["rebuilt"], a["sums"], a["wrong"],
        )  # fmt: skip

    def end_certificate(self, problem: Problem, state: State) -> tuple[list[Figures], np.ndarray]:
        a, objective, K = state.arrays, problem.objective, problem.count
        has_duals = self.duals(problem, state)[0].shape[1] > 0
        found, dual, upper = [], np.empty(K), np.empty(K)
        for k in range(K):
            total = Sums(*a["sums"][k, : sums.CARRY].tolist())._replace(rows=problem.present)
            dual[k], upper[k] = self.bounds(problem, state, k, total.longest)
            if has_duals:
                below, above = objective.bounds(a["rebuilt"][k], total)
                dual[k], upper[k] = max(dual[k], below), min(upper[k], above)
                if total.alpha > 0.0:
                    state.numbers["largest blur"] = max(state.numbers["largest blur"], total.blur / total.alpha)
                self.rebuilt(problem, state, k, a["rebuilt"][k])
            found.append(objective.candidate(a["frozen"][k], total))
        if objective.infeasible and self.has_empty_row(problem, state):
            upper[:] = 0.0  # a row of norm 0 has margin 0 under every w
        keep_bounds(state, dual, upper)
        frozen, a["frozen"] = a["frozen"], np.zeros_like(a["frozen"])  # kept as it is, and room for the next
        keep_weights(problem, state, frozen, found)
        return best_figures(problem, state), a["wrong"].copy()

    def has_empty_row(self, problem: Problem, state: State) -> bool:
        """Whether a row that is present is known to have norm 0."""
        return False
