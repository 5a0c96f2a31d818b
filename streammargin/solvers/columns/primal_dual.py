"""Primal-dual proximal steps (Pdprox paper, Algorithms 1 and 2), restarted (Applegate et al. 2021, PDLP)."""

from __future__ import annotations

import math
from typing import ClassVar, TypeVar

import numpy as np

from streammargin.compiled import look as kernel
from streammargin.compiled import row_norms as norms
from streammargin.solvers.columns.constant import constant_alone
from streammargin.solvers.columns.dual_pass import LAST, MEAN, DualPass, Pair, Pulled, budgets
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import K, Rows, Shared, W, f4, f8, of, state

SUFFICIENT = 0.2  # a restart: the gap is this part of what it was at the last one (Applegate et al. 2021, section 3.2)
NECESSARY = 0.8  # or this part and no longer falling: without it l2norm takes a tenth more passes
LONG = 0.36  # or so many of all passes so far were made since: without it the penalty l2norm takes twice the passes
PATIENCE = 20  # passes before a restart for that reason: a path over C of three classes took half as many again without
SHRINK, GROW = -0.3, -0.6  # exponents of what the next step may lose and gain (section 3.1 there)
PIECE = 1 << 16  # rows of a vector of length n that are worked on at a time


def _dot(x: np.ndarray, y: np.ndarray) -> float:
    """x.y of long vectors: BLAS would give them to several threads, which wait for the processors that others use."""
    return float(np.einsum("i,i", x, y))


def pulled(state: Pair, k: int) -> Pulled:
    """Of the duals of this read."""
    read = state.read
    return Pulled(read.dual_image[k].sum(axis=0), float(read.duals[k, :, kernel.ALPHA].sum()))


def pulled_before(state: Pair, k: int) -> Pulled:
    """Of those of the pass before."""
    return Pulled(state.previous.image[k].copy(), float(state.previous.mass[k]))


def proximal_step(problem: Problem, state: Pair, k: int, now: Pulled, before: Pulled) -> None:
    """w <- prox of R at w + tau A^T (2 alpha - alpha_before), and its mean; now is what `pulled_before` says next."""
    previous, pace, totals, lift = state.previous, state.pace, state.totals, state.budget_multiplier
    last, mean = state.w[LAST, k], state.w[MEAN, k]
    previous.image[k], previous.mass[k] = now
    previous.w[k], previous.budget_multiplier[k] = last, lift[LAST, k]
    tau, count = pace.step[k] / pace.ratio[k] * pace.tempo, totals.passes[k] + 1
    last[:] = problem.objective.prox(last + tau * (2.0 * now.image - before.image), tau)
    mean[:] = problem.objective.inside((totals.w[k] + last) / count)
    budget = float(budgets(problem)[k])
    if budget < math.inf:
        tau_lift = pace.step[k] / pace.ratio[k] * pace.budget_tempo
        lift[LAST, k] = max(0.0, lift[LAST, k] + tau_lift * (2.0 * now.mass - before.mass - budget))
        lift[MEAN, k] = (totals.budget_multiplier[k] + lift[LAST, k]) / count


class PaperSteps(DualPass[Pair]):
    """schedule = primal or dual: Algorithms 2 and 1 with the paper's own steps, one for all columns, and no restarts.

    Algorithm 1 makes two steps of the duals: the first one from where it was, which stays, and another from there.
    """

    name = "steps of the paper"
    state_class = Pair

    def first_pace(self, problem: Problem, state: Pair, mass: float, squares: np.ndarray) -> None:
        """Theorem 6, with the mean loss in place of the sum."""
        pace, largest = state.pace, float(state.row_norms[norms.LARGEST])
        pace.tempo[:] = 1.0
        pace.step[:] = 1.0 / (math.sqrt(2.0 * problem.present) * (largest or 1.0))
        pace.ratio[:] = problem.caps.max(axis=1)

    def dearer(self, problem: Problem, state: Pair, factor: float) -> None:
        super().dearer(problem, state, factor)
        state.pace.ratio[:] = problem.caps.max(axis=1)

    def twice(self, problem: Problem, state: Pair) -> bool:
        return problem.options["schedule"] == "dual" and state.number > 1

    def advance(self, problem: Problem, state: Pair, k: int, gaps: list[float]) -> None:
        now, before = pulled(state, k), pulled_before(state, k)
        if problem.options["schedule"] == "dual":
            before = now  # its duals extrapolate by their second step
            if state.number == 1:
                state.alpha[k] = 0.0  # where the first of the two steps starts
        proximal_step(problem, state, k, now, before)


