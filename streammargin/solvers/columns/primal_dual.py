"""Primal-dual proximal steps (Pdprox paper, Algorithms 1 and 2), restarted (Applegate et al. 2021, PDLP)."""

from __future__ import annotations

import math
from typing import ClassVar, TypeVar

import numpy as np

from streammargin.compiled import largest
from streammargin.compiled import look as kernel
from streammargin.compiled import row_norms as norms
from streammargin.kinds import YesNo
from streammargin.solvers.columns.constant import constant_alone, largest_duals
from streammargin.solvers.columns.dual_pass import (
    LAST,
    MEAN,
    DualPass,
    Pair,
    Pulled,
    Totals,
    budgets,
    count_largest,
    pulled,
    sum_duals,
    sum_weights,
)
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import K, Rows, Shared, W, f4, f8, of, state
from streammargin.solvers.state import labels_of
from streammargin.words import entry

# conditions of a restart (Applegate et al. 2021, section 3.2)
SUFFICIENT = 0.2  # the gap fell to this share of that at the last restart
NECESSARY = 0.8  # or to this share, and rises
LONG = 0.36  # or this share of all passes was made since the last restart
PATIENCE = 20  # passes before the last condition applies; without it a start from given weights is slower
SHRINK, GROW = -0.3, -0.6  # exponents of the largest decrease and increase of the step (section 3.1 there)
PIECE = 1 << 16  # rows of a vector of length n per chunk


def _dot(x: np.ndarray, y: np.ndarray) -> float:
    """x.y without BLAS, whose threads would wait for busy processors."""
    return float(np.einsum("i,i", x, y))


def pulled_now(problem: Problem, state: Pair, k: int) -> Pulled:
    """The sums over the duals of this read."""
    return pulled(problem, state.read.dual_image[k], state.read.duals[k])


def pulled_before(state: Pair, k: int) -> Pulled:
    """The sums of the duals of the previous pass."""
    return Pulled(state.previous.image[k].copy(), float(state.previous.mass[k]))


def weight_step(problem: Problem, state: Pair, k: int, now: Pulled, before: Pulled, count: int) -> None:
    """w <- prox of R at w + tau A^T (2 alpha - alpha_before), and the mean of these `count` weights.

    Stores `now` for `pulled_before`.
    """
    previous, pace, last = state.previous, state.pace, state.w[LAST, k]
    previous.image[k], previous.mass[k] = now
    previous.w[k] = last
    tau = pace.step[k] / pace.ratio[k] * pace.tempo
    last[:] = problem.objective.prox(last + tau * (2.0 * now.image - before.image), tau)
    state.w[MEAN, k] = problem.objective.inside((state.totals.w[k] + last) / count)


def proximal_step(problem: Problem, state: Pair, k: int, now: Pulled, before: Pulled) -> None:
    """A step of the weights, and one of the multiplier of the bound on the duals' sum."""
    pace, totals, multiplier = state.pace, state.totals, state.budget_multiplier
    count, budget = int(totals.passes[k]) + 1, float(budgets(problem)[k])
    weight_step(problem, state, k, now, before, count)
    state.previous.budget_multiplier[k] = multiplier[LAST, k]
    if budget < math.inf:
        step = pace.step[k] / pace.ratio[k] * pace.budget_tempo
        multiplier[LAST, k] = max(0.0, multiplier[LAST, k] + step * (2.0 * now.mass - before.mass - budget))
        multiplier[MEAN, k] = (totals.budget_multiplier[k] + multiplier[LAST, k]) / count


@state
class PaperTotals(Totals):
    """Without the duals: there are no restarts."""

    alpha: Rows[f8] = of(K, 0)


@state
class PaperPair(Pair):
    """A pair that is never restarted. second: this read sums the duals that the margins of the last one gave."""

    totals: PaperTotals
    second: bool = True


