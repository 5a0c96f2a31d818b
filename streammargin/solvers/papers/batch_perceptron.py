"""Batch perceptron (Cotter, Shalev-Shwartz and Srebro 2012): ascent on the smallest margin over the unit ball."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import whole_pass as kernel
from streammargin.compiled.vectors import mix
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.base import State
from streammargin.solvers.margin.hull import hull_bound, hull_layout
from streammargin.solvers.old_state import Array, Layout
from streammargin.solvers.papers.gradient_pass import GradientPass
from streammargin.solvers.problem import Problem


class Method(GradientPass):
    """w <- project(w + a_i / (R sqrt(t))) for the row i of the smallest margin; shows the mean of the w_t.

    `pull` is that row. The mean of these rows, and every point between them, bounds the margin by its length.
    """

    name = "batch-perceptron"
    summary = "steps along the row of the smallest margin, one read each"
    options = ("average",)

    def _averages(self, problem: Problem) -> bool:
        return problem.options.get("average") is not False

    def layout(self, problem: Problem) -> Layout:
        K, width = problem.count, problem.features + 1
        return super().layout(problem) | hull_layout(problem) | {
            "rows": Array((K, width)),
            "average": Array((K if self._averages(problem) else 0, width)),
            "averaged": Array((K, kernel.FIGURES)),
        }  # fmt: skip

    def shown(self, state: State) -> np.ndarray:
        average = state.arrays["average"]
        return average if len(average) else state.arrays["w"]

    def shown_figures(self, state: State) -> np.ndarray:
        return state.arrays["averaged" if len(state.arrays["average"]) else "figures"]

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        super().begin_pass(problem, state, number)
        state.arrays["averaged"][:] = kernel.new_figures(problem.count)

    def sum_block(
        self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int, chunk: int
    ) -> None:
        a = state.arrays
        kernel.perceptron_block(
            block, numbered_from(first), problem.labels, chunk, active, a["w"], a["average"], a["scale"], a["pull"],
            a["figures"], a["averaged"], a["wrong"],
        )  # fmt: skip

    def advance(self, problem: Problem, state: State, active: np.ndarray, t: int) -> np.ndarray:
        a = state.arrays
        R = self.largest_norm(state)
        upper = np.full(problem.count, math.inf)
        for k in active:
            row, rows, w = a["pull"][k], a["rows"][k], a["w"][k]
            size = lp_norm(rows, 2.0, mix(1.0, rows, 1.0 / R, row)) / (t + 1.0)
            upper[k] = size * R
            length = lp_norm(w, 2.0, mix(1.0, w, 1.0 / (R * math.sqrt(t + 1.0)), row))
            if length > 1.0:
                w /= length
            if len(a["average"]):
                mix(t / (t + 1.0), a["average"][k], 1.0 / (t + 1.0), w)
            for share, vector in ((1.0 / R, row), (1.0 / (t + 1.0), rows)):
                upper[k] = min(upper[k], hull_bound(problem, state, k, share, vector, 1.0) * R)
        return upper
