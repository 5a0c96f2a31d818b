"""Batch perceptron (Cotter, Shalev-Shwartz and Srebro 2012): ascent on the smallest margin over the unit ball."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.kinds import YesNo
from streammargin.rows.blocks import Block
from streammargin.solvers.base import JOINT
from streammargin.solvers.papers.gradient_pass import GRAD_FIGURES, LEVEL, Gradient, GradientPass, GradientSums, look
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.margins import ROOT, SMALLEST_MARGIN, SeenRows
from streammargin.solvers.roles import K, Shared, Sum, W, f8, of, state
from streammargin.solvers.space import Hull, hull_bound, hull_rounding
from streammargin.words import entry


@state
class PerceptronSums(GradientSums):
    """pull: the row with the smallest margin; averaged: figures of the average."""

    averaged: Sum[f8] = of(K, GRAD_FIGURES, smallest=(SMALLEST_MARGIN,), largest=(LEVEL,))

    def align(self, other: GradientSums) -> None:
        """Keep one row, that of the smaller margin."""
        first = self.figures[:, SMALLEST_MARGIN] <= other.figures[:, SMALLEST_MARGIN]
        self.pull[~first], other.pull[first] = 0.0, 0.0


@state
class BatchPerceptronState(Gradient):
    """rows: the sum of the rows that steps went along. average: the mean of the w_t."""

    sums: PerceptronSums
    hull: Hull
    rows: Shared[f8]
    average: Shared[f8] = of(K, W)


@state
class LastOnly(BatchPerceptronState):
    """Without the average."""

    average: Shared[f8] = of(0, W)


class BatchPerceptron(GradientPass[BatchPerceptronState]):
    """A step along the row of the smallest margin, one read each; C = inf, l2; stops by the margin gap.

    In pass t, with R the largest norm of a row:
        i <- the row with the smallest margin y_i x_i.w;
        w <- w + y_i x_i / (R sqrt(t)), and divided by its length if that is above 1.
    The smallest margin is a lower bound. The mean of the rows that steps added is a point of the hull of all rows. So
    is every point between two of these means: the shortest one bounds the margin from above. With average, it reports
    the mean of all w, which has the guarantee. One margin of all classes (multiclass=joint) has one vector of all
    weights. Its rows are x (e_own - e_k) / sqrt 2 for each other class k.

    Source: Cotter, Shalev-Shwartz and Srebro 2012.
    """

    name = "batch-perceptron"
    takes: ClassVar[tuple[str, ...]] = (JOINT,)
    average: bool = entry(True, YesNo(), "report the mean of all iterates in place of the last one")

    @property
    def state_class(self) -> type[BatchPerceptronState]:
        return BatchPerceptronState if self.average else LastOnly

    def shown(self, state: BatchPerceptronState) -> np.ndarray:
        return state.average if len(state.average) else state.w

    def shown_figures(self, state: BatchPerceptronState) -> np.ndarray:
        return state.sums.averaged if len(state.average) else state.sums.figures

    def hull_rounding(self, state: BatchPerceptronState) -> float:
        return hull_rounding(state.hull)

    def sum_block(
        self, problem: Problem, state: BatchPerceptronState, active: np.ndarray, block: Block, first: int
    ) -> None:
        sums, averages = state.sums, len(state.average) > 0
        smallest = problem.by_group(sums.figures[:, SMALLEST_MARGIN])
        before = smallest.min(axis=1)
        for seen, margins in look(problem, state, state.w, sums.figures, block, first, shown=not averages):
            for group in active[smallest.min(axis=1)[active] < before[active]].tolist():
                self._take(problem, group, seen, problem.view(margins, group), problem.view(sums.pull, group))
            before = smallest.min(axis=1)
        smallest[:] = before[:, None]  # the classes of one margin share it, as `align` needs
        for _ in look(problem, state, state.average, sums.averaged, block, first) if averages else ():
            pass

    @staticmethod
    def _take(problem: Problem, group: int, seen: SeenRows, margins: np.ndarray, nearest: np.ndarray) -> None:
        """Set `nearest` to the row of the smallest margin, or to its pseudo-row x (e_own - e_k) / sqrt 2."""
        row = int(np.argmin(margins.min(axis=0)))
        line = int(np.argmin(margins[:, row]))
        one, nearest[:] = np.zeros(margins.shape[1]), 0.0
        one[row] = ROOT if problem.joint else 1.0
        seen.add(problem.lines_of(group)[line], one, nearest[line])
        if problem.joint:
            own = int(seen.labels.classes_of(0)[row])
            seen.add(own, one, nearest[own])

    def advance(self, problem: Problem, state: BatchPerceptronState, active: np.ndarray, t: int) -> np.ndarray:
        R, space = self.largest_norm(state), self.space
        upper = np.full(problem.groups, math.inf)
        for k in active:
            row, rows, w = (problem.view(each, k).reshape(-1) for each in (state.sums.pull, state.rows, state.w))
            size = space.mix(1.0, rows, 1.0 / R, row) / (t + 1.0)
            upper[k] = size * R
            length = space.mix(1.0, w, 1.0 / (R * math.sqrt(t + 1.0)), row)
            if length > 1.0:
                w /= length
            if len(state.average):
                space.mix(t / (t + 1.0), problem.view(state.average, k).reshape(-1), 1.0 / (t + 1.0), w)
            for share, vector in ((1.0 / R, row), (1.0 / (t + 1.0), rows)):
                upper[k] = min(upper[k], hull_bound(problem, state.hull, k, share, vector, 1.0, space) * R)
        return problem.margin.reported(upper)
