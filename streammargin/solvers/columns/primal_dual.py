"""Primal-dual proximal steps, restarted (Applegate et al. 2021, PDLP), and what those of the Pdprox paper share."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from streammargin.compiled import look as kernel
from streammargin.solvers.columns.constant import constants_alone, largest_duals
from streammargin.solvers.columns.dual_pass import LAST, MEAN, DualPass, Pair, Pulled, budgets, pulled
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import GROUPS, K, Rows, Shared, W, f4, f8, of, state
from streammargin.solvers.state import VECTOR_CHUNK_ROWS

# conditions of a restart (Applegate et al. 2021, section 3.2)
SUFFICIENT = 0.2  # the gap fell to this share of that at the last restart
NECESSARY = 0.8  # or to this share, and rises
LONG_SINCE_RESTART = 0.36  # or this share of all passes was made since the last restart
LEAST_RESTART_PASSES = 20  # before the last condition applies; without it a start from given weights is slower
SHRINK, GROW = -0.3, -0.6  # exponents of the largest decrease and increase of the step (section 3.1 there)


def _dot(x: np.ndarray, y: np.ndarray) -> float:
    """x.y without BLAS, whose threads would wait for busy processors."""
    return float(np.einsum("i,i", x.ravel(), y.ravel()))


def pulled_before(problem: Problem, state: Pair, k: int) -> Pulled:
    """The sums of the duals of the previous pass."""
    return Pulled(problem.of_group(state.previous.image, k).copy(), float(state.previous.mass[k]))


def store_pulled(problem: Problem, state: Pair, k: int, now: Pulled) -> None:
    """Store these sums for `pulled_before`."""
    problem.of_group(state.previous.image, k)[...], state.previous.mass[k] = now


def tempo_of(problem: Problem, state: Pair) -> np.ndarray:
    """`StepSizes.tempo` in the shape of the weights of a group."""
    return problem.of_group(state.pace.tempo, 0)


def weight_step(problem: Problem, state: Pair, k: int, now: Pulled, before: Pulled, count: int) -> None:
    """w <- prox of R at w + tau A^T (2 alpha - alpha_before), and the mean of these `count` weights.

    Stores `now` for `pulled_before`.
    """
    previous, last, mean, total = (
        problem.of_group(each, k) for each in (state.previous.w, state.w[LAST], state.w[MEAN], state.totals.w)
    )
    store_pulled(problem, state, k, now)
    previous[...] = last
    tau = state.pace.step[k] / state.pace.ratio[k] * tempo_of(problem, state)
    last[...] = problem.objective.prox(last + tau * (2.0 * now.image - before.image), tau)
    mean[...] = problem.objective.inside((total + last) / count)


def proximal_step(problem: Problem, state: Pair, k: int, now: Pulled, before: Pulled) -> None:
    """A step of the weights, and for a group of one line of the multiplier of the bound on the duals' sum."""
    pace, totals, multiplier = state.pace, state.totals, state.budget_multiplier
    count, budget, mine = int(totals.passes[k]) + 1, float(budgets(problem)[k * problem.lines]), problem.lines_of(k)
    weight_step(problem, state, k, now, before, count)
    state.previous.budget_multiplier[mine] = multiplier[LAST, mine]
    if budget < math.inf:
        step = pace.step[k] / pace.ratio[k] * pace.budget_tempo
        multiplier[LAST, k] = max(0.0, multiplier[LAST, k] + step * (2.0 * now.mass - before.mass - budget))
        multiplier[MEAN, k] = (totals.budget_multiplier[k] + multiplier[LAST, k]) / count


@state
class Anchor:
    """Weights, duals and gap at the last restart, and the last gap since."""

    w: Shared[f8] = of(K, W)
    alpha: Rows[f4]
    gap: Shared[f8] = of(GROUPS, fill=math.inf)
    last_gap: Shared[f8] = of(GROUPS, fill=math.inf)

    def place(self, problem: Problem, k: int, w: np.ndarray, gap: float) -> None:
        """Record a restart of group k at these weights and gap."""
        problem.of_group(self.w, k)[...], self.gap[k], self.last_gap[k] = w, gap, math.inf


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

    def first_pace(self, problem: Problem, state: R, mass: float, squares: np.ndarray) -> None:
        """Set tau for each column, up to a factor."""
        pace, sizes = state.pace, np.sqrt(squares)
        nonzero = sizes > 0.0
        least = float(sizes.min(initial=math.inf, where=nonzero))
        tempo = np.divide(1.0, sizes, out=np.full(sizes.size, 1.0 / least), where=nonzero)
        tempo_of(problem, state)[...] = problem.objective.even(np.broadcast_to(tempo, tempo_of(problem, state).shape))
        # that of a column of what each dual counts for
        pace.budget_tempo = min(largest_duals(problem)) / math.sqrt(mass)
        pace.ratio[:] = math.sqrt(_dot(pace.tempo[0], squares) / mass)  # times ||alpha||, once it is known

    def begin_at(self, problem: Problem, state: R, w: np.ndarray) -> None:
        super().begin_at(problem, state, w)
        state.anchor.w[:] = w

    def first_weights(self, problem: Problem, state: R, k: int) -> None:
        if problem.objective.free and not problem.numeric:
            mine, alone = problem.lines_of(k), constants_alone(problem, k)
            state.w[:, mine, -1] = state.anchor.w[mine, -1] = alone / problem.column

    def raise_costs(self, problem: Problem, state: R, factor: float) -> None:
        super().raise_costs(problem, state, factor)
        state.anchor.alpha[:] = state.alpha
        for k in range(problem.groups):
            state.anchor.place(problem, k, problem.of_group(state.w[LAST], k), math.inf)

    def advance(self, problem: Problem, state: R, k: int, gaps: list[float]) -> None:
        now, before = pulled(problem, k, state.read), pulled_before(problem, state, k)
        if state.pace.step[k] == 0.0:
            before = now
            first_step(problem, state, k, gaps)
        else:
            _next_step(problem, state, k, now, before)
            if _due(state, k, min(gaps)):
                now = before = _restart(problem, state, k, now, gaps)
        proximal_step(problem, state, k, now, before)


