"""A look at frozen weights certifies them: what steps by products have in common, in memory and out of core."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from streammargin.compiled import look as certificate
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Labels, RowNumbers
from streammargin.solvers.base import PassReport
from streammargin.solvers.linear import LinearSolver, keep_weights
from streammargin.solvers.newton.conjugate_state import Looking
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import best_figures, keep_bounds
from streammargin.solvers.proof.bounds import bounds_of_group
from streammargin.solvers.proof.objectives.base import Candidate
from streammargin.solvers.proof.rounding import blur

L = TypeVar("L", bound=Looking)


class Frozen(LinearSolver[L]):
    """Base class: the weights w stay as they are during a read, which certifies them."""

    numeric = True
    requires = ("slope", "curvature_bound")
    couples = ("coupled_step", "coupled_slopes", "curvature_bound")

    def begin_at(self, problem: Problem, state: L, w: np.ndarray) -> None:
        state.w[:] = w

    def weights(self, problem: Problem, state: L) -> np.ndarray:
        return state.w.copy()

    @staticmethod
    def show_certified(problem: Problem, state: L, active: np.ndarray) -> None:
        """Groups that are done show certified weights."""
        done = problem.lines_of(np.setdiff1d(np.arange(problem.groups), active))
        state.w[done] = state.best_w[done]

    @staticmethod
    def look(
        problem: Problem, state: L, labels: Labels, active: np.ndarray, block: Block, numbers: RowNumbers,
        margins: np.ndarray = certificate.NOWHERE,
    ) -> None:  # fmt: skip
        """Add the sums of these rows at the weights; margins (1, K, n) or (1, K, 0): set to theirs."""
        found, none = state.look, np.zeros((1, problem.count))
        found.rows += block.rows()
        certificate.look(
            block, numbers, labels, problem.loss, problem.lines_of(active),
            certificate.Point(state.w[None], none, blur(state.w)[None]),
            certificate.Prox(np.zeros((problem.count, 0)), np.zeros((problem.count, 0)), none[0], none[0]),
            certificate.Found(
                found.weights[None], found.duals, found.pull, found.wrong[None], margins, found.own, found.parts
            ),
        )  # fmt: skip

    @staticmethod
    def prove(problem: Problem, state: L, active: np.ndarray) -> np.ndarray:
        """Keep what a look at all rows proves; returns the objectives (groups,) at its weights, inf: not looked at."""
        found: list[Candidate | None] = [None] * problem.groups
        dual, heights = np.full(problem.groups, -math.inf), np.full(problem.groups, math.inf)
        for k in active.tolist():
            proof = bounds_of_group(problem, k, state.w, state.look)
            found[k], dual[k], heights[k] = proof.weights, proof.dual, proof.weights.primal
        keep_bounds(state.best, dual, np.full(problem.groups, math.inf))
        keep_weights(problem, state, state.w.copy(), found)
        return heights

    @staticmethod
    def report(problem: Problem, state: L) -> PassReport:
        """What is known after a look, at all rows or, where it was interrupted, at some."""
        look, figures = state.look, best_figures(problem, state.best)
        estimate = np.array([math.inf if f.gap is None else f.gap for f in figures])
        if look.rows < problem.rows:
            return PassReport(estimate, 0, figures)
        wrong = look.wrong if problem.compared and problem.joint else look.weights[:, certificate.MISTAKES]
        return PassReport(estimate, int(wrong.sum()), figures, look.wrong.copy() if problem.compared else None)
