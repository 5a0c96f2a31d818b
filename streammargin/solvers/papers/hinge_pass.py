"""Whole-pass methods of the hinge loss in the Euclidean norm: what diagonal descent and homotopy share."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, TypeVar

import numpy as np

from streammargin.compiled.chunks import MISTAKES, SMALLEST
from streammargin.solvers.base import PassReport
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.whole_pass import PassSums, Whole, WholePass
from streammargin.solvers.roles import K, Sum, f8, i8, of, state

FIGURES = 5  # columns: the smallest margin, mistakes, and up to three sums that a kernel has beside


@state
class HingeSums(PassSums):
    """pull: rows times what the kernel gives them; wrong: rows whose largest score is a wrong class's."""

    pull: Sum[f8]
    figures: Sum[f8] = of(K, FIGURES, smallest=(SMALLEST,))
    wrong: Sum[i8] = of(1)


@state
class Hinge(Whole):
    """The state of a whole-pass method of the hinge."""

    sums: HingeSums


H = TypeVar("H", bound=Hinge)


class HingePass(WholePass[H]):
    """Rows are taken in units of their largest norm, so that any scale of the data works."""

    state_class: ClassVar[type[Hinge]] = Hinge

    def reserved_bytes(self, problem: Problem) -> int:
        return 2 * 8 * problem.count * (problem.features + 1)  # the weights as they are shown, and the best before

    def end_pass(self, problem: Problem, state: H, active: np.ndarray) -> PassReport:
        figures = state.sums.figures
        mistakes = figures[:, MISTAKES].astype(np.int64)
        shown = state.w.copy()
        upper = np.full(problem.count, math.inf)
        if self.complete(problem, state):
            upper = self.move(problem, state, active)
        return self.report(problem, state, shown, figures[:, SMALLEST], upper, mistakes, state.sums.wrong.copy())

    @abstractmethod
    def move(self, problem: Problem, state: H, active: np.ndarray) -> np.ndarray:
        """The next weights, after a whole pass; returns lengths (K,) of means of rows, inf for none."""
