"""Exact figures of an expansion: the primal at the best scale and constant, and the dual of its coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from streammargin.compiled import smo
from streammargin.solvers.expansion.form import Form
from streammargin.solvers.expansion.rounds import LARGEST, constant_of
from streammargin.solvers.proof.objectives.base import Candidate
from streammargin.solvers.proof.rounding import EPS, TERM

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
SCALES, CONSTANTS = 24, 40  # steps of the search for a scale, and for a constant
LEAST, MOST = 0.5, 1.5  # scales


class Exact(NamedTuple):
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
) -> Exact:
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
        _, scale = golden(lambda one: best_constant(one)[0], LEAST, MOST, SCALES)
        other, at_other = best_constant(scale)
        primal, constant, scale = (other, at_other, scale) if other < primal else (primal, constant, 1.0)
    if not left.clear(scale, constant):
        scale, constant = 1.0, left.constant
    found = judged(scale, constant)
    hidden = error / max(abs(found.primal), abs(dual), 1e-300)  # steps may lessen the rounding of losses
    return Exact(found, dual, scale, constant, hidden=hidden)


def exact_margin(form: Form, free: bool, f: np.ndarray, b: np.ndarray, blur: float, largest: float) -> Exact:
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
    scale = 1.0 / slack if slack > 0.0 else min(size, LARGEST)
    found = Exact(Candidate(math.inf, lower, missed, 0.0), -math.inf, scale / size, scale * constant, upper)
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
