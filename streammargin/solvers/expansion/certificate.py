"""Machines of any kernel: what is measured, the certificates of their expansions, and the expansion that is found."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np

from streammargin.compiled import smo
from streammargin.errors import DataError
from streammargin.kernels.base import Kernel
from streammargin.points.base import Point
from streammargin.points.expansion import SCORED_ROWS, Expansion
from streammargin.rows.blocks import Block, alone, part, taken
from streammargin.solvers.base import MarginSizes, Solver
from streammargin.solvers.expansion.form import Form, form_of
from streammargin.solvers.expansion.found import WORKING, Found, SmoState, expansion_of, merged, rows_of, set_found
from streammargin.solvers.expansion.kept import keep, last_read
from streammargin.solvers.expansion.matrices import say_indefinite
from streammargin.solvers.expansion.measured import (
    blur,
    given,
    kernel_of,
    largest_value,
    margin_sizes,
    measure,
    of_length_zero,
    squares_of,
)
from streammargin.solvers.expansion.rounds import LARGEST_COEFFICIENT_SUM, constant_of
from streammargin.solvers.problem import Problem
from streammargin.solvers.proof.best import Best, best_figures, keep_better, keep_bounds
from streammargin.solvers.proof.figures import Figures
from streammargin.solvers.proof.inseparable import inseparable
from streammargin.solvers.proof.kept import BestKept
from streammargin.solvers.proof.objectives.base import Candidate
from streammargin.solvers.proof.rounding import EPS, TERM
from streammargin.solvers.roles import new
from streammargin.solvers.state import labels_of
from streammargin.solvers.visits import Visit

LOOKED = 2048  # support rows that the pieces of a certificate are cut for
AIMED_TOL_SHARE = 0.5  # of the tolerance: the estimated gap that a pass aims at
SINGLE = 1.05 * 2.0**-24  # the rounding of an operation in float32, and what adds to it in float64
CLEAR = 1.25  # times the error of a score, a row is from any loss, for a certificate to leave it out
TIGHTER = 0.3  # the factor of that after a certificate in vain
SMALLEST_GOAL = 1e-15
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
SCALES, CONSTANTS = 24, 40  # steps of the search for a scale, and for a constant
LEAST_SCALE, MOST_SCALE = 0.5, 1.5


class ExactLine(NamedTuple):
    """A line's candidate, scale * f + constant, and the lower bound of its coefficients.

    upper: a bound on all margins, of a hard margin. hidden: the part of the gap that is rounding, whatever steps do.
    """

    candidate: Candidate
    dual: float
    scale: float
    constant: float
    upper: float = math.inf
    hidden: float = 0.0

    @property
    def gap(self) -> float:
        """The relative gap, or that of the margin."""
        if self.upper < math.inf:
            return 1.0 - self.candidate.lower / self.upper if self.upper > 0.0 else math.inf
        primal, dual = self.candidate.primal, self.dual - self.candidate.rounding
        size = max(abs(primal), abs(dual))
        return (primal - dual) / size if size > 0.0 else 0.0


class Left(NamedTuple):
    """Rows without a coefficient that a certificate leaves out, as they have no loss at scale 1 and this constant.

    form: theirs; f: their scores, each of which may be wrong by `wander`.
    """

    form: Form
    f: np.ndarray
    wander: float
    constant: float

    def clear(self, scale: float, constant: float) -> bool:
        """Whether none of them can have a loss at this scale and constant."""
        scores = scale * self.f
        error = scale * self.wander + 8.0 * EPS * (np.abs(scores) + abs(constant) + np.abs(self.form.t))
        return bool(np.all(self.form.slack(scores, constant) > error))


def exact(
    form: Form, loss: object, free: bool, f: np.ndarray, b: np.ndarray, blur: float, wanted: float, left: Left
) -> ExactLine:
    """Exact figures of the coefficients b (n,) with scores f = K b, each of which may be wrong by at most `blur`.

    A scale is sought if the gap at scale 1 is above `wanted`. left: all other rows; if one may have a loss at the best
    scale and constant, these are 1 and the constant at which none has.
    """
    square, mass = math.fsum(b * f), math.fsum(np.abs(b))
    gains, size = form.gains(b)
    drift, largest = abs(math.fsum(b)) if free else 0.0, float(np.abs(f).max(initial=0.0))
    start, worst = constant_of(form, free, f, b)
    error = 0.5 * mass * blur + TERM * (size + mass * largest)
    error += drift * (abs(start) + worst + 1.0)
    dual = gains - 0.5 * square - error

    def judged(scale: float, constant: float) -> Candidate:
        off = scale * blur + 4.0 * EPS * (scale * largest + abs(constant))
        losses, slip, missed = smo.losses_at(loss, f, scale, constant, form.sign, form.target, form.caps, off)
        primal = float(losses) + 0.5 * scale * scale * square
        rounding = float(slip) + TERM * primal + 0.5 * scale * scale * mass * blur
        return Candidate(primal, -math.inf, int(missed), rounding)

    def at(scale: float, constant: float) -> float:
        found = judged(scale, constant)
        return found.primal + found.rounding  # a larger scale may cost less than rounding of rows that it clears

    def best_constant(scale: float) -> tuple[float, float]:
        return least(lambda constant: at(scale, constant), start, max(worst, 1e-9), CONSTANTS) if free else (
            at(scale, 0.0), 0.0
        )  # fmt: skip

    scale = 1.0
    primal, constant = best_constant(scale)
    if primal - dual > wanted * max(abs(primal), abs(dual)) and square > 0.0:
        _, scale = golden(lambda one: best_constant(one)[0], LEAST_SCALE, MOST_SCALE, SCALES)
        other, at_other = best_constant(scale)
        primal, constant, scale = (other, at_other, scale) if other < primal else (primal, constant, 1.0)
    if not left.clear(scale, constant):
        scale, constant = 1.0, left.constant
    found = judged(scale, constant)
    hidden = error / max(abs(found.primal), abs(dual), 1e-300)  # steps may lessen the rounding of losses
    return ExactLine(found, dual, scale, constant, hidden=hidden)


def exact_margin(form: Form, free: bool, f: np.ndarray, b: np.ndarray, blur: float, largest: float) -> ExactLine:
    """Exact figures of a hard margin, as `exact`; largest: the length of the longest row in the space of the kernel.

    The largest margin is half the distance of the hulls of both classes, and b / sum |b| is the difference of a point
    of each; without a constant, it is the distance of the hull of y x from 0.
    """
    size = math.ldexp(0.5, math.frexp(float(np.abs(b).max(initial=0.0)))[1])
    b, f, blur = b / size, f / size, blur / size  # without rounding; squares of huge coefficients would overflow
    square, mass, there = math.fsum(b * f), math.fsum(np.abs(b)), form.caps > 0.0
    margins = form.sign * f
    near = [float(np.min(margins, where=there & (form.sign == side), initial=math.inf)) for side in (1.0, -1.0)]
    constant = 0.5 * (near[1] - near[0]) if free and all(map(math.isfinite, near)) else 0.0
    slack = min(near[0] + constant, near[1] - constant)
    off = blur + 4.0 * EPS * (max(abs(one) for one in near) + abs(constant))
    low, high = (math.sqrt(max(square + by * mass * blur, 0.0)) for by in (-1.0, 1.0))
    sure = (slack - off) * (1.0 - 4.0 * EPS if slack > off else 1.0 + 4.0 * EPS)
    length = high if sure > 0.0 else low
    lower = sure / length if length > 0.0 else -largest if mass > 0.0 else -math.inf  # no margin is below -largest
    # no constant is larger than the longest row, as each class has a row on its side
    drift = abs(math.fsum(b)) * largest if free else 0.0
    upper = (high + drift) / mass * (1.0 + 8.0 * EPS) if mass > 0.0 else math.inf
    missed = int(np.count_nonzero((margins + form.sign * constant <= off) & there))
    scale = 1.0 / slack if slack > 0.0 else min(size, LARGEST_COEFFICIENT_SUM)
    found = ExactLine(Candidate(math.inf, lower, missed, 0.0), -math.inf, scale / size, scale * constant, upper)
    without = 1.0 - slack * mass / square if square > 0.0 else math.inf
    return found._replace(hidden=max(0.0, found.gap - without))


def least(value: Callable[[float], float], start: float, width: float, steps: int) -> tuple[float, float]:
    """(the least value, where it is) of a convex function near `start`, on a stretch that grows if it must."""
    low, high = start - width, start + width
    for _ in range(60):
        found, where = golden(value, low, high, steps)
        if min(where - low, high - where) > 1e-3 * (high - low):
            break
        low, high = where - (high - low), where + (high - low)
    own = value(start)
    return (own, start) if own <= found else (found, where)


def golden(value: Callable[[float], float], low: float, high: float, steps: int) -> tuple[float, float]:
    """(the least value, where it is) of a convex function on a stretch, by golden sections."""
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(steps):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = value(right)
    return (at_left, left) if at_left <= at_right else (at_right, right)


class Machine(Solver[SmoState]):
    """Its kernel as measured in the first reads, its certificates, and what is found."""

    requires: ClassVar[tuple[str, ...]] = ("primal", "dual_form")
    prologue: ClassVar[int] = 1

    def prologue_passes(self, problem: Problem) -> int:
        return 1 if problem.kernel is None or problem.kernel.by_products or problem.kernel.of_numbers else 2

    def prologue_visit(self, problem: Problem, state: SmoState, index: int) -> Visit:
        return Visit("prologue", self.prologue_block, (index,), leaves=False, lines=problem.count)

    def prologue_block(self, problem: Problem, state: SmoState, index: int, block: Block, first: int) -> None:
        if index == 0:
            measure(problem, state.measured, state.labels, block, first)
        if index == 1 or given(problem).of_numbers:
            squares_of(problem, state.measured, state.labels, block, first)

    def _mean_norm(self, problem: Problem, state: SmoState) -> float:
        """The mean length of a row in the space of the kernel, about."""
        mass, _, squares, _ = state.measured.moments.tolist()
        kernel = kernel_of(problem, state.measured)
        if not kernel.by_products:
            return math.sqrt(float(state.measured.largest[0]))
        mean = np.array([squares / mass]) if mass else np.zeros(1)
        return math.sqrt(max(0.0, float(kernel.of_products(mean.copy(), mean, mean)[0]))) if mass else 0.0

    def margin_sizes(self, problem: Problem, state: SmoState) -> MarginSizes:
        hidden = 2.0 * math.sqrt(blur(problem, state.measured, state.frozen.numbers.size))  # by rounding
        return margin_sizes(problem, self._mean_norm(problem, state), hidden)

    def look_work(self, problem: Problem) -> float:
        return 2.0 * min(LOOKED, problem.rows)

    # certificates

    def begin_certificate(self, problem: Problem, state: SmoState, active: np.ndarray) -> None:
        state.expansion = None
        self.frozen(problem, state)  # all leaves of a block have the same
        if not problem.resident or problem.hard:
            return
        if self.moved(state):
            state.travel[:] = math.inf  # scores belong to later steps
        for k in range(problem.count):
            form, f = form_of(problem, state.labels, k), state.scores[k]
            state.constants[k], worst = constant_of(form, problem.free, f, state.alpha[k])
            size = float(np.abs(f).max() + abs(state.constants[k]) + np.abs(form.t).max())
            state.spare[k] = CLEAR * self._wander(problem, state, k) + worst + 16.0 * EPS * size

    def moved(self, state: SmoState) -> bool:
        """Whether steps have moved the coefficients since they were frozen."""
        numbers, coef = state.frozen.numbers, state.frozen.coef
        return bool(np.count_nonzero(state.alpha) > np.count_nonzero(coef) or np.any(state.alpha[:, numbers] != coef))

    def _wander(self, problem: Problem, state: SmoState, k: int) -> float:
        """A bound on the error of scores that rounds have moved, by columns of float32 at the least."""
        return float(state.travel[k]) * blur(problem, state.measured, 8, SINGLE)

    def _clear(self, problem: Problem, state: SmoState, rows: slice) -> np.ndarray:
        """Which of these rows a certificate leaves out: they have no coefficient, and surely no loss."""
        labels = state.labels.of(rows)
        kernel = given(problem)
        bounded = not kernel.of_numbers and all(type(one).blur is not Kernel.blur for one in kernel.parts)
        found = np.full(rows.stop - rows.start, bounded and problem.resident and not problem.hard)
        for k in range(problem.count) if found.any() else ():
            slack = form_of(problem, labels, k).slack(state.scores[k, rows], float(state.constants[k]))
            found &= (state.alpha[k, rows] == 0.0) & (slack > state.spare[k])
        return found

    def frozen(self, problem: Problem, state: SmoState) -> Expansion:
        """The expansion to be certified, without constants."""
        if state.expansion is None:
            state.expansion = self._expansion(problem, state, state.frozen)
        return state.expansion

    def certify_block(self, problem: Problem, state: SmoState, block: Block, first: int) -> None:
        rows = slice(first, first + block.rows())
        self.decide(problem, state, block, first, np.flatnonzero(~self._clear(problem, state, rows)))

    def decide(self, problem: Problem, state: SmoState, block: Block, first: int, rows: np.ndarray) -> None:
        """The scores of these rows of a block, by the frozen expansion."""
        expansion = self.frozen(problem, state)
        for low in range(0, rows.size, SCORED_ROWS):
            some = rows[low : low + SCORED_ROWS]
            whole = some[-1] + 1 - some[0] == some.size
            own = alone(part(block, some[0], some[-1] + 1)) if whole else taken(block, some)
            there = state.labels.present(first + some)
            state.scores[:, first + some] = np.where(there, expansion.decide(own._replace(bias=0.0)).T, 0.0)

    def end_certificate(self, problem: Problem, state: SmoState) -> tuple[list[Figures], np.ndarray]:
        self.judge(problem, state)
        return best_figures(problem, state.best), state.wrong.copy()

    def judge(self, problem: Problem, state: SmoState) -> None:
        """Exact figures of the frozen expansion, once the scores of all rows are known."""
        frozen, count = state.frozen, problem.count
        if not np.isfinite(state.scores).all():
            raise DataError(
                f"the kernel {kernel_of(problem, state.measured)} has a value that is not finite; use `scale=std`"
            )
        if state.indefinite and not state.known:
            state.known = True
            state.best = new(Best, problem)  # nothing bounds the objective, and weights of 0 may have the least
            say_indefinite(kernel_of(problem, state.measured))
        unit, found = blur(problem, state.measured, frozen.numbers.size), []
        coef, clear = frozen.coef.copy(), self._clear(problem, state, slice(0, problem.rows))
        for k in range(count):
            b = np.zeros(problem.rows)
            b[frozen.numbers] = frozen.coef[k]
            off = unit * math.fsum(np.abs(frozen.coef[k]))
            form, f = form_of(problem, state.labels, k), state.scores[k]
            if problem.hard:
                longest = math.sqrt(largest_value(problem, state.measured))
                one = exact_margin(form, problem.free, f, b, off, longest)
                none = one.candidate.lower <= 0.0 and self._inseparable(problem, state, k)
                found.append(one._replace(upper=0.0) if none else one)
            else:
                left = Left(form.at(clear), f[clear], self._wander(problem, state, k), float(state.constants[k]))
                own = form.at(~clear), problem.loss, problem.free, f[~clear], b[~clear]
                found.append(exact(*own, off, AIMED_TOL_SHARE * problem.tol, left))
            coef[k] *= found[k].scale
        dual, upper = np.array([[one.dual, one.upper] for one in found]).T
        if problem.hard:
            dual = np.array([problem.objective.dual(one) for one in upper.tolist()])
        if not state.indefinite:
            keep_bounds(state.best, dual, upper)
        better = keep_better(problem, state.best, [one.candidate for one in found])
        constants = np.array([one.constant for one in found])
        now = Found(numbers=frozen.numbers, coef=coef, constants=constants)
        set_found(state.best_point, *merged(state.best_point, now, better))
        missed = np.array([one.gap > problem.tol for one in found])
        # rounding alone is above the tolerance, and steps have little left to do
        state.hidden = np.array([one.hidden > problem.tol and AIMED_TOL_SHARE * one.gap <= one.hidden for one in found])
        state.goal = np.where(missed, np.maximum(TIGHTER * state.goal, SMALLEST_GOAL), state.goal)
        self._count_wrong(problem, state, found)

    def _inseparable(self, problem: Problem, state: SmoState, k: int) -> bool:
        """Whether a row of length 0, or support rows of line k, prove that it has no margin."""
        if of_length_zero(problem, state.measured):
            return True
        own = self.frozen(problem, state)
        return inseparable(own.kernel, own.rows, np.sign(own.coef[k]).astype(int))

    def _count_wrong(self, problem: Problem, state: SmoState, found: list[ExactLine]) -> None:
        """Rows whose largest score is of a wrong class, for each value of C."""
        state.wrong[:] = 0
        if not problem.compared:
            return
        labels = labels_of(problem, state)
        for trial in range(problem.trials):
            lines = range(trial * problem.per_trial, (trial + 1) * problem.per_trial)
            scores = np.stack([found[k].scale * state.scores[k] + found[k].constant for k in lines])
            state.wrong[trial] = labels.confused_of(lines.start, scores)

    # the pass that early stopping keeps

    def _latest(self, problem: Problem, state: SmoState) -> Found:
        """The frozen expansion, with the constants that are best for the rows in memory."""
        frozen, labels = state.frozen, state.labels
        rows = np.arange(problem.rows) if problem.resident else np.sort(state.rows.ids_of(WORKING))
        coef, constants = frozen.coef.copy(), np.zeros(problem.count)
        for k in range(problem.count):
            form, f, b = form_of(problem, labels, k).at(rows), state.scores[k, rows], state.alpha[k, rows]
            if problem.hard:
                found = exact_margin(form, problem.free, f, b, 0.0, 0.0)
            else:
                left = Left(form.at(rows[:0]), f[:0], 0.0, 0.0)
                found = exact(form, problem.loss, problem.free, f, b, 0.0, math.inf, left)
            coef[k], constants[k] = found.scale * coef[k], found.constant
        return Found(numbers=frozen.numbers, coef=coef, constants=constants)

    def latest(self, problem: Problem, state: SmoState) -> Point:
        return self._expansion(problem, state, self._latest(problem, state))

    def keep_pass(self, problem: Problem, state: SmoState, kept: BestKept, trials: list[int]) -> None:
        keep(problem, state.kept_point, self._latest(problem, state), trials)

    def last_read(self, problem: Problem, state: SmoState) -> Visit:
        found = state.kept_point
        unit = 2.0 * blur(problem, state.measured, found.numbers.size)
        return last_read(problem, found, self._expansion(problem, state, found), unit, state.best)

    def point(
        self, problem: Problem, state: SmoState, column: float, proven: bool, kept: BestKept | None = None
    ) -> Point:
        best = state.best_point if state.best.known else state.frozen
        return self._expansion(problem, state, best if kept is None else state.kept_point)

    def _expansion(self, problem: Problem, state: SmoState, found: Found) -> Expansion:
        kernel = kernel_of(problem, state.measured)
        rows = rows_of(state, kernel, found.numbers) if found.numbers.size else None
        return expansion_of(problem, kernel, found, rows)