class PaperSteps(DualPass[PaperPair]):
    """Algorithms 2 and 1 (dual) with the paper's own steps, one for all columns, and no restarts.

    Algorithm 1 makes two steps of the duals: the first is stored, the second extrapolates from it.
    A bound on the duals' sum, eq. (19), couples all rows, so an iteration takes two reads. The first finds the
    margins, from which the duals are projected in memory (Lemma 13). The second sums them up.
    """

    name = "steps of the paper"
    dual: bool = entry(False, YesNo(), "Algorithm 1 in place of 2")
    state_class: ClassVar[type[PaperPair]] = PaperPair
    keeps_best = False

    def first_pace(self, problem: Problem, state: PaperPair, mass: float, squares: np.ndarray) -> None:
        """Theorem 6, with the mean loss in place of the sum."""
        pace, longest = state.pace, float(state.row_norms[norms.LARGEST])
        pace.tempo[:] = 1.0
        pace.step[:] = 1.0 / (math.sqrt(2.0 * problem.present) * (longest or 1.0))
        pace.ratio[:] = problem.outputs.caps.max(axis=1)

    def raise_costs(self, problem: Problem, state: PaperPair, factor: float) -> None:
        super().raise_costs(problem, state, factor)
        state.pace.ratio[:] = problem.outputs.caps.max(axis=1)
        state.second = True

    def begin_pass(self, problem: Problem, state: PaperPair, active: np.ndarray) -> None:
        state.second = problem.top < math.inf and not state.second
        super().begin_pass(problem, state, active)

    def resting(self, problem: Problem, state: PaperPair) -> np.ndarray:
        return np.full(problem.count, problem.top < math.inf and state.number > 0)

    def twice(self, problem: Problem, state: PaperPair) -> bool:
        return self.dual and state.number > 1 and problem.top == math.inf

    def duals(self, problem: Problem, state: PaperPair) -> np.ndarray:
        return state.row_margins[LAST] if self.dual and state.second and state.number else state.alpha

    def margins(self, problem: Problem, state: PaperPair) -> np.ndarray:
        return state.row_margins[:, :, :0] if state.second and state.number else state.row_margins

    def judge(self, problem: Problem, state: PaperPair, active: np.ndarray) -> None:
        if problem.top == math.inf:
            super().judge(problem, state, active)
        elif state.second:
            sum_duals(state, active)
            self.prove_duals(problem, state, active)
        else:
            count_largest(problem, state, active)
            sum_weights(state, active)
            self.keep(problem, state, active)

    def advance(self, problem: Problem, state: PaperPair, k: int, gaps: list[float]) -> None:
        if problem.top < math.inf and not state.second:
            self.project(problem, state, k)
            return
        now, before = pulled_now(problem, state, k), pulled_before(state, k)
        if self.dual:
            before = now  # its duals extrapolate by their second step
            if state.number == 1:
                state.alpha[k] = 0.0  # start of the first of the two steps
            if state.totals.passes[k] == 1:
                state.totals.w[k] = 0.0  # the mean leaves out the first weights
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


@state
class Anchor:
    """Weights, duals and gap at the last restart, and the last gap since."""

    w: Shared[f8] = of(K, W)
    alpha: Rows[f4]
    gap: Shared[f8] = of(K, fill=math.inf)
    last_gap: Shared[f8] = of(K, fill=math.inf)

    def place(self, k: int, w: np.ndarray, gap: float) -> None:
        """Record a restart of problem k at these weights and gap."""
        self.w[k], self.gap[k], self.last_gap[k] = w, gap, math.inf


@state
class Restarted(Pair):
    """The state of restarted steps."""

    anchor: Anchor


R = TypeVar("R", bound=Restarted)


class RestartedSteps(DualPass[R]):
    """Step sizes: tau is inversely proportional to the column norms, and tau sigma is adapted after each step.

    The ratio of sigma to tau is adapted at restarts, to the distances that duals and weights moved since the last one.
    """

    name = "restarted steps"
    state_class: ClassVar[type] = Restarted

    def first_pace(self, problem: Problem, state: R, mass: float, squares: np.ndarray) -> None:
        """Set tau for each column, up to a factor."""
        pace, sizes = state.pace, np.sqrt(squares)
        nonzero = sizes > 0.0
        least = float(sizes.min(initial=math.inf, where=nonzero))
        tempo = np.divide(1.0, sizes, out=np.full(sizes.size, 1.0 / least), where=nonzero)
        pace.tempo[:] = problem.objective.even(tempo)
        # that of a column of what each dual counts for
        pace.budget_tempo = min(largest_duals(problem)) / math.sqrt(mass)
        pace.ratio[:] = math.sqrt(_dot(pace.tempo, squares) / mass)  # times ||alpha||, once it is known

    def begin_at(self, problem: Problem, state: R, w: np.ndarray) -> None:
        super().begin_at(problem, state, w)
        state.anchor.w[:] = w

    def first_weights(self, problem: Problem, state: R, k: int) -> None:
        if problem.objective.free and not problem.numeric:
            alone = constant_alone(problem, k)
            state.w[:, k, -1] = state.anchor.w[k, -1] = alone / problem.column

    def raise_costs(self, problem: Problem, state: R, factor: float) -> None:
        super().raise_costs(problem, state, factor)
        state.anchor.alpha[:] = state.alpha
        for k in range(problem.count):
            state.anchor.place(k, state.w[LAST, k], math.inf)

    def advance(self, problem: Problem, state: R, k: int, gaps: list[float]) -> None:
        now, before = pulled_now(problem, state, k), pulled_before(state, k)
        if state.pace.step[k] == 0.0:
            before = now
            first_step(problem, state, k, gaps)
        else:
            _next_step(state, k, now, before)
            if _due(state, k, min(gaps)):
                now = before = _restart(problem, state, k, now, gaps)
        proximal_step(problem, state, k, now, before)


