"""Held-out rows counted by their scores, of which `streammargin/model/calibration.py` makes probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streammargin.driver.outcome import Outcome
from streammargin.driver.path import RunPath
from streammargin.driver.validate import Errors, scored
from streammargin.points.base import Point, exact
from streammargin.rows.blocks import Block
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import Axis, Shared, Sum, f8, i8, of, state
from streammargin.solvers.state import Visited

BINS = 4096  # of the scores of a class, half of them below its centre
EACH, LEAST = 64, -16  # bins of each doubling of the distance from it, between 2^LEAST and 2^-LEAST units
FLAT, DIGITS = 1e-100, 16  # the smallest unit; binary digits of a centre


def bins_of(scores: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The bin of each score (m, K); scale (K, 2): centres and units.

    The distance from the centre is known to 1 part in 64. So no range need be known, and rows far away do no harm.
    """
    far = (scores - scale[:, 0]) / scale[:, 1]
    part, power = np.frexp(np.clip(np.abs(far), 2.0**LEAST, np.nextafter(2.0**-LEAST, 0.0)))
    place = EACH * (power - 1 - LEAST) + ((2.0 * part - 1.0) * EACH).astype(np.intp)  # without rounding
    return np.where(far < 0.0, BINS // 2 - 1 - place, BINS // 2 + place)


def middles(scale: np.ndarray) -> np.ndarray:
    """The scores (K, BINS) in the middle of the bins, ascending."""
    power, place = np.divmod(np.arange(BINS // 2), EACH)
    size = np.ldexp(1.0 + (place + 0.5) / EACH, power + LEAST)
    return scale[:, :1] + scale[:, 1:] * np.concatenate([-size[::-1], size])


LINES = Axis(lambda problem: problem.per_trial, name="lines")


@state
class Counted(Visited):
    """counts (lines of a trial, 2, BINS): rows of other classes than that of the line, and of it, by their score.

    scale (lines, 2): the centre of the scores, and their unit.
    """

    scale: Shared[f8] = of(LINES, 2)
    counts: Sum[i8] = of(LINES, 2, BINS)


def judged(problem: Problem, outcome: Outcome) -> list[int]:
    """The trials at the best C that held-out rows are scored by: one, or that without each fold."""
    tried, best = problem.tried, outcome.best(problem)
    return [best] if tried is None else [k * tried.values + best % tried.values for k in range(tried.folds)]


@dataclass(frozen=True)
class Calibrating:
    """Counts the held-out rows at the best value of C: each row in a fold by the training without that fold.

    path: the one over C, whose best value is known at its end.
    """

    path: RunPath | None = None

    def wanted(self, outcome: Outcome) -> bool:
        """Whether this outcome ends the training, and its best C is known."""
        return outcome.valid_errors is not None and not (self.path is not None and self.path.goes_on(outcome))

    def points(self, problem: Problem, outcome: Outcome) -> list[Point]:
        """The points that score held-out rows: one, or that of each fold."""
        shown = outcome if self.path is None else self.path.chosen(outcome)
        return [shown.point_of(problem, trial) for trial in judged(problem, shown)]

    def scale(self, problem: Problem, outcome: Outcome, errors: Errors) -> np.ndarray:
        """The mean of the scores of each line, and about their mean size, a power of 2, from the last held-out read."""
        moments = errors.moments.reshape(problem.trials, -1, 3)[judged(problem, outcome)].sum(axis=0)
        means = moments[:, 1:] / np.maximum(moments[:, :1], 1.0)
        units = np.ldexp(1.0, np.frexp(np.clip(means[:, 1], FLAT, 1.0 / FLAT))[1])
        steps = np.round(np.clip(means[:, 0] / units, -1.0, 1.0) * 2.0**DIGITS)  # that rounding of sums leaves alone
        return np.stack([steps * units * 2.0**-DIGITS, units], axis=1)

    @staticmethod
    def add(problem: Problem, sums: Counted, points: list[Point], block: Block, first: int) -> None:
        """Count the rows of a block; first: number of its first row. Rows count once each, whatever their weights."""
        lines, parts = problem.per_trial, problem.outputs.parts
        for fold, point in enumerate(points):
            for low, scores in scored(exact(point), block, problem.workers):
                labels = sums.labels.cut(first + low, first + low + len(scores))
                here = labels.present(slice(0, len(scores)))
                if problem.tried is not None:
                    here &= parts.fold_of(labels.codes) == fold
                own = parts.class_of(labels.codes)[here, None] == problem.outputs.positive[:lines]
                at = np.arange(lines), own.astype(np.intp), bins_of(scores[here], sums.scale)
                np.add.at(sums.counts, at, 1)