def first_step(problem: Problem, state: Restarted, k: int, gaps: list[float]) -> None:
    """||A|| is at least what A^T does to the first duals, and these and the columns say what a step should be."""
    pace, (image, mass) = state.pace, pulled(problem, k, state.read)
    size = math.sqrt(_moved(problem, state, k))
    square = _dot(image, tempo_of(problem, state) * image)
    if problem.top < math.inf:
        square += pace.budget_tempo * mass * mass
    length = math.sqrt(square)
    pace.step[k] = size / length if length > 0.0 else 1.0
    pace.ratio[k] = pace.ratio[k] * size or 1.0
    state.anchor.gap[k] = min(gaps)


def _moved(problem: Problem, state: Pair, k: int) -> float:
    """The square of the length of the step that the duals of group k made in this read."""
    return float(problem.view(state.read.duals, k)[..., kernel.MOVED].sum())


def _next_step(problem: Problem, state: Restarted, k: int, now: Pulled, before: Pulled) -> None:
    """Adapt tau sigma to the last step and the curvature along it."""
    pace, passes, first, tempo = state.pace, state.number + 1.0, k * problem.lines, tempo_of(problem, state)
    change, ratio = problem.of_group(state.w[LAST], k) - problem.of_group(state.previous.w, k), float(pace.ratio[k])
    rise = float(state.budget_multiplier[LAST, first] - state.previous.budget_multiplier[first])
    met = abs(_dot(change, now.image - before.image) + rise * (now.mass - before.mass))
    square = _dot(change, change / tempo) + rise * rise / pace.budget_tempo
    moved = ratio * square + _moved(problem, state, k) / ratio
    longest = moved / (2.0 * met) if met > 0.0 else math.inf
    pace.step[k] = min((1.0 - passes**SHRINK) * longest, (1.0 + passes**GROW) * pace.step[k])


def _due(state: Restarted, k: int, gap: float) -> bool:
    """Whether to restart; gap: that of the better pair."""
    anchor = state.anchor
    before, anchor.last_gap[k] = anchor.last_gap[k], gap
    if gap <= SUFFICIENT * anchor.gap[k] or (gap <= NECESSARY * anchor.gap[k] and gap > before):
        return True
    long = state.totals.passes[k] >= LONG_SINCE_RESTART * state.number
    return bool(long and state.number > LEAST_RESTART_PASSES)


def _restart(problem: Problem, state: Restarted, k: int, now: Pulled, gaps: list[float]) -> Pulled:
    """Restart from the better of the last pair and the mean; returns the sums of its duals."""
    pace, anchor, totals, multiplier = state.pace, state.anchor, state.totals, state.budget_multiplier
    last, count, mine = problem.of_group(state.w[LAST], k), int(totals.passes[k]), problem.lines_of(k)
    if gaps[MEAN] < gaps[LAST]:
        last[...], multiplier[LAST, mine] = problem.of_group(state.w[MEAN], k), multiplier[MEAN, mine]
        now = pulled(problem, k, totals, count)
        for line in mine:
            np.divide(totals.alpha[line], count, out=state.alpha[line])
    square = 0.0
    for line in mine:
        for start in range(0, problem.rows, VECTOR_CHUNK_ROWS):
            rows = slice(start, start + VECTOR_CHUNK_ROWS)
            square += float(np.sum((state.alpha[line, rows] - anchor.alpha[line, rows]) ** 2))
        anchor.alpha[line] = state.alpha[line]
    change = last - problem.of_group(anchor.w, k)
    length = _dot(change, change / tempo_of(problem, state))
    if 0.0 < length < math.inf and 0.0 < square < math.inf:
        pace.ratio[k] = math.sqrt(pace.ratio[k] * math.sqrt(square / length))
    anchor.place(problem, k, last, min(gaps))
    totals.forget(problem, k)
    return now
