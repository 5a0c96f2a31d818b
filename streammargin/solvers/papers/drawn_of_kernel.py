"""Adaptive sampling in the space of a kernel: each step takes a column of the Gram matrix.

Rows in memory are one block, and so the steps are the paper's. The scores of w and g follow each step by the column of
the row that was drawn; a read for a certificate computes them again from the coefficients. The pairs of classes of a
joint margin are not written out: a pair has its column in two lines.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from streammargin.compiled import adaptive as kernel
from streammargin.rows.blocks import Block, DenseBlock
from streammargin.solvers.base import Share
from streammargin.solvers.expansion.columns import NO_ROWS, multiply_used, unit_rows
from streammargin.solvers.expansion.measured import given
from streammargin.solvers.papers.of_kernel import Gram, OfKernel
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.margins import ROOT
from streammargin.solvers.state import labels_of
from streammargin.solvers.visits import Visit

VISIT_STEPS = 64  # of all rows, for each group; one on dense rows costs as much as reading them once from memory


class DrawnOfKernel(OfKernel):
    """The parts that differ from the linear form of `adaptive`, which is the next class."""

    step: str
    reads_matrices: ClassVar[bool] = False

    def sum_rows(self, problem: Problem, state: Any, active: np.ndarray) -> None:
        """Begin the steps of a pass; runs of the proven step that are over begin again, twice as long."""
        state.gram.part = 0
        for group in active.tolist():
            if self.step == "proven":
                begin_again(problem, state, group)

    def run_block(self, problem: Problem, state: Any, active: np.ndarray, block: Block, first: int) -> Share:
        """One step of a group."""
        gram, block = state.gram, block._replace(bias=0.0)
        if not gram.tested:
            self._test(problem, gram, block, first)
        uniforms = np.random.default_rng((problem.seed, state.number, first, 2)).random((active.size, VISIT_STEPS))
        at, now = divmod(gram.part, VISIT_STEPS)
        group = int(active[at])
        chances = self.chances(problem, state, group, now == 0)
        i, line = drawn(chances, float(uniforms[at, now]))
        self.make_step(problem, state, group, i, line, self._column(problem, state, block, i))
        gram.part += 1
        return gram.part / uniforms.size if gram.part < uniforms.size else None

    def chances(self, problem: Problem, state: Any, group: int, begins: bool) -> np.ndarray:
        """exp(-margin) (n, lines) of rows a_i, or of pairs of classes, times a factor; 0 for what is none."""
        own, there = self._own(problem, state, group)
        scores = problem.view(state.w, group)[:, 1::2].T / self.largest_norm(state)
        margins = np.where(own, scores, -scores)
        if problem.joint:
            margins = ROOT * (np.where(own, scores, 0.0).sum(axis=1, keepdims=True) - scores)
            there = there & ~own
        low = float(margins.min(where=there, initial=math.inf))
        if begins:
            state.figures[group, kernel.SMALLEST_SEEN_MARGIN] = min(
                state.figures[group, kernel.SMALLEST_SEEN_MARGIN], low
            )
        found: np.ndarray = np.where(there, np.exp(np.minimum(low - margins, 0.0)), 0.0)
        return found

    def make_step(self, problem: Problem, state: Any, group: int, i: int, line: int, column: np.ndarray) -> None:
        """g <- beta (g + a_i), w <- w + rate (g + a_i); column (n,): K(x, x_i) of all rows."""
        figures, size = state.figures[group], self.largest_norm(state)
        row = np.zeros((problem.lines, 2 * problem.rows))
        for at, sign in self._signs(problem, state, group, i, line):
            row[at, 2 * i], row[at, 1::2] = sign / size, sign / size * column
        a, w, g = row.reshape(-1), problem.view(state.w, group).reshape(-1), problem.view(state.g, group).reshape(-1)
        rate, momentum = rate_of(problem, state, group, self.step), self.step == "momentum"
        beta = kernel.count_step(figures, rate, momentum)
        self.space.mix(beta, g, beta, a)
        self.space.mix(1.0, w, rate, g)
        self.space.mix(1.0, w, rate, a)

    def _signs(self, problem: Problem, state: Any, group: int, i: int, line: int) -> list[tuple[int, float]]:
        """The lines that the row drawn is in, with its sign there, divided by sqrt 2 if it is a pair of classes."""
        own = self._own(problem, state, group)[0][i]
        if problem.joint:
            return [(int(np.argmax(own)), ROOT), (line, -ROOT)]
        return [(0, 1.0 if own[0] else -1.0)]

    def _own(self, problem: Problem, state: Any, group: int) -> tuple[np.ndarray, np.ndarray]:
        """(whether a row is of the class of the line (n, lines), whether it is there (n, 1))."""
        own = problem.view(labels_of(problem, state).own_of_lines().T, group).T
        there = state.labels.present(slice(0, problem.rows))
        return own, there[:, None]

    def _column(self, problem: Problem, state: Any, block: Block, i: int) -> np.ndarray:
        """K(x, x_i) (n,) of all rows, from the cache if it is there."""
        if given(problem).of_numbers:
            assert isinstance(block, DenseBlock)
            return given(problem).weight * block.X[:, i].astype(np.float64)
        columns, row = self.columns_of(problem, state.gram, block), np.array([i])
        if columns.slot_of[i] < 0:
            columns.take_in(row, NO_ROWS, int(state.figures[:, kernel.STEPS_DONE].sum()))
            state.multiplications += 2.0 * problem.values
        found: np.ndarray = columns.values[columns.of(row, int(state.figures[:, kernel.STEPS_DONE].sum()))[0]]
        return found

    # certificates

    def certificate(self, problem: Problem, state: Any, active: np.ndarray) -> Visit:
        return super().certificate(problem, state, active)._replace(lines=0, alone=True)

    def begin_certificate(self, problem: Problem, state: Any, active: np.ndarray) -> None:
        linear: Any = super()
        linear.begin_certificate(problem, state, active)
        self.begin_product(state, self.vectors(state))

    def certify_block(self, problem: Problem, state: Any, block: Block, first: int) -> Share:
        return self.product(problem, state, self.vectors, block, first)

    def ready(self, problem: Problem, gram: Gram, block: Block) -> bool:
        return True

    def multiply_some(self, problem: Problem, gram: Gram, block: Block, low: int) -> tuple[np.ndarray, float]:
        if given(problem).of_numbers:
            return super().multiply_some(problem, gram, block, low)
        assert gram.coefs is not None
        each = float(np.count_nonzero(gram.coefs.any(axis=1)) * (gram.coefs.shape[1] + block.features()))
        high = min(block.rows(), low + unit_rows(each))
        return multiply_used(self.columns_of(problem, gram, block), block, low, high, gram.coefs), each


def begin_again(problem: Problem, state: Any, group: int) -> None:
    """Begin a run of the proven step again, twice as long, if it is over."""
    figures = state.figures[group]
    if figures[kernel.STEPS_DONE] >= state.length[group]:
        problem.view(state.w, group)[:] = problem.view(state.g, group)[:] = 0.0
        figures[[kernel.STEPS_DONE, kernel.MASS_G, kernel.MASS_W]] = 0.0
        state.length[group] *= 2


def rate_of(problem: Problem, state: Any, group: int, step: str) -> float:
    """The length of a step: 1 with momentum, that of Theorem 4.1 for a proven one."""
    terms = max(2, problem.margin.terms(problem.present))
    return 1.0 if step == "momentum" else math.sqrt(math.log(terms) / state.length[group])


def drawn(chances: np.ndarray, uniform: float) -> tuple[int, int]:
    """A row and a line, drawn by their chances (n, lines)."""
    mass = np.cumsum(chances)
    place = int(np.searchsorted(mass, uniform * mass[-1], side="right"))
    last = int(np.flatnonzero(chances)[-1]) if place >= mass.size else place
    i, line = divmod(last, chances.shape[1])
    return i, line
