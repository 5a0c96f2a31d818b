"""The lp-norm perceptron (Grove, Littlestone and Schuurmans 2001; the baseline of the lp-norm perceptron paper)."""

from __future__ import annotations

import numpy as np

from streammargin.compiled import primal as kernel
from streammargin.rows import steps
from streammargin.rows.blocks import Block
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.streams.hard_primal import PLAIN_NORMS, HardPrimal, HardSteps


class Perceptron(HardPrimal):
    """The lp-norm perceptron, also on streams; C = inf, l2 and lp; ends when no row is misclassified.

    Rows come in random order, those of a stream as they are. For each row i:
        if y_i x_i.w <= 0:   theta <- theta + y_i x_i;   w <- mirror(theta)    (for l2: w = theta).
    It makes at most R_q^2 / ((p - 1) g^2) mistakes on rows of margin g whose norms are R_q at most.
    The steps prove an upper bound of the margin: the length of the mean of the rows that they added.
    With average, it reports the mean of w after each row, which varies less.

    Source: Grove, Littlestone and Schuurmans 2001; the baseline of the lp-norm perceptron paper.
    """

    name = "perceptron"

    def rule(self, problem: Problem, state: HardSteps) -> steps.Rule:
        return steps.perceptron()

    def run_block(self, problem: Problem, state: HardSteps, active: np.ndarray, block: Block, first: int) -> None:
        if state.number == 1:
            self.measure(problem, state, block, first)
        super().run_block(problem, state, active, block, first)

    def length(self, state: HardSteps) -> float:
        # theta is a sum of rows; it is rescaled only if scores of extreme rows would overflow
        base = self.base(state)
        return base if PLAIN_NORMS[0] < base < PLAIN_NORMS[1] else 1.0 / base

    def estimate(self, problem: Problem, state: HardSteps, k: int) -> float:
        # without mistakes it is done, whatever the margin
        return super().estimate(problem, state, k) if state.figures[k, kernel.PASS_MISTAKES] > 0.0 else 0.0

    def satisfied(self, problem: Problem, state: HardSteps, k: int, figures: Figures) -> bool:
        """Whether there are no mistakes: the rows are separated."""
        return figures.margin_lower is not None and figures.margin_lower > 0.0
