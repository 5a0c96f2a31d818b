"""The common part of diagonal descent and homotopy: whole-pass methods for the hinge loss and p = 2."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import TypeVar

import numpy as np

from streammargin.rows.blocks import Block
from streammargin.solvers.base import PassReport
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.margins import MISTAKEN_ROWS, SMALLEST_MARGIN, SeenRows, pieces, sum_margins
from streammargin.solvers.proof.whole_pass import PassSums, Whole, WholePass
from streammargin.solvers.roles import K, Sum, W, f8, i8, of, state

HINGE_FIGURES = 5  # columns: the smallest margin, mistakes, and up to three further sums


@state
class HingeSums(PassSums):
    """pull: a combination of rows; wrong: rows whose largest score is not that of their class."""

    pull: Sum[f8]
    figures: Sum[f8] = of(K, HINGE_FIGURES, smallest=(SMALLEST_MARGIN,))
    wrong: Sum[i8] = of(1)


@state
class Hinge(Whole):
    """The state of a whole-pass method for the hinge."""

    workspace = (of(2, K, W),)  # copies of the current and the best weights
    sums: HingeSums


H = TypeVar("H", bound=Hinge)


def look(problem: Problem, state: Hinge, block: Block, first: int) -> Iterator[tuple[SeenRows, np.ndarray]]:
    """Rows of a block, some at a time, with their margins (K, m) at w; adds them to the figures of the pass."""
    smallest, mistakes = state.sums.figures[:, SMALLEST_MARGIN], state.sums.figures[:, MISTAKEN_ROWS]
    for seen in pieces(state.labels, problem.outputs, block, first):
        yield seen, sum_margins(problem, seen.labels, seen.scores(state.w), smallest, mistakes, state.sums.wrong)


class HingePass(WholePass[H]):
    """Rows are divided by their largest norm, so that any scale of the data works."""

    mapped = True

    def end_pass(self, problem: Problem, state: H, active: np.ndarray) -> PassReport:
        smallest, mistakes, wrong = self.shown_figures(state)
        shown = self.weights(problem, state)
        upper = np.full(problem.count, math.inf)
        if self.complete(problem, state):
            upper = self.move(problem, state, active)
        return self.report(problem, state, shown, smallest, upper, mistakes, wrong.copy())

    def shown_figures(self, state: H) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(smallest margins (K,), mistakes (K,), wrong (1,)) of `weights` in this pass."""
        figures = state.sums.figures
        return figures[:, SMALLEST_MARGIN], figures[:, MISTAKEN_ROWS].astype(np.int64), state.sums.wrong

    @abstractmethod
    def move(self, problem: Problem, state: H, active: np.ndarray) -> np.ndarray:
        """Compute the next weights after a whole pass; returns norms (K,) of means of rows, inf for none."""