@state
class Anchor:
    """Weights and duals of the last restart, the gap there, and the one since."""

    w: Shared[f8] = of(K, W)
    alpha: Rows[f4]
    gap: Shared[f8] = of(K, fill=math.inf)
    last_gap: Shared[f8] = of(K, fill=math.inf)

    def place(self, k: int, w: np.ndarray, gap: float) -> None:
        """A restart of problem k from these weights, whose gap is this one."""
        self.w[k], self.gap[k], self.last_gap[k] = w, gap, math.inf


@state
class Restarted(Pair):
    """A pair that is restarted from the mean."""

    anchor: Anchor


R = TypeVar("R", bound=Restarted)


class RestartedSteps(DualPass[R]):
    """tau is one number over the Euclidean norms of the columns; tau sigma follows from how far the last step went, and
    their ratio from how far both sides went between two restarts.
    """

    name = "restarted steps"
    state_class: ClassVar[type] = Restarted

    def first_pace(self, problem: Problem, state: R, mass: float, squares: np.ndarray) -> None:
        """What tau is for each column, up to a factor."""
        pace, sizes = state.pace, np.sqrt(squares)
        there = sizes > 0.0
        least = float(sizes.min(initial=math.inf, where=there))
        tempo = np.divide(1.0, sizes, out=np.full(sizes.size, 1.0 / least), where=there)
        pace.tempo[:] = problem.objective.even(tempo)
        pace.budget_tempo = 1.0 / math.sqrt(mass)  # the tempo of a column of 1
        pace.ratio[:] = math.sqrt(_dot(pace.tempo, squares) / mass)  # times ||alpha||, once it is known

    def first_weights(self, problem: Problem, state: R, k: int) -> None:
        if problem.objective.free and not problem.numeric:
            alone = constant_alone(problem, state.labels, k)
            state.w[:, k, -1] = state.anchor.w[k, -1] = alone / state.constant

    def dearer(self, problem: Problem, state: R, factor: float) -> None:
        super().dearer(problem, state, factor)
        state.anchor.alpha[:] = state.alpha
        for k in range(problem.count):
            state.anchor.place(k, state.w[LAST, k], math.inf)

    def advance(self, problem: Problem, state: R, k: int, gaps: list[float]) -> None:
        now, before = pulled(state, k), pulled_before(state, k)
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
    pace, (image, mass) = state.pace, pulled(state, k)
    size = math.sqrt(float(state.read.duals[k, :, kernel.MOVED].sum()))
    square = _dot(image, pace.tempo * image)
    if budgets(problem)[k] < math.inf:
        square += pace.budget_tempo * mass * mass
    length = math.sqrt(square)
    pace.step[k] = size / length if length > 0.0 else 1.0
    pace.ratio[k] = pace.ratio[k] * size or 1.0
    state.anchor.gap[k] = min(gaps)


def _next_step(state: Restarted, k: int, now: Pulled, before: Pulled) -> None:
    """tau sigma from what the last step was and what ||A|| it met."""
    pace, passes = state.pace, state.number + 1.0
    change, ratio = state.w[LAST, k] - state.previous.w[k], float(pace.ratio[k])
    lifted = float(state.budget_multiplier[LAST, k] - state.previous.budget_multiplier[k])
    met = abs(_dot(change, now.image - before.image) + lifted * (now.mass - before.mass))
    square = _dot(change, change / pace.tempo) + lifted * lifted / pace.budget_tempo
    moved = ratio * square + float(state.read.duals[k, :, kernel.MOVED].sum()) / ratio
    longest = moved / (2.0 * met) if met > 0.0 else math.inf
    pace.step[k] = min((1.0 - passes**SHRINK) * longest, (1.0 + passes**GROW) * pace.step[k])


def _due(state: Restarted, k: int, gap: float) -> bool:
    """Whether it is time for a restart, where the better pair has this gap."""
    anchor = state.anchor
    before, anchor.last_gap[k] = anchor.last_gap[k], gap
    if gap <= SUFFICIENT * anchor.gap[k] or (gap <= NECESSARY * anchor.gap[k] and gap > before):
        return True
    return bool(state.totals.passes[k] >= LONG * state.number and state.number > PATIENCE)


def _restart(problem: Problem, state: Restarted, k: int, now: Pulled, gaps: list[float]) -> Pulled:
    """Go on from the better of the last pair and the mean one; returns what its duals pull."""
    pace, anchor, totals, lift = state.pace, state.anchor, state.totals, state.budget_multiplier
    alpha, last, count = state.alpha[k], state.w[LAST, k], int(totals.passes[k])
    if gaps[MEAN] < gaps[LAST]:
        last[:], lift[LAST, k] = state.w[MEAN, k], lift[MEAN, k]
        mass = float(totals.duals[k, :, kernel.ALPHA].sum()) / count
        now = Pulled(totals.dual_image[k].sum(axis=0) / count, mass)
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
