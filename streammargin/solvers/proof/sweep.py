"""Certificates by a sweep over all rows with frozen weights, for methods that update the weights at every row.

Weights that miss a margin of 1 by their rounding are divided by the least margin, and then have no loss at all. Steps
in float32 leave margins of some 1 - 2e-6. If a plane separates the rows, the objective does not grow with C, but C
times such small losses does. No pass lessens them, and at a large C they exceed the tolerance.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import partial
from typing import ClassVar, TypeVar

import numpy as np

from streammargin.compiled import look as kernel
from streammargin.compiled.look import ROUNDING, SUM_OF_LOSSES, SUM_OF_MISTAKES, Frozen, Looked, Prox, look
from streammargin.compiled.sleep import AWAKE
from streammargin.compiled.vectors import square
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, numbered_from
from streammargin.solvers.linear import LinearSolver, LinearState, keep_weights
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import best_figures, keep_bounds
from streammargin.solvers.proof.bounds import CHUNKED, balanced_group
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.objectives.base import Candidate, Objective, Sums
from streammargin.solvers.proof.rounding import blur
from streammargin.solvers.proof.sums import LookSums
from streammargin.solvers.roles import Float, K, Shared, Sum, clear, f8, of, state
from streammargin.solvers.state import labels_of
from streammargin.solvers.visits import Visit

MISSED_ROUNDINGS = 4.0  # roundings of float32 that a margin misses 1 by, times the root of the number of columns
LEAST_ROUNDED_COLUMNS = 64.0
SINGLE = 2.0**-24
WAKING_CURVATURE = 1.0  # of the step that wakes rows: whether one leaves a bound does not depend on it


@state
class Sweep(LookSums):
    """Frozen weights, and the sums of the rows at them and at the duals; extremes: what hard margins need of the rows.

    largest_blur: the largest bound on the rounding error of A^T alpha, relative to sum alpha, in any sweep.
    """

    frozen: Shared[Float]
    blur: Shared[f8] = of(K)
    extremes: Sum[f8] = of(
        K, kernel.EXTREMES, smallest=(kernel.LEAST_SLACK, kernel.SAFE_SLACK), largest=(kernel.LARGEST_ROW_NORM,)
    )
    largest_blur: float = 0.0

    def begin(self) -> None:
        """Before a read at the frozen weights."""
        self.blur = blur(self.frozen)
        clear(self)

    def certify(
        self, problem: Problem, labels: Labels, block: Block, first: int, alpha: np.ndarray, sleep: np.ndarray,
        lines: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Add the sums of the rows of a block; returns the sleeping rows whose dual a step would change, as `sleep`.

        alpha (K, m): the duals of these rows, or (K, 0) for a method without duals; sleep (K, m), or (groups, m) for a
        loss of all scores, or (..., 0); lines: those whose sums are wanted.
        """
        sides, K, asleep = slice(None if alpha.size else 0), len(self.frozen), sleep > AWAKE
        found = Looked(
            self.weights[None], self.duals[:, sides], self.pull[:, sides], self.wrong[None], extremes=self.extremes
        )  # fmt: skip
        centres = np.ascontiguousarray(alpha, np.float64)  # the kernels are compiled for arrays of this order alone
        curvature, steps = (WAKING_CURVATURE, centres.copy()) if asleep.any() else (np.inf, np.zeros((K, 0)))
        rule = Prox(centres, steps, np.full(K, curvature), np.zeros(K), base=first)
        point = Frozen(self.frozen[None], np.zeros((1, K)), self.blur[None])
        look(block, numbered_from(first), labels, problem.loss, lines, point, rule, found, frozen=True)
        if not steps.size:
            return np.zeros_like(asleep)
        moved: np.ndarray = (steps.astype(alpha.dtype) != alpha)[:: K // len(sleep)]
        return asleep & moved


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
        sweep.begin()

    def certificate(self, problem: Problem, state: C, active: np.ndarray) -> Visit:
        """A read with fixed weights, for `judged` problems; the others keep their figures."""
        visit = super().certificate(problem, state, active)
        each, end = (partial(method, active=active) for method in (self.certify_block, self.end_certificate))
        return visit._replace(each=each, end=end, lines=self.judged(problem, active).size)

    @staticmethod
    def judged(problem: Problem, active: np.ndarray | None) -> np.ndarray:
        """The active problems; None: all. Of classes that are compared all, too: none may grow if a row is wrong."""
        return np.arange(problem.count) if active is None or problem.compared else active

    def certify_block(
        self, problem: Problem, state: C, block: Block, first: int, active: np.ndarray | None = None
    ) -> None:
        rows, lines = slice(first, first + block.rows()), self.judged(problem, active)
        alpha, sleep = (each[:, rows] for each in self.duals(problem, state))
        sleep[state.sweep.certify(problem, labels_of(problem, state), block, first, alpha, sleep, lines)] = 0

    def end_certificate(
        self, problem: Problem, state: C, active: np.ndarray | None = None
    ) -> tuple[list[Figures], np.ndarray]:
        sweep, objective, count = state.sweep, problem.objective, problem.count
        has_duals = self.duals(problem, state)[0].shape[1] > 0
        found: list[Candidate | None] = [None] * count
        dual, upper = np.full(count, -math.inf), np.full(count, math.inf)
        surely, longest = np.zeros(count), np.zeros(count)
        for k in self.judged(problem, active).tolist():
            theta, total = self._total(problem, sweep, k)
            dual[k], upper[k] = self.bounds(problem, state, k, total.longest)
            if has_duals:
                below, above = objective.bounds(theta, total)
                dual[k], upper[k] = max(dual[k], below), min(upper[k], above)
                if total.alpha > 0.0:
                    sweep.largest_blur = max(sweep.largest_blur, total.blur / total.alpha)
                self.rebuilt(problem, state, k, theta)
            found[k] = objective.candidate(objective.size(sweep.frozen[k]), total)
            surely[k], longest[k] = total.surely, total.longest
        self._grow(problem, sweep.frozen, found, np.maximum(dual, state.best.dual), surely, longest)
        if objective.infeasible and self.has_empty_row(problem, state):
            upper[:] = problem.margin_of_zeros
        keep_bounds(state.best, dual, upper)
        frozen, sweep.frozen = sweep.frozen, np.zeros_like(sweep.frozen)  # best_w may now refer to it
        keep_weights(problem, state, frozen, found)
        return best_figures(problem, state.best), sweep.wrong.copy()

    @staticmethod
    def _total(problem: Problem, sweep: Sweep, k: int) -> tuple[np.ndarray, Sums]:
        """(A^T alpha (d+1,), all sums) of problem k."""
        theta, total = balanced_group(problem, k, sweep)
        losses, (least, surely, longest) = sweep.weights[k], sweep.extremes[k].tolist()
        value = float(losses[SUM_OF_LOSSES])
        return theta, total._replace(
            losses=value, rounding=float(losses[ROUNDING]) + CHUNKED * value, mistakes=float(losses[SUM_OF_MISTAKES]),
            slack=least, surely=surely, longest=max(longest, 0.0),
        )  # fmt: skip

    @staticmethod
    def _grow(
        problem: Problem, w: np.ndarray, found: list[Candidate | None], dual: np.ndarray, surely: np.ndarray,
        longest: np.ndarray,
    ) -> None:  # fmt: skip
        """Grow weights w (K, d+1) of float32 whose least margin (K,), `surely`, is below 1 by rounding alone.

        found: the candidates of the lines, which follow; None for one that is done. dual (K,): the best bounds;
        longest (K,): the largest lengths of rows.
        """
        if w.dtype != np.float32 or problem.hard or problem.numeric or problem.loss.primal(1.0, 1.0) > 0.0:
            return
        known = zip(found, dual.tolist(), surely.tolist(), strict=True)
        able = np.array([
            one is not None and far(problem, one, bound) and missed_by_rounding(least, w.shape[1])
            for one, bound, least in known
        ])  # fmt: skip
        if problem.compared:  # other lines of a row have a sign, too: no row is wrong, whatever grows
            able &= np.repeat((surely > 0.0).reshape(problem.trials, -1).all(axis=1), problem.per_trial)
        for k in np.flatnonzero(able).tolist():
            larger, now = grown(problem.objective, w[k], float(surely[k]), float(longest[k]))
            if (before := found[k]) is not None and now.primal < before.primal:
                w[k], found[k] = larger, now

    def has_empty_row(self, problem: Problem, state: C) -> bool:
        """Whether a present row is known to have norm 0."""
        return False


def far(problem: Problem, found: Candidate, dual: float) -> bool:
    """Whether the weights are not within the tolerance by this bound."""
    return not found.primal - dual <= problem.tol * abs(found.primal)


def missed_by_rounding(least: float, columns: int) -> bool:
    """Whether a least margin is below 1 by no more than rounding explains."""
    return 1.0 > least >= 1.0 - 2.0 * MISSED_ROUNDINGS * SINGLE * math.sqrt(max(LEAST_ROUNDED_COLUMNS, columns))


def grown(objective: Objective, w: np.ndarray, least: float, longest: float) -> tuple[np.ndarray, Candidate]:
    """The weights of a group, (d+1,) or (lines, d+1), with all margins at least 1, and their figures.

    least: a lower bound (> 0) on the margins; longest: an upper bound on the lengths of the rows.
    """
    # a weight is rounded to its type once more, which moves a score by no more than this times its lines
    moved = float(np.finfo(w.dtype).eps) * longest * sum(lp_norm(one, 2.0, square(one)) for one in np.atleast_2d(w))
    found = ((1.0 + 2.0 * moved) / least * w.astype(np.float64)).astype(w.dtype)
    return found, objective.weighed(objective.size(found), 0.0, 0.0, 0)
