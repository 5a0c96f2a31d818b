"""A read at frozen weights certifies them: what methods with such reads have in common."""

from __future__ import annotations

import math
from typing import ClassVar, TypeVar

import numpy as np

from streammargin.compiled import look as kernel
from streammargin.solvers.base import PassReport
from streammargin.solvers.linear import LinearSolver, LinearState, keep_weights
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import best_figures, gaps_of, keep_bounds
from streammargin.solvers.proof.bounds import Bounds, bounds_of_group
from streammargin.solvers.proof.sums import LookSums
from streammargin.solvers.roles import Names, Shared, clear, f8, state

LIKELY = 0.9  # of tol: the gap that steps in memory aim at, so that the read proves tol


@state
class CertifiedState(LinearState):
    """w: the weights, frozen during a read; sums: the sums of the rows at them."""

    w: Shared[f8]
    sums: LookSums


L = TypeVar("L", bound=CertifiedState)


class CertifiedByRead(LinearSolver[L]):
    """Base class: the weights w stay as they are during a read, which certifies them."""

    mapped = True
    adds: ClassVar[Names] = ("sums",)

    def begin_at(self, problem: Problem, state: L, w: np.ndarray) -> None:
        state.w[:] = w

    def begin_pass(self, problem: Problem, state: L, active: np.ndarray) -> None:
        """Groups that are done show certified weights."""
        done = problem.lines_of(problem.done(active))
        mistakes = state.sums.weights[done, kernel.SUM_OF_MISTAKES]
        clear(state.sums)
        state.w[done], state.sums.weights[done, kernel.SUM_OF_MISTAKES] = state.best_w[done], mistakes

    def prove(self, problem: Problem, state: L, active: np.ndarray) -> dict[int, Bounds]:
        """Keep what a read of all rows proves of the weights, and return it, by group."""
        proofs = {k: bounds_of_group(problem, k, state.w, state.sums) for k in active.tolist()}
        dual = np.full(problem.groups, -math.inf)
        dual[active] = [proof.dual for proof in proofs.values()]
        keep_bounds(state.best, dual, np.full(problem.groups, math.inf))
        found = [proofs[k].weights if k in proofs else None for k in range(problem.groups)]
        keep_weights(problem, state, state.w.copy(), found)
        return proofs

    @staticmethod
    def report(problem: Problem, state: L) -> PassReport:
        """The figures after a read, of all rows or, if it was interrupted, of some."""
        sums, figures = state.sums, best_figures(problem, state.best)
        wrong = sums.wrong if problem.compared and problem.joint else sums.weights[:, kernel.SUM_OF_MISTAKES]
        counted = sums.wrong.copy() if problem.compared and sums.rows == problem.rows else None
        return PassReport(gaps_of(figures), int(wrong.sum()), figures, counted)
