"""Batch perceptron (Cotter, Shalev-Shwartz and Srebro 2012): ascent on the smallest margin over the unit ball."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import whole_pass as kernel
from streammargin.compiled.vectors import mix
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.margin.hull import Hull, hull_bound, hull_rounding
from streammargin.solvers.papers.gradient_pass import Gradient, GradientPass, GradientSums
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import K, Shared, Sum, W, f8, of, state
from streammargin.solvers.state import labels_of


def _averages(problem: Problem) -> bool:
    return problem.options.get("average") is not False


@state
class PerceptronSums(GradientSums):
    """pull: the row with the smallest margin; averaged: figures of the average."""

    averaged: Sum[f8] = of(K, kernel.FIGURES, smallest=(kernel.SMALLEST,), largest=(kernel.LEVEL,))


@state
class BatchPerceptron(Gradient):
    """rows: the sum of the rows added by steps; average: the mean of the w_t."""

    sums: PerceptronSums
    hull: Hull
    rows: Shared[f8]
    average: Shared[f8] = of(K.where(_averages), W)


class Method(GradientPass[BatchPerceptron]):
    """w <- project(w + a_i / (R sqrt(t))) for the row i of the smallest margin; shows the mean of the w_t.

    The mean of these rows, and every point between them, bounds the margin by its length.
    """

    name = "batch-perceptron"
    summary = "steps along the row of the smallest margin, one read each"
    options = ("average",)
    state_class = BatchPerceptron

    def shown(self, state: BatchPerceptron) -> np.ndarray:
        return state.average if len(state.average) else state.w

    def shown_figures(self, state: BatchPerceptron) -> np.ndarray:
        return state.sums.averaged if len(state.average) else state.sums.figures

    def hull_rounding(self, state: BatchPerceptron) -> float:
        return hull_rounding(state.hull)

    def sum_block(
        self, problem: Problem, state: BatchPerceptron, active: np.ndarray, block: Block, first: int, chunk: int
    ) -> None:
        sums = state.sums
        kernel.perceptron_block(
            block, numbered_from(first), labels_of(problem, state), chunk, active, state.w, state.average, state.scale,
            sums.pull, sums.figures, sums.averaged, sums.wrong,
        )  # fmt: skip

    def advance(self, problem: Problem, state: BatchPerceptron, active: np.ndarray, t: int) -> np.ndarray:
        R = self.largest_norm(state)
        upper = np.full(problem.count, math.inf)
        for k in active:
            row, rows, w = state.sums.pull[k], state.rows[k], state.w[k]
            size = lp_norm(rows, 2.0, mix(1.0, rows, 1.0 / R, row)) / (t + 1.0)
            upper[k] = size * R
            length = lp_norm(w, 2.0, mix(1.0, w, 1.0 / (R * math.sqrt(t + 1.0)), row))
            if length > 1.0:
                w /= length
            if len(state.average):
                mix(t / (t + 1.0), state.average[k], 1.0 / (t + 1.0), w)
            for share, vector in ((1.0 / R, row), (1.0 / (t + 1.0), rows)):
                upper[k] = min(upper[k], hull_bound(problem, state.hull, k, share, vector, 1.0) * R)
        return upper
