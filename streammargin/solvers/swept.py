"""Certificates by a sweep over all rows with the weights frozen: for methods that move at every row."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from streammargin.kernels import certificate as sums
from streammargin.solvers.base import Figures, Problem, Solver, State, relative_gap, relative_margin_gap
from streammargin.solvers.state import Array, Layout
from streammargin.specs.blocks import Block
from streammargin.specs.norms import dual_norm
from streammargin.specs.rows import numbered_from


class Swept(Solver):
    """Keeps, for each problem, the best weights that were certified and the best bounds.

    A subclass has `certificates` in its layout, and says what is frozen, which duals belong to it, and what to do
    with A^T alpha once that is known exactly.
    """

    @abstractmethod
    def frozen(self, problem: Problem, state: State, k: int) -> np.ndarray:
        """The weights (d+1,) of problem k to certify."""

    def duals(self, problem: Problem, state: State) -> tuple[np.ndarray, np.ndarray]:
        """alpha (K, n) on the C scale and sleep counters (K, n) uint8, or both (K, 0) for a method without duals."""
        return np.zeros((problem.count, 0), state.arrays["best"].dtype), np.zeros((problem.count, 0), np.uint8)

    def bounds(self, problem: Problem, state: State, k: int) -> tuple[float, float]:
        """A lower bound of the objective and an upper bound of the margin that the method knows without duals."""
        return -math.inf, math.inf

    def rebuilt(self, problem: Problem, state: State, k: int, theta: np.ndarray) -> None:
        """Called with A^T alpha (d+1,) of the duals, exact in float64."""

    def certificates(self, problem: Problem, dtype: np.dtype) -> Layout:
        """The best weights and bounds, and what a sweep sums up; the weights to certify are of this dtype."""
        K, width = problem.count, problem.features + 1
        return {
            "best": Array((K, width), dtype),
            "best_primal": Array((K,), fill=math.inf),
            "best_mistakes": Array((K,), np.int64),
            "best_dual": Array((K,), fill=-math.inf),
            "best_lower": Array((K,), fill=-math.inf),
            "best_upper": Array((K,), fill=math.inf),
            "frozen": Array((K, width), dtype),
            "rebuilt": Array((K, width)),
            "sums": Array((K, sums.SUMS)),
            "wrong": Array((problem.trials,), np.int64),
        }

    @staticmethod
    def powers(problem: Problem, state: State) -> np.ndarray:
        """sign(theta) |theta|^(q-1), (K, d+1): theta itself at p = 2."""
        return state.arrays["theta" if problem.p == 2.0 else "powers"]

    def begin_certificate(self, problem: Problem, state: State, active: np.ndarray) -> None:
        a = state.arrays
        a["frozen"][:] = a["best"]
        for k in active:
            a["frozen"][k] = self.frozen(problem, state, k)
        for name in ("rebuilt", "sums", "wrong"):
            a[name][:] = 0
        a["sums"][:, sums.MIN_MARGIN] = math.inf

    def certify_block(self, problem: Problem, state: State, block: Block, first: int) -> None:
        a = state.arrays
        alpha, sleep = self.duals(problem, state)
        sums.certify_block(
            block, numbered_from(first), problem.labels, problem.loss, problem.trials, a["frozen"], alpha, sleep,
            a["rebuilt"], a["sums"], a["wrong"],
        )  # fmt: skip

    def end_certificate(self, problem: Problem, state: State) -> tuple[list[Figures], np.ndarray]:
        a = state.arrays
        has_duals = self.duals(problem, state)[0].shape[1] > 0
        # several classes share one count of mistakes, so all of them report the latest weights
        together = problem.per_trial > 1
        for k in range(problem.count):
            total = a["sums"][k]
            w = a["frozen"][k]
            size = dual_norm(w, problem.p)
            lower = self._lower(problem, total[sums.MIN_MARGIN], size)
            dual, upper = self.bounds(problem, state, k)
            if has_duals:
                length = dual_norm(a["rebuilt"][k], problem.q)
                gain = total[sums.SUM_ALPHA] if problem.hard and not problem.targets.size else total[sums.DUAL]
                dual = max(dual, gain - 0.5 * length**2)
                if total[sums.SUM_ALPHA] > 0.0:
                    upper = min(upper, length / total[sums.SUM_ALPHA])
                self.rebuilt(problem, state, k, a["rebuilt"][k])
            a["best_dual"][k] = max(a["best_dual"][k], dual)
            a["best_upper"][k] = min(a["best_upper"][k], upper)
            if problem.targets.size:
                primal = 0.5 * size * size
                better = self._amiss(problem, state, k, primal, lower) <= self._amiss(
                    problem, state, k, float(a["best_primal"][k]), float(a["best_lower"][k])
                )
            elif problem.hard:
                primal = math.inf
                better = together or lower > a["best_lower"][k] or not np.isfinite(a["best_lower"][k])
            else:
                primal = total[sums.PRIMAL] + 0.5 * size * size
                better = together or primal < a["best_primal"][k]
            if better:
                a["best"][k] = w
                a["best_primal"][k] = primal
                a["best_lower"][k] = lower
                a["best_mistakes"][k] = total[sums.MISTAKES]
        return [self._figures(problem, state, k) for k in range(problem.count)], a["wrong"].copy()

    @staticmethod
    def _lower(problem: Problem, slack: float, size: float) -> float:
        """What is the better, the larger: the smallest margin, or minus the largest violation of a target."""
        if problem.targets.size:
            return slack
        return slack / size if size > 0.0 else -math.inf

    @staticmethod
    def _amiss(problem: Problem, state: State, k: int, primal: float, slack: float) -> float:
        """How far weights are from meeting the targets and from the best bound, each relative; inf for none yet."""
        dual = float(state.arrays["best_dual"][k])
        if not math.isfinite(primal):
            return math.inf
        return max(-slack, 0.0) / max(problem.largest_target, 1e-300) + abs(primal - dual) / max(primal, dual, 1e-300)

    def reached(self, problem: Problem, figures: Figures) -> bool:
        """Of targets: violations within tol of the largest target, and a norm within tol of the bound below it."""
        if figures.residual is None:
            return super().reached(problem, figures)
        apart = abs(figures.primal - figures.dual) <= problem.tol * max(figures.primal, figures.dual)
        return apart and figures.residual <= problem.tol * problem.largest_target

    def _figures(self, problem: Problem, state: State, k: int) -> Figures:
        a = state.arrays
        primal, dual = float(a["best_primal"][k]), float(a["best_dual"][k])
        common = {"w": a["best"][k].astype(np.float64), "mistakes": int(a["best_mistakes"][k])}
        if problem.targets.size:
            residual = max(0.0, -float(a["best_lower"][k]))
            # only a point that meets all targets has a primal value, and a gap; there the dual, a sum of terms of
            # both signs, may lie above it by rounding
            return Figures(
                primal=primal, dual=dual, gap=relative_gap(primal, min(dual, primal)) if residual == 0.0 else None,
                margin_lower=None, margin_upper=None, margin_gap=None, residual=residual, **common,
            )  # fmt: skip
        if not problem.hard:
            return Figures(
                primal=primal, dual=dual, gap=relative_gap(primal, dual),
                margin_lower=None, margin_upper=None, margin_gap=None, **common,
            )  # fmt: skip
        lower, upper = float(a["best_lower"][k]), float(a["best_upper"][k])
        if self.has_empty_row(problem, state):
            upper = 0.0  # a row of norm 0 has margin 0 under every w
        return Figures(
            primal=0.5 / lower / lower if lower > 0.0 else math.inf, dual=dual, gap=None,
            margin_lower=lower, margin_upper=upper, margin_gap=relative_margin_gap(lower, upper), **common,
        )  # fmt: skip

    def has_empty_row(self, problem: Problem, state: State) -> bool:
        """Whether a row that is present is known to have norm 0."""
        return False