def first_step(problem: Problem, state: Restarted, k: int, gaps: list[float]) -> None:
    """||A|| is at least what A^T does to the first duals, and these and the columns say what a step should be."""
    pace, (image, mass) = state.pace, pulled_now(problem, state, k)
    size = math.sqrt(float(state.read.duals[k, :, kernel.MOVED].sum()))
    square = _dot(image, pace.tempo * image)
    if budgets(problem)[k] < math.inf:
        square += pace.budget_tempo * mass * mass
    length = math.sqrt(square)
    pace.step[k] = size / length if length > 0.0 else 1.0
    pace.ratio[k] = pace.ratio[k] * size or 1.0
    state.anchor.gap[k] = min(gaps)


def _next_step(state: Restarted, k: int, now: Pulled, before: Pulled) -> None:
    """Adapt tau sigma to the last step and the curvature along it."""
    pace, passes = state.pace, state.number + 1.0
    change, ratio = state.w[LAST, k] - state.previous.w[k], float(pace.ratio[k])
    rise = float(state.budget_multiplier[LAST, k] - state.previous.budget_multiplier[k])
    met = abs(_dot(change, now.image - before.image) + rise * (now.mass - before.mass))
    square = _dot(change, change / pace.tempo) + rise * rise / pace.budget_tempo
    moved = ratio * square + float(state.read.duals[k, :, kernel.MOVED].sum()) / ratio
    longest = moved / (2.0 * met) if met > 0.0 else math.inf
    pace.step[k] = min((1.0 - passes**SHRINK) * longest, (1.0 + passes**GROW) * pace.step[k])


def _due(state: Restarted, k: int, gap: float) -> bool:
    """Whether to restart; gap: that of the better pair."""
    anchor = state.anchor
    before, anchor.last_gap[k] = anchor.last_gap[k], gap
    if gap <= SUFFICIENT * anchor.gap[k] or (gap <= NECESSARY * anchor.gap[k] and gap > before):
        return True
    return bool(state.totals.passes[k] >= LONG * state.number and state.number > PATIENCE)


def _restart(problem: Problem, state: Restarted, k: int, now: Pulled, gaps: list[float]) -> Pulled:
    """Restart from the better of the last pair and the mean; returns the sums of its duals."""
    pace, anchor, totals, multiplier = state.pace, state.anchor, state.totals, state.budget_multiplier
    alpha, last, count = state.alpha[k], state.w[LAST, k], int(totals.passes[k])
    if gaps[MEAN] < gaps[LAST]:
        last[:], multiplier[LAST, k] = state.w[MEAN, k], multiplier[MEAN, k]
        now = pulled(problem, totals.dual_image[k], totals.duals[k], count)
        np.divide(totals.alpha[k], count, out=alpha)
    square = 0.0
    for start in range(0, problem.rows, PIECE):
        rows = slice(start, start + PIECE)
        square += float(np.sum((alpha[rows] - anchor.alpha[k, rows]) ** 2))
    anchor.alpha[k] = alpha
    change = last - anchor.w[k]
    length = _dot(change, change / pace.tempo)
    if 0.0 < length < math.inf and 0.0 < square < math.inf:
        pace.ratio[k] = math.sqrt(pace.ratio[k] * math.sqrt(square / length))
    anchor.place(k, last, min(gaps))
    totals.forget(k)
    return now
