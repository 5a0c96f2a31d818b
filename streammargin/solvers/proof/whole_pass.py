"""Methods that update the weights once per pass, so that each pass is also the certificate of its weights."""

from __future__ import annotations

import math
from typing import ClassVar, TypeVar

import numpy as np

from streammargin.compiled import row_norms as norms
from streammargin.errors import DataError
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.base import MarginSizes, PassReport, margin_sizes
from streammargin.solvers.linear import LinearSolver, LinearState, keep_weights
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import best_figures, gaps_of, keep_bounds
from streammargin.solvers.proof.objectives.base import Candidate
from streammargin.solvers.proof.rounding import mean_rounding, score_rounding
from streammargin.solvers.roles import Count, Shared, Sum, clear, f8, of, state
from streammargin.solvers.space import EUCLIDEAN, Space
from streammargin.solvers.state import labels_of
from streammargin.solvers.visits import Visit


@state
class PassSums:
    """The sums of a pass; seen: number of rows."""

    seen: Count = 0


@state
class Whole(LinearState):
    """w: weights, frozen during a pass; row_norms: figures from the prologue (compiled/row_norms.py)."""

    w: Shared[f8]
    sums: PassSums
    row_norms: Sum[f8] = of(norms.ROW_FIGURES, largest=(norms.LARGEST_NORM,))


P = TypeVar("P", bound=Whole)


class WholePass(LinearSolver[P]):
    """One read per iteration, without numbers per row unless a subclass adds them; hard margin and p = 2 only.

    A prologue pass finds the largest and the mean row norm. A subclass calls `report` at the end of a pass. It counts
    the rows of every block in `sums.seen`, so that an interrupted pass proves nothing.
    """

    prologue = 1
    adds = ("sums",)
    default_C: ClassVar[float] = math.inf
    takes: ClassVar[tuple[str, ...]] = ()
    norm_range: ClassVar[tuple[float, float]] = (1e-290, 1e290)  # of the largest row norm
    space: ClassVar[Space] = EUCLIDEAN  # of its vectors

    def prologue_visit(self, problem: Problem, state: P, index: int) -> Visit:
        return Visit(
            "prologue", self.prologue_block, (), ("row_norms", "sums"), leaves=self.mapped, lines=problem.count
        )

    def prologue_block(self, problem: Problem, state: P, block: Block, first: int) -> None:
        norms.row_norms(block, numbered_from(first), labels_of(problem, state), problem.q, state.row_norms)

    def mean_norm(self, state: P) -> float:
        """The mean of ||a_i||."""
        return float(state.row_norms[norms.TOTAL]) / max(1.0, float(state.row_norms[norms.PRESENT_ROWS]))

    def terms(self, problem: Problem, state: P) -> float:
        """The number of additions in a mean of rows that bounds the margin."""
        # the rows of a pass, and a few operations per pass
        return problem.margin.terms(problem.present) + 4 * state.number

    def _longest(self, problem: Problem, state: P) -> float:
        return float(problem.margin.reported(state.row_norms[norms.LARGEST_NORM]))

    def rounded_up(self, problem: Problem, state: P, upper: np.ndarray) -> np.ndarray:
        """Norms (groups,) of means of rows, plus their rounding bounds."""
        return upper + mean_rounding(self.terms(problem, state), self._longest(problem, state))

    def margin_sizes(self, problem: Problem, state: P) -> MarginSizes:
        size = self._longest(problem, state)
        added = float(self.rounded_up(problem, state, np.zeros(1))[0])
        hull = self.hull_rounding(state)
        rounding = mean_rounding(WholePass.terms(self, problem, state), size) + hull * size + added
        return margin_sizes(problem, self.mean_norm(state), rounding)

    def hull_rounding(self, state: P) -> float:
        """The rounding allowance of hull bounds, relative to the largest row norm; 0 without them."""
        return 0.0

    def largest_norm(self, state: P) -> float:
        """R = max_i ||a_i||; 1 if all rows are 0."""
        return float(state.row_norms[norms.LARGEST_NORM]) or 1.0

    def check_scale(self, state: P) -> None:
        """DataError if the largest row norm is outside norm_range, unless all rows are 0."""
        size = float(state.row_norms[norms.LARGEST_NORM])
        if size != 0.0 and not self.norm_range[0] <= size <= self.norm_range[1]:
            raise DataError(
                f"the largest row has the norm {size:.3g}, too far from 1 to compute with;"
                " multiply the data by a constant, or use `scale=maxabs`"
            )

    def begin_pass(self, problem: Problem, state: P, active: np.ndarray) -> None:
        if state.number == 1 and self.prologue:
            self.check_scale(state)
            self.after_prologue(problem, state)
        clear(state.sums)
        for group in problem.done(active):
            self.keep(problem, state, group)

    def after_prologue(self, problem: Problem, state: P) -> None:
        """Called before the first pass, after the prologue."""

    def keep(self, problem: Problem, state: P, group: int) -> None:
        """Set the weights of a group that is done to its best ones, for the next pass."""
        problem.view(state.w, group)[:] = problem.view(state.best_w, group)

    def complete(self, problem: Problem, state: P) -> bool:
        """Whether the pass has seen all rows; True for methods that do not count them."""
        return state.sums.seen in (0, problem.rows)

    def sizes(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        """The norms (groups,) of w (K, d+1) by which margins are divided."""
        return problem.lengths(np.array([self.space.length(row) for row in w]))

    def lower(self, problem: Problem, state: P, w: np.ndarray, smallest: np.ndarray) -> np.ndarray:
        """Margins (groups,) of w (K, d+1), rounded down, from the smallest a_i.w over the present rows."""
        sizes, found = self.sizes(problem, w), np.full(problem.groups, -math.inf)
        np.divide(smallest, sizes, out=found, where=sizes > 0.0)
        found -= score_rounding(2 * problem.features, self._longest(problem, state))  # rounding of scores and norm
        return found

    def report(
        self, problem: Problem, state: P, w: np.ndarray, smallest: np.ndarray, upper: np.ndarray,
        mistakes: np.ndarray, wrong: np.ndarray | None = None,
    ) -> PassReport:  # fmt: skip
        """The report of a pass at the weights w (K, d+1), an array that must not be modified later.

        smallest (groups,): min_i a_i.w over the present rows; upper (groups,): norms of means of rows; mistakes
        (groups,); wrong (trials,): rows whose largest score is not that of their class.
        """
        best = state.best
        if problem.joint and wrong is not None:
            mistakes = wrong  # each row once, not once for each class that is ahead of its own
        if not self.complete(problem, state):
            unknown = np.full(problem.groups, math.inf)
            return PassReport(unknown, int(np.sum(mistakes)), best_figures(problem, best))
        upper = np.minimum(best.upper, self.rounded_up(problem, state, upper))
        if state.row_norms[norms.EMPTY] > 0.0:
            upper[:] = problem.margin_of_zeros
        keep_bounds(best, np.array([problem.objective.dual(bound) for bound in upper.tolist()]), upper)
        lower = self.lower(problem, state, w, smallest)
        found = [Candidate(math.inf, *known) for known in zip(lower.tolist(), mistakes.tolist(), strict=True)]
        keep_weights(problem, state, w, found)
        figures = best_figures(problem, best)
        return PassReport(gaps_of(figures), int(np.sum(mistakes)), figures, wrong)
