"""What the whole-pass methods that learn from one vector a pass have in common."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np

from streammargin.compiled import row_norms as norms
from streammargin.compiled import whole_pass as kernel
from streammargin.compiled.vectors import mix, square
from streammargin.penalties.mirror_maps import lp_norm
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.base import PassReport, State
from streammargin.solvers.old_state import Array, Layout, Room
from streammargin.solvers.papers.whole_pass import WholePass, chunk_rows
from streammargin.solvers.problem import Problem

# a row whose share is below exp(-REACH) / n of the largest is lost in the rounding of the sums
REACH = 40.0


class GradientPass(WholePass):
    """The prologue is iteration 0, at w = 0; pass t certifies the weights w_t, and then moves them.

    `w` holds the weights w_t / R for rows a_i / R of norm at most 1, R = max_i ||a_i||, so that a_i.w needs no factor.
    `pull` collects a vector of the pass. What is reported has length 1: that is the scale in which the scores of
    several classes are compared.
    """

    norm_range = (1e-200, 1e200)  # products of the norms with the sums must be numbers

    def layout(self, problem: Problem) -> Layout:
        K, width = problem.count, problem.features + 1
        return super().layout(problem) | {
            "pull": Array((K, width)),
            "scale": Array((K,), fill=1.0),
            "figures": Array((K, kernel.FIGURES)),
            "wrong": Array((1,), np.int64),
            "mass": Array((K,)),
            "the weights as they are shown": Room(8 * K * width),
        }

    def start(self, problem: Problem) -> State:
        state = super().start(problem)
        state.arrays["figures"][:] = kernel.new_figures(problem.count)
        return state

    def prologue_block(self, problem: Problem, state: State, index: int, block: Block, first: int) -> None:
        super().prologue_block(problem, state, index, block, first)
        self.run_block(problem, state, np.arange(problem.count), block, first)

    def begin_pass(self, problem: Problem, state: State, number: int) -> None:
        super().begin_pass(problem, state, number)
        a = state.arrays
        if number == 1:
            a["best_upper"] = self.rounded_up(problem, state, self.advance(problem, state, np.arange(problem.count), 0))
        a["scale"] = self._to_length_1(problem, state)
        a["pull"][:] = 0.0
        a["figures"][:] = kernel.new_figures(problem.count)
        a["wrong"][:] = 0

    def run_block(self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int) -> None:
        self.saw(problem, state, active, block)
        self.sum_block(problem, state, active, block, first, chunk_rows(block))

    def keep(self, state: State, k: int) -> None:
        self.shown(state)[k], state.arrays["scale"][k] = state.arrays["best"][k], 1.0

    def end_pass(self, problem: Problem, state: State, active: np.ndarray) -> PassReport:
        a = state.arrays
        shown = self.shown(state) * a["scale"][:, None]
        figures = self.shown_figures(state)
        objective = problem.objective
        smallest = objective.margins(figures[:, kernel.SMALLEST] * a["scale"] * objective.unit)
        mistakes = figures[:, kernel.MISTAKES].astype(np.int64)
        upper = np.full(problem.count, math.inf)
        if self.complete(problem, state):
            upper = self.advance(problem, state, active, state.numbers["pass"])
        wrong = a["wrong"].copy() if problem.per_trial > 1 else None
        return self.report(problem, state, shown, smallest, upper, mistakes, wrong)

    def weights(self, problem: Problem, state: State) -> np.ndarray:
        return self.shown(state) * self._to_length_1(problem, state)[:, None]

    def _to_length_1(self, problem: Problem, state: State) -> np.ndarray:
        sizes = self.sizes(problem, self.shown(state))
        return 1.0 / np.where(sizes > 0.0, sizes, 1.0)

    def shown(self, state: State) -> np.ndarray:
        """The weights (K, d+1) that passes certify."""
        return state.arrays["w"]

    def shown_figures(self, state: State) -> np.ndarray:
        """Their figures (K, FIGURES)."""
        return state.arrays["figures"]

    @abstractmethod
    def sum_block(
        self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int, chunk: int
    ) -> None:
        """Add a block to `pull` and the figures."""

    @abstractmethod
    def advance(self, problem: Problem, state: State, active: np.ndarray, t: int) -> np.ndarray:
        """Move the weights to w_(t+1); returns lengths (K,) of means of rows, inf where nothing is known."""


class SoftmaxPass(GradientPass):
    """Gradient steps on psi(-A w) of a loss of exponential tail (dual acceleration paper, eq. (2.1), (2.2)).

    The gradient is A^T q', q' = softmax(-A w) for the exponential loss. Every step adds a multiple of it to the
    weights (and to the velocity), so that their length over the mass of the multiples bounds the margin.
    A is the objective's: for a joint margin that of pseudo-rows, and all classes are one vector.
    """

    default_loss = "exponential"
    requires: ClassVar[tuple[str, ...]] = ("level", "share", "value", "divisor", "steepness")
    joint = True
    momentum: ClassVar[bool] = False

    def layout(self, problem: Problem) -> Layout:
        velocity = {"velocity": Array((problem.count, problem.features + 1))} if self.momentum else {}
        return super().layout(problem) | velocity

    def sum_block(
        self, problem: Problem, state: State, active: np.ndarray, block: Block, first: int, chunk: int
    ) -> None:
        a = state.arrays
        kernel.softmax_block(
            block, numbered_from(first), problem.labels, problem.loss, chunk, problem.joint, active, a["w"], a["scale"],
            REACH + math.log(problem.rows * problem.count), a["pull"], a["figures"], a["wrong"],
        )  # fmt: skip

    def advance(self, problem: Problem, state: State, active: np.ndarray, t: int) -> np.ndarray:
        a = state.arrays
        R = self.largest_norm(state)
        objective = problem.objective
        rows = objective.terms(float(a["row_norms"][norms.ROWS]))
        upper = np.full(problem.count, math.inf)
        for k, group in objective.groups(active):
            total, value, level = a["figures"][k, [kernel.TOTAL, kernel.VALUE, kernel.LEVEL]].tolist()
            step, divisor = self.step(problem, state, rows, total, value, level)
            pull, w, mass = a["pull"][group].reshape(-1), a["w"][group].reshape(-1), total / divisor
            pull *= 1.0 / divisor / R  # not by R^2, which may be 0 or inf
            bounds = [lp_norm(pull, 2.0, square(pull)) / mass]
            step /= R
            if self.momentum:
                beta = t / (t + 1.0)
                a["mass"][k] = beta * (a["mass"][k] + mass)
                velocity = a["velocity"][group].reshape(-1)
                length = lp_norm(velocity, 2.0, mix(beta, velocity, beta, pull))
                bounds.append(self._ratio(length, a["mass"][k]))
                mix(1.0, w, step, velocity)
            length = lp_norm(w, 2.0, mix(1.0, w, step, pull))
            if not self.momentum:
                a["mass"][k] += step * mass
                bounds.append(self._ratio(length, a["mass"][k]))
            upper[group] = min(bounds) * R * objective.unit
        return upper

    def _ratio(self, length: float, mass: float) -> float:
        return length / mass if mass > 0.0 else math.inf

    def step(
        self, problem: Problem, state: State, rows: float, total: float, value: float, level: float
    ) -> tuple[float, float]:
        """The step, and what the sums of the pass are divided by; total, value and level as in the kernel."""
        return 1.0 / problem.loss.steepness(rows), problem.loss.divisor(total, value, level)
