"""Whole-pass methods of the hinge loss in the Euclidean norm: what diagonal descent and homotopy share."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np

from streammargin.compiled.chunks import MISTAKES, SMALLEST
from streammargin.solvers.base import PassReport, State
from streammargin.solvers.old_state import Array, Layout, Room
from streammargin.solvers.papers.whole_pass import WholePass
from streammargin.solvers.problem import Problem


class HingePass(WholePass):
    """Rows are taken in units of their largest norm, so that any scale of the data works.

    A pass sums up `pull` (K, d+1), `figures` (K, columns; the first is the smallest margin, the second the
    mistakes) and `wrong` (1,).
    """

    columns: ClassVar[int]

    def layout(self, problem: Problem) -> Layout:
        K, width = problem.count, problem.features + 1
        return super().layout(problem) | {
            "pull": Array((K, width)),
            "figures": Array((K, self.columns)),
            "wrong": Array((1,), np.int64),
            "the weights as they are shown, and the best before": Room(2 * 8 * K * width),
        }

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        super().begin_pass(problem, state, number)
        for name in ("pull", "figures", "wrong"):
            state.arrays[name][:] = 0
        state.arrays["figures"][:, SMALLEST] = math.inf

    def end_pass(self, problem: Problem, state: State, active: np.ndarray) -> PassReport:
        a = state.arrays
        mistakes = a["figures"][:, MISTAKES].astype(np.int64)
        shown = a["w"].copy()
        upper = np.full(problem.count, math.inf)
        if self.complete(problem, state):
            upper = self.move(problem, state, active)
        return self.report(problem, state, shown, a["figures"][:, SMALLEST], upper, mistakes, a["wrong"].copy())

    @abstractmethod
    def move(self, problem: Problem, state: State, active: np.ndarray) -> np.ndarray:
        """The next weights, after a whole pass; returns lengths (K,) of means of rows, inf for none."""
