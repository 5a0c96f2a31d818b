"""Subgradient steps while the penalty falls (homotopic paper, Algorithm 1, Corollary 3.2, section 6)."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streammargin.compiled import homotopic as kernel
from streammargin.compiled import row_norms as norms
from streammargin.compiled.order import permutation
from streammargin.compiled.vectors import mix
from streammargin.rows.blocks import Block, values_of
from streammargin.rows.labels import numbered_from
from streammargin.solvers.base import State
from streammargin.solvers.margin.hull import hull_bound, hull_layout
from streammargin.solvers.old_state import Array, Layout
from streammargin.solvers.papers.hinge_pass import HingePass
from streammargin.solvers.papers.whole_pass import chunk_rows
from streammargin.solvers.problem import Problem

# a stochastic step shrinks all d + 1 weights: its rows hold this many times as many numbers
WORK = 4
LEAST_ROWS = 16  # of a group at least: F_lambda is estimated on it


class Method(HingePass):
    """State: the iterate v (K, d+1) for rows in units of `unit`, and its mass, both the same mixture of the rows.

    Units. The largest row has the norm `radius` (30: of 1, 3, 10, 30, 100 the one whose margin interval is the
    narrowest, or near it, after 600 passes over each of four sets; unit norm is the worst of them). With rows x / u the
    constants of Theorem 3.1 are L <= 2 radius and lambda' / u^2, where lambda' is that of the rows as they are, and
    the bound is one of ||v - u w*||: relative to ||u w*|| its first term shrinks with u^2, its second one with u^-2.

    Certificate. v = sum c_i a_i / u with c >= 0, so c over its sum, the mass, is a point of the simplex, and u v / mass
    one of the hull of the rows. Of a whole pass, the mean of the rows inside the margin is another. Neither comes to 0
    fast where no hyperplane separates the rows (like sqrt(lambda_s) to lambda_s, after k steps k^-1/12 to k^-1/6),
    but the nearest point of the segments between them does (hull.py).

    average: an outer iteration ends with the mean of its iterates (the default), or with the iterate of the least
    F_lambda, its sums at hand from the pass that evaluated it, so that it needs no pass of its own. stochastic: a
    step for each group of rows; F_lambda is then estimated on the group. Every pass certifies the weights that it
    starts from: where an outer iteration has just ended, or the iterate; the best of them is reported.
    """

    name = "homotopic"
    summary = "subgradient steps on the regularised hinge while the penalty falls"
    options = ("average", "stochastic")
    columns = kernel.FIGURES
    s0: ClassVar[float] = 10.0  # s0^2 steps in the first outer iteration
    radius: ClassVar[float] = 30.0

    def unit(self, state: State) -> float:
        """What the rows are divided by."""
        return self.largest_norm(state) / self.radius

    def layout(self, problem: Problem) -> Layout:
        K, width = problem.count, problem.features + 1
        layout = super().layout(problem) | hull_layout(problem)
        layout |= {"v": Array((K, width)), "kept": Array((K, width)), "carried": Array((K, kernel.CARRIED))}
        if problem.options.get("stochastic"):
            layout |= {"landed": Array((K, width + 1)), "shown": Array((K,)), "shown_mass": Array((K,))}
        elif not self._average(problem):
            layout |= {"kept_pull": Array((K, width)), "kept_inside": Array((K,))}
        return layout

    def start(self, problem: Problem) -> State:
        state = super().start(problem)
        state.arrays["carried"][:, kernel.LEAST] = math.inf
        return state

    def _average(self, problem: Problem) -> bool:
        return problem.options.get("average") is not False

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        super().begin_pass(problem, state, number)
        a = state.arrays
        if not problem.options.get("stochastic"):
            return
        fresh = a["carried"][:, kernel.OUTER] > a["shown"]  # an outer iteration ended in the last pass
        a["shown"] = a["carried"][:, kernel.OUTER].copy()
        a["shown_mass"] = np.where(fresh, a["landed"][:, -1], a["carried"][:, kernel.MASS])
        a["w"] = np.where(fresh[:, None], a["landed"][:, :-1], a["v"]) / self.unit(state)

    def run_block(self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int) -> None:
        a = state.arrays
        self.saw(problem, state, active, block)
        numbers, scale = numbered_from(first), 1.0 / self.unit(state)
        stochastic = bool(problem.options.get("stochastic"))
        kernel.subgradient_block(
            block, numbers, problem.labels, chunk_rows(block), active[: 0 if stochastic else None], a["w"], scale,
            a["pull"], a["figures"], a["wrong"],
        )  # fmt: skip
        if stochastic:
            rows = block.rows()
            entries = values_of(block).size + rows
            group = min(rows, max(LEAST_ROWS, math.ceil(WORK * (problem.features + 1) * rows / entries)))
            order = permutation(-(-rows // group), problem.seed, state.numbers["pass"], first)
            kernel.stochastic_block(
                block, numbers, problem.labels, order, group, active, self.s0, self._average(problem), scale, a["v"],
                a["kept"], a["landed"], a["carried"],
            )  # fmt: skip

    def move(self, problem: Problem, state: State, active: np.ndarray) -> np.ndarray:
        a = state.arrays
        unit = self.unit(state)
        mass = a["shown_mass"] if problem.options.get("stochastic") else a["carried"][:, kernel.MASS].copy()
        upper = np.full(problem.count, math.inf)
        for k in active:
            if mass[k] > 0.0:
                upper[k] = unit * hull_bound(problem, state, k, unit / mass[k], a["w"][k], self.radius)
            if not problem.options.get("stochastic"):
                inside = a["figures"][k, kernel.INSIDE]
                if inside > 0.0:
                    bound = hull_bound(problem, state, k, 1.0 / inside, a["pull"][k], self.radius)
                    upper[k] = min(upper[k], unit * bound)
                self._step(problem, state, k)
                np.multiply(a["v"][k], 1.0 / unit, out=a["w"][k])
        return upper

    def _step(self, problem: Problem, state: State, k: int) -> None:
        """One step of the full method, the end of an outer iteration included."""
        a = state.arrays
        c, v, kept = a["carried"][k], a["v"][k], a["kept"][k]
        rows = float(a["row_norms"][norms.ROWS])
        pull, inside = a["pull"][k], a["figures"][k, kernel.INSIDE]
        average = self._average(problem)
        penalty, steps, eta = kernel.rates(c[kernel.OUTER], self.s0)
        if not average and c[kernel.INNER] > 0.0:
            objective = 0.5 * penalty * float(v @ v) + a["figures"][k, kernel.HINGE] / rows
            if objective < c[kernel.LEAST]:
                c[kernel.LEAST], c[kernel.KEPT_MASS] = objective, c[kernel.MASS]
                kept[:], a["kept_pull"][k], a["kept_inside"][k] = v, pull, inside
            if c[kernel.INNER] >= steps:  # go on from the best one, whose subgradient is known
                v[:], pull, inside = kept, a["kept_pull"][k], a["kept_inside"][k]
                c[kernel.MASS], c[kernel.LEAST], c[kernel.INNER] = c[kernel.KEPT_MASS], math.inf, 0.0
                c[kernel.OUTER] += 1.0
                penalty, steps, eta = kernel.rates(c[kernel.OUTER], self.s0)
        mix(1.0 - penalty * eta, v, eta / rows, pull)
        c[kernel.MASS] = (1.0 - penalty * eta) * c[kernel.MASS] + eta * inside / rows
        c[kernel.INNER] += 1.0
        if average:
            mix(1.0, kept, 1.0, v)
            c[kernel.KEPT_MASS] += c[kernel.MASS]
            if c[kernel.INNER] >= steps:
                v[:] = kept / steps
                c[kernel.MASS] = c[kernel.KEPT_MASS] / steps
                kept[:] = c[kernel.KEPT_MASS] = c[kernel.INNER] = 0.0
                c[kernel.OUTER] += 1.0
