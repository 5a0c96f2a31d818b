"""Algorithms 1 and 2 of the Pdprox paper, with its own steps and no restarts."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import largest
from streammargin.compiled import row_norms as norms
from streammargin.compiled.newton import signed_products
from streammargin.kinds import YesNo
from streammargin.losses.base import POSITIVE, has
from streammargin.rows.blocks import Block
from streammargin.rows.labels import numbered_from
from streammargin.solvers.columns.constant import largest_duals
from streammargin.solvers.columns.dual_pass import (
    LAST,
    DualPass,
    Pair,
    Totals,
    budgets,
    count_largest,
    pulled,
    sum_duals,
    sum_weights,
)
from streammargin.solvers.columns.primal_dual import pulled_before, weight_step
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import K, N, Rows, f8, of, state
from streammargin.solvers.state import labels_for, labels_of
from streammargin.words import entry

Lines = tuple[float, float, float, float]


def lines_of(problem: Problem) -> Lines | None:
    """(f, c, f', c') of a loss that the paper gives two duals, max(0, c - f u, c' - f' u); None: one dual a row."""
    found: Lines | None = problem.loss.pair() if problem.top == math.inf and has(problem.loss, "pair") else None
    return found


def shares(lines: Lines | None, dual: bool) -> float:
    """c of Lemma 3 divided by R^2 / n, R the length of the longest row (appendix A): of eq. (6) for Algorithm 1, of
    eq. (7) for Algorithm 2.
    """
    if lines is None:
        return 1.0
    one, other = lines[0] ** 2, lines[2] ** 2
    return one + other if dual else 2.0 * max(one, other)


def moved(pair: np.ndarray, lines: Lines, u: np.ndarray, caps: np.ndarray, sigma: float) -> np.ndarray:
    """The step of two duals (2, m) of each row from margins u (m,): the nearest with both >= 0, and a sum <= cap.

    Lemma 13 for two duals: if their sum is too large, both fall by the same, unless one of them is 0 then.
    """
    f, c, other, at = lines
    v = np.stack([pair[0] + sigma * (c - f * u), pair[1] + sigma * (at - other * u)])
    inside = np.maximum(v, 0.0)
    edge = np.clip(0.5 * (caps + v[0] - v[1]), 0.0, caps)
    return np.where(inside.sum(axis=0) > caps, np.stack([edge, caps - edge]), inside)


@state
class PaperTotals(Totals):
    """Without the duals: there are no restarts."""

    alpha: Rows[f8] = of(K, 0)


@state
class PaperPair(Pair):
    """A pair that is never restarted. second: this read sums the duals that the margins of the last one gave.

    two_duals: for losses with two duals a row, both of them, and the margin; alpha is then what both pull together.
    """

    two_duals: Rows[f8] = of(3, K, N.where(lambda problem: lines_of(problem) is not None))
    totals: PaperTotals
    second: bool = True


class PaperSteps(DualPass[PaperPair]):
    """Algorithms 2 and 1 (dual) with the paper's own steps, one for all columns, and no restarts.

    Algorithm 1 makes two steps of the duals: the first is stored, the second extrapolates from it.
    Losses with two duals a row have both; a block is looked at for its margins, and again for what the duals pull.
    A bound on the duals' sum, eq. (19), couples all rows, so an iteration takes two reads. The first finds the
    margins, from which the duals are projected in memory (Lemma 13), one of each row. The second sums them up.
    """

    name = "steps of the paper"
    dual: bool = entry(False, YesNo(), "Algorithm 1 in place of 2")
    scale: float = entry(1.0, POSITIVE, "times the step of the paper")
    keeps_best = False

    def first_pace(self, problem: Problem, state: PaperPair, mass: float, squares: np.ndarray) -> None:
        """Theorem 6, with the mean loss in place of the sum."""
        pace, longest = state.pace, float(state.row_norms[norms.LARGEST_NORM])
        square = shares(lines_of(problem), self.dual)
        pace.tempo[:] = 1.0
        pace.step[:] = self.scale / (math.sqrt(2.0 * square * problem.present) * (longest or 1.0))
        pace.ratio[:] = _largest_caps(problem)

    def raise_costs(self, problem: Problem, state: PaperPair, factor: float) -> None:
        super().raise_costs(problem, state, factor)
        state.two_duals *= factor
        state.pace.ratio[:] = _largest_caps(problem)
        state.second = True

    def begin_pass(self, problem: Problem, state: PaperPair, active: np.ndarray) -> None:
        state.second = problem.top < math.inf and not state.second
        super().begin_pass(problem, state, active)

    def resting(self, problem: Problem, state: PaperPair) -> np.ndarray:
        still = state.number > 0 and (problem.top < math.inf or lines_of(problem) is not None)
        return np.full(problem.groups, still)

    def twice(self, problem: Problem, state: PaperPair) -> bool:
        return self.dual and state.number > 1 and problem.top == math.inf

    def duals(self, problem: Problem, state: PaperPair) -> np.ndarray:
        return state.row_margins[LAST] if self.dual and state.second and state.number else state.alpha

    def margins(self, problem: Problem, state: PaperPair) -> np.ndarray:
        return state.row_margins[:, :, :0] if state.second and state.number else state.row_margins

    def run_block(self, problem: Problem, state: PaperPair, active: np.ndarray, block: Block, first: int) -> None:
        lines = lines_of(problem)
        if lines is not None and state.number:
            numbers, labels = numbered_from(first), labels_of(problem, state)
            for k in problem.lines_of(active):
                signed_products(block, numbers, labels, k, state.w[LAST, k], state.two_duals[2, k])
                self._move(problem, state, lines, k, slice(first, first + block.rows()))
        super().run_block(problem, state, active, block, first)

    def _move(self, problem: Problem, state: PaperPair, lines: Lines, k: int, rows: slice) -> None:
        """The steps of both duals of these rows, from the margins that were just found."""
        known, two = state.labels.cut(rows.start, rows.stop), state.two_duals[:, k, rows]
        pair, u = two[:2], two[2]
        if problem.numeric:
            u -= known.targets_of(k)
        caps = labels_for(known, problem.outputs).caps_of(k)
        sigma = float(self.dual_steps(problem, state)[k // problem.lines])
        ahead = moved(pair, lines, u, caps, sigma)
        if self.twice(problem, state):
            pair[:] = ahead
            ahead = moved(pair, lines, u, caps, sigma)
        elif not self.dual:
            pair[:] = ahead
        state.alpha[k, rows] = lines[0] * ahead[0] + lines[2] * ahead[1]

    def judge(self, problem: Problem, state: PaperPair, active: np.ndarray) -> None:
        if problem.top == math.inf:
            super().judge(problem, state, active)
        elif state.second:
            sum_duals(problem, state, active)
            self.prove_duals(problem, state, self.weigh(problem, state, active))
        else:
            count_largest(problem, state, active)
            sum_weights(problem, state, active)
            self.keep(problem, state, self.weigh(problem, state, active))

    def advance(self, problem: Problem, state: PaperPair, k: int, gaps: list[float]) -> None:
        if problem.top < math.inf and not state.second:
            self.project(problem, state, k)
            return
        now, before = pulled(problem, k, state.read), pulled_before(problem, state, k)
        if self.dual:
            before = now  # its duals extrapolate by their second step
            if state.number == 1:
                problem.view(state.alpha, k)[...] = 0.0  # start of the first of the two steps
            if state.totals.passes[k] == 1:
                problem.view(state.totals.w, k)[...] = 0.0  # the mean leaves out the first weights
        weight_step(problem, state, k, now, before, int(state.totals.passes[k]) + (not self.dual))

    def project(self, problem: Problem, state: PaperPair, k: int) -> None:
        """Make the steps of the duals for the margins of this read, with a sum of at most the budget (Lemma 13)."""
        loss, labels, u, alpha = problem.loss, labels_of(problem, state), state.row_margins[LAST, k], state.alpha[k]
        L, budget = 1.0 / float(self.dual_steps(problem, state)[k]), float(budgets(problem)[k])

        def step(out: np.ndarray) -> None:
            e = largest.multiplier(loss, labels, k, u, alpha, L, budget, largest_duals(problem))
            largest.step_duals(loss, labels, k, u, alpha, L, e, out)

        if not self.dual or state.number > 1:  # the first of two steps begins with the second pair of them
            step(alpha)
        if self.dual:
            step(u)


def _largest_caps(problem: Problem) -> np.ndarray:
    """The largest cap of each group, before the weights of rows."""
    return problem.by_group(problem.outputs.caps).max(axis=(1, 2))
