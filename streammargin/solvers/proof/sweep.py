"""Certificates by a sweep over all rows with frozen weights, for methods that update the weights at every row."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, TypeVar

import numpy as np

from streammargin.compiled import certificate as sums
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.linear import LinearSolver, LinearState, keep_weights
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import best_figures, keep_bounds
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.grown import far, grown, missed_by_rounding
from streammargin.solvers.proof.objectives.base import Candidate, Sums
from streammargin.solvers.proof.rounding import blur
from streammargin.solvers.proof.sums import EXACT
from streammargin.solvers.roles import TRIALS, Float, K, Shared, Sum, W, f8, i8, of, state
from streammargin.solvers.state import labels_of


@state
class Sweep:
    """Frozen weights, A^T alpha in float64 (rebuilt), and the sums of compiled/certificate.py.

    largest_blur: the largest bound on the rounding error of A^T alpha, relative to sum alpha, in any sweep.
    """

    frozen: Shared[Float]
    blur: Shared[f8] = of(K)
    rebuilt: Sum[f8] = of(K, W)
    sums: Sum[f8] = EXACT
    wrong: Sum[i8] = of(TRIALS)
    largest_blur: float = 0.0


@state
class Certified(LinearState):
    """The state of a solver certified by sweeps."""

    sweep: Sweep


C = TypeVar("C", bound=Certified)


class CertifiedBySweep(LinearSolver[C]):
    """Base class: subclasses define the weights to certify and their duals, and may use the exact A^T alpha."""

    # compiled for methods without duals too
    requires: ClassVar[tuple[str, ...]] = ("primal", "slack", "dual", "feasible", "step")

    @abstractmethod
    def frozen(self, problem: Problem, state: C, k: int) -> np.ndarray:
        """The weights (d+1,) of problem k to certify; they may be in `sweep.frozen` already."""

    def duals(self, problem: Problem, state: C) -> tuple[np.ndarray, np.ndarray]:
        """alpha (K, n) on the C scale and sleep counters (K, n) uint8, or both (K, 0) for a method without duals."""
        return np.zeros((problem.count, 0), state.best_w.dtype), np.zeros((problem.count, 0), np.uint8)

    def bounds(self, problem: Problem, state: C, k: int, longest: float) -> tuple[float, float]:
        """(lower bound on the objective, upper bound on the margin) that the method knows without duals.

        longest: the largest Euclidean norm of the rows.
        """
        return -math.inf, math.inf

    def rebuilt(self, problem: Problem, state: C, k: int, theta: np.ndarray) -> None:
        """Called with A^T alpha (d+1,), summed in float64."""

    def begin_certificate(self, problem: Problem, state: C, active: np.ndarray) -> None:
        sweep = state.sweep
        for k in range(problem.count):
            w = self.frozen(problem, state, k) if k in active else state.best_w[k]
            if not np.may_share_memory(w, sweep.frozen):  # copies of many columns are slow
                sweep.frozen[k] = w
        sweep.blur = blur(sweep.frozen)
        sweep.sums = sums.new_sums(problem.count)
        sweep.rebuilt[:] = 0.0
        sweep.wrong[:] = 0

    def certify_block(self, problem: Problem, state: C, block: Block, first: int) -> None:
        alpha, sleep = self.duals(problem, state)
        sweep = state.sweep
        sums.certify_block(
            block, numbered_from(first), labels_of(problem, state), problem.loss, problem.trials, sweep.frozen,
            sweep.blur, alpha, sleep, sweep.rebuilt, sweep.sums, sweep.wrong,
        )  # fmt: skip

    def end_certificate(self, problem: Problem, state: C) -> tuple[list[Figures], np.ndarray]:
        sweep, objective, count = state.sweep, problem.objective, problem.count
        has_duals = self.duals(problem, state)[0].shape[1] > 0
        found, dual, upper = [], np.empty(count), np.empty(count)
        surely, longest = np.empty(count), np.empty(count)
        for k in range(count):
            total = Sums(*sweep.sums[k, : sums.CARRY].tolist())._replace(rows=problem.present)
            dual[k], upper[k] = self.bounds(problem, state, k, total.longest)
            if has_duals:
                below, above = objective.bounds(sweep.rebuilt[k], total)
                dual[k], upper[k] = max(dual[k], below), min(upper[k], above)
                if total.alpha > 0.0:
                    sweep.largest_blur = max(sweep.largest_blur, total.blur / total.alpha)
                self.rebuilt(problem, state, k, sweep.rebuilt[k])
            found.append(objective.candidate(objective.size(sweep.frozen[k]), total))
            surely[k], longest[k] = total.surely, total.longest
        self._grow(problem, sweep.frozen, found, np.maximum(dual, state.best.dual), surely, longest)
        if objective.infeasible and self.has_empty_row(problem, state):
            upper[:] = problem.margin_of_zeros
        keep_bounds(state.best, dual, upper)
        frozen, sweep.frozen = sweep.frozen, np.zeros_like(sweep.frozen)  # best_w may now refer to it
        keep_weights(problem, state, frozen, found)
        return best_figures(problem, state.best), sweep.wrong.copy()

    @staticmethod
    def _grow(
        problem: Problem, w: np.ndarray, found: list[Candidate], dual: np.ndarray, surely: np.ndarray,
        longest: np.ndarray,
    ) -> None:  # fmt: skip
        """Grow weights w (K, d+1) of float32 whose least margin (K,), `surely`, is below 1 by rounding alone.

        found: the candidates of the lines, which follow; dual (K,): the best bounds; longest (K,): the largest lengths
        of rows.
        """
        if w.dtype != np.float32 or problem.hard or problem.numeric or problem.loss.primal(1.0, 1.0) > 0.0:
            return
        known = zip(found, dual.tolist(), surely.tolist(), strict=True)
        able = np.array([far(problem, *one) and missed_by_rounding(least, w.shape[1]) for *one, least in known])
        if problem.compared:  # other lines of a row have a sign, too: no row is wrong, whatever grows
            able &= np.repeat((surely > 0.0).reshape(problem.trials, -1).all(axis=1), problem.per_trial)
        for k in np.flatnonzero(able).tolist():
            larger, now = grown(problem.objective, w[k], float(surely[k]), float(longest[k]))
            if now.primal < found[k].primal:
                w[k], found[k] = larger, now

    def has_empty_row(self, problem: Problem, state: C) -> bool:
        """Whether a present row is known to have norm 0."""
        return False
