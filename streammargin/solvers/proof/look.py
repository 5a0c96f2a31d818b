"""A read that looks at frozen weights certifies them: what methods with such reads have in common."""

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


@state
class LookedAt(LinearState):
    """w: the weights, frozen during a read; look: the sums of the rows at them."""

    w: Shared[f8]
    look: LookSums


L = TypeVar("L", bound=LookedAt)


class CertifiedByLook(LinearSolver[L]):
    """Base class: the weights w stay as they are during a read, which certifies them."""

    mapped = True
    adds: ClassVar[Names] = ("look",)

    def begin_at(self, problem: Problem, state: L, w: np.ndarray) -> None:
        state.w[:] = w

    def begin_pass(self, problem: Problem, state: L, active: np.ndarray) -> None:
        """Groups that are done show certified weights."""
        done = problem.lines_of(problem.done(active))
        mistakes = state.look.weights[done, kernel.MISTAKES]
        clear(state.look)
        state.w[done], state.look.weights[done, kernel.MISTAKES] = state.best_w[done], mistakes

    def bound(self, problem: Problem, state: L, k: int, proof: Bounds) -> float:
        """The lower bound on the objective of group k that the look proves."""
        return proof.dual

    def prove(self, problem: Problem, state: L, active: np.ndarray) -> dict[int, Bounds]:
        """Keep what a look at all rows proves of the weights, and return it, by group."""
        proofs = {k: bounds_of_group(problem, k, state.w, state.look) for k in active.tolist()}
        dual = np.full(problem.groups, -math.inf)
        dual[active] = [self.bound(problem, state, k, proof) for k, proof in proofs.items()]
        keep_bounds(state.best, dual, np.full(problem.groups, math.inf))
        found = [proofs[k].weights if k in proofs else None for k in range(problem.groups)]
        keep_weights(problem, state, state.w.copy(), found)
        return proofs

    @staticmethod
    def report(problem: Problem, state: L) -> PassReport:
        """The figures after a look, at all rows or, if it was interrupted, at some."""
        look, figures = state.look, best_figures(problem, state.best)
        wrong = look.wrong if problem.compared and problem.joint else look.weights[:, kernel.MISTAKES]
        counted = look.wrong.copy() if problem.compared and look.rows == problem.rows else None
        return PassReport(gaps_of(figures), int(wrong.sum()), figures, counted)
