"""The common part of whole-pass methods that update the weights by one vector per pass."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, TypeVar

import numpy as np

from streammargin.compiled import row_norms as norms
from streammargin.rows.blocks import Block
from streammargin.rows.labels import RowLabels
from streammargin.solvers.base import JOINT, PassReport
from streammargin.solvers.papers.of_kernel import FromZero, in_kernel
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.margins import (
    MISTAKEN_ROWS,
    ROOT,
    SMALLEST_MARGIN,
    SeenRows,
    margins_of,
    margins_of_pairs,
    note,
    pieces,
)
from streammargin.solvers.proof.whole_pass import PassSums, Whole, WholePass
from streammargin.solvers.roles import GROUPS, K, Shared, Sum, W, clear, f8, i8, of, state

# a row whose share is below exp(-CUTOFF) / n times the largest is lost in the rounding of the sums
CUTOFF = 40.0
# further columns of the figures; the classes of a joint margin share those of row 0
LEVEL, TOTAL, VALUE, GRAD_FIGURES = 2, 3, 4, 5
# the sums are rescaled once the largest score exceeds the level by this; exp(200) is far from overflow
HEADROOM = 200.0


@state
class GradientSums(PassSums):
    """pull: the vector of the pass; like TOTAL and VALUE in units of exp(LEVEL)."""

    pull: Sum[f8]
    figures: Sum[f8] = of(K, GRAD_FIGURES, smallest=(SMALLEST_MARGIN,), largest=(LEVEL,))
    wrong: Sum[i8] = of(1)

    def align(self, other: GradientSums) -> None:
        """Bring both to one LEVEL. The classes of a joint margin share that of row 0, and the others have none."""
        level = np.maximum(self.figures[:, LEVEL], other.figures[:, LEVEL])
        shared = np.where(level > -math.inf, np.arange(level.size), 0)
        for one in (self, other):
            of_row = one.figures[:, LEVEL] - np.where(level > -math.inf, level, 0.0)
            factor = np.exp(of_row)[shared]
            one.pull *= factor[:, None]
            one.figures[:, [TOTAL, VALUE]] *= factor[:, None]
            one.figures[:, LEVEL] = level


@state
class Gradient(Whole):
    """w: the weights w_t / R; scale: 1 / ||w||; mass: sum of the coefficients of the rows in w."""

    sums: GradientSums
    workspace = (of(K, W),)  # a copy of the weights
    scale: Shared[f8] = of(GROUPS, fill=1.0)
    mass: Shared[f8] = of(GROUPS)


G = TypeVar("G", bound=Gradient)


def look(
    problem: Problem, state: Gradient, w: np.ndarray, figures: np.ndarray, block: Block, first: int, shown: bool = True
) -> Iterator[tuple[SeenRows, np.ndarray]]:
    """Rows of a block, some at a time, with their margins (K, m) at w; adds them to the figures.

    For one margin of all classes these are margins of pseudo-rows. shown: whether wrong rows are those of w.
    """
    for seen in pieces(state.labels, problem.outputs, block, first):
        scores = seen.scores(w)
        margins = (margins_of_pairs if problem.joint else margins_of)(seen.labels, scores)
        note(figures, seen.labels, margins)
        if shown and problem.count > 1:
            state.sums.wrong[0] += seen.labels.confused_of(0, scores * problem.by_line(state.scale)[:, None])
        yield seen, margins


class GradientPass(WholePass[G]):
    """The prologue is iteration 0, at w = 0; pass t certifies the weights w_t, and then updates them.

    They are for rows a_i / R of norm at most 1, R = max_i ||a_i||. Reported weights have norm 1, so that scores of
    several classes are comparable.
    """

    mapped = True
    norm_range: ClassVar[tuple[float, float]] = (1e-200, 1e200)  # products of norms with sums must not overflow

    def of(self, problem: Problem) -> WholePass[Any]:
        return self if problem.kernel is None else in_kernel(self, FromZero)

    def start(self, problem: Problem, labels: RowLabels) -> G:
        state = super().start(problem, labels)
        clear(state.sums)
        return state

    def prologue_block(self, problem: Problem, state: G, block: Block, first: int) -> None:
        super().prologue_block(problem, state, block, first)
        self.run_block(problem, state, np.arange(problem.groups), block, first)

    def after_prologue(self, problem: Problem, state: G) -> None:
        upper = self.advance(problem, state, np.arange(problem.groups), 0)
        state.best.upper = self.rounded_up(problem, state, upper)

    def begin_pass(self, problem: Problem, state: G, active: np.ndarray) -> None:
        super().begin_pass(problem, state, active)
        state.scale = self._to_length_1(problem, state)
        state.scale[problem.done(active)] = 1.0

    def run_block(self, problem: Problem, state: G, active: np.ndarray, block: Block, first: int) -> None:
        state.sums.seen += block.rows()
        self.sum_block(problem, state, active, block, first)

    def keep(self, problem: Problem, state: G, group: int) -> None:
        problem.view(self.shown(state), group)[:] = problem.view(state.best_w, group)

    def end_pass(self, problem: Problem, state: G, active: np.ndarray) -> PassReport:
        shown = self.shown(state) * problem.by_line(state.scale)[:, None]
        figures = problem.by_group(self.shown_figures(state))
        smallest = problem.margin.reported(figures[:, :, SMALLEST_MARGIN].min(axis=1) * state.scale)
        mistakes = figures[:, :, MISTAKEN_ROWS].sum(axis=1).astype(np.int64)
        upper = np.full(problem.groups, math.inf)
        if self.complete(problem, state):
            upper = self.advance(problem, state, active, state.number)
        wrong = state.sums.wrong.copy() if problem.per_trial > 1 else None
        return self.report(problem, state, shown, smallest, upper, mistakes, wrong)

    def weights(self, problem: Problem, state: G) -> np.ndarray:
        return self.shown(state) * problem.by_line(self._to_length_1(problem, state))[:, None]

    def _to_length_1(self, problem: Problem, state: G) -> np.ndarray:
        sizes = self.sizes(problem, self.shown(state))
        return 1.0 / np.where(sizes > 0.0, sizes, 1.0)

    def shown(self, state: G) -> np.ndarray:
        """The weights (K, d+1) to certify."""
        return state.w

    def shown_figures(self, state: G) -> np.ndarray:
        """The figures (K, GRAD_FIGURES) of these weights."""
        return state.sums.figures

    @abstractmethod
    def sum_block(self, problem: Problem, state: G, active: np.ndarray, block: Block, first: int) -> None:
        """Add a block to the sums of the pass."""

    @abstractmethod
    def advance(self, problem: Problem, state: G, active: np.ndarray, t: int) -> np.ndarray:
        """Update the weights to w_(t+1); returns norms (groups,) of means of rows, inf if none is known."""


class SoftmaxPass(GradientPass[G]):
    """Gradient steps on psi(-A w) for a loss with an exponential tail (dual acceleration paper, eq. (2.1), (2.2)).

    The gradient is A^T q', with q' = softmax(-A w) for the exponential loss. Every step adds a multiple of it to the
    weights, so their norm divided by the sum of the coefficients bounds the margin. For a joint margin, A has the
    pseudo-rows, and all classes are one vector.
    """

    default_loss = "exponential"
    requires: ClassVar[tuple[str, ...]] = ("level", "share", "value", "divisor", "steepness")
    takes: ClassVar[tuple[str, ...]] = (JOINT,)

    def sum_block(self, problem: Problem, state: G, active: np.ndarray, block: Block, first: int) -> None:
        for seen, margins in look(problem, state, state.w, state.sums.figures, block, first):
            for group in active.tolist():
                self._add_shares(problem, state, group, seen, problem.view(margins, group))

    @staticmethod
    def _add_shares(problem: Problem, state: G, group: int, seen: SeenRows, margins: np.ndarray) -> None:
        """Add the rows of these margins (lines, m) to pull, times exp(-LEVEL).

        A row whose level is far below the largest is lost in rounding, and is skipped. It is not in TOTAL either, so
        pull / TOTAL is A^T q for a q in the simplex.
        """
        loss, sums = problem.loss, state.sums
        figures, pull = problem.view(sums.figures, group), problem.view(sums.pull, group)
        most, of_first = loss.level(-figures[:, SMALLEST_MARGIN].min()), figures[0]
        if most > of_first[LEVEL] + HEADROOM:
            factor = math.exp(of_first[LEVEL] - most)
            of_first[LEVEL] = most
            of_first[[TOTAL, VALUE]] *= factor
            pull *= factor
        floor, level = most - CUTOFF - math.log(problem.rows * problem.count), of_first[LEVEL]
        shares = np.zeros(margins.shape)
        counted = margins < math.inf
        counted[counted] = loss.level(-margins[counted]) >= floor
        shares[counted] = loss.share(-margins[counted], level)
        of_first[TOTAL] += shares.sum()
        of_first[VALUE] += loss.value(-margins[counted], level).sum()
        if problem.joint:  # of x (e_own - e_k) / sqrt 2
            own = seen.labels.own_of_lines().T
            shares = ROOT * np.where(own, shares.sum(axis=0), shares)
        for at, line in enumerate(problem.lines_of(group).tolist()):
            seen.add(line, shares[at], pull[at])

    def advance(self, problem: Problem, state: G, active: np.ndarray, t: int) -> np.ndarray:
        R = self.largest_norm(state)
        rows = problem.margin.terms(float(state.row_norms[norms.PRESENT_ROWS]))
        upper = np.full(problem.groups, math.inf)
        for group in active.tolist():
            of_first = problem.view(state.sums.figures, group)[0]  # the lines of a group share them
            total, value, level = of_first[[TOTAL, VALUE, LEVEL]].tolist()
            step, divisor = self.step_and_divisor(problem, state, rows, total, value, level)
            pull, mass = problem.view(state.sums.pull, group).reshape(-1), total / divisor
            pull *= 1.0 / divisor / R  # not by R^2, which may under- or overflow
            length = self.space.length(pull) / mass
            upper[group] = min(length, self.move(problem, state, group, step / R, pull, mass, t)) * R
        return problem.margin.reported(upper)

    def step_and_divisor(
        self, problem: Problem, state: G, rows: float, total: float, value: float, level: float
    ) -> tuple[float, float]:
        """(step size, divisor of the sums of the pass); total, value and level as in the sums."""
        return 1.0 / problem.loss.steepness(rows), problem.loss.divisor(total, value, level)

    def move(self, problem: Problem, state: G, group: int, step: float, pull: np.ndarray, mass: float, t: int) -> float:
        """w <- w + step pull for the lines of a group, as one vector.

        Returns the norm of the mean of all rows added so far; inf if there are none.
        """
        w = problem.view(state.w, group).reshape(-1)
        length = self.space.mix(1.0, w, step, pull)
        state.mass[group] += step * mass
        return ratio(length, state.mass[group])


def ratio(length: float, mass: float) -> float:
    """length / mass; inf for mass 0."""
    return length / mass if mass > 0.0 else math.inf
