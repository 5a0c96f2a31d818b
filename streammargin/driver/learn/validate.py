"""Held-out errors and counts, how often classes are predicted, and a bias midway, summed block by block.

`streammargin/model/calibration.py` makes probabilities of the counts by score.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streammargin.compiled.predict import total_of_residuals
from streammargin.driver.status.outcome import Outcome
from streammargin.driver.status.path import RunPath
from streammargin.points.base import Answer, Point, answered, exact, score
from streammargin.points.tasks import own_scores
from streammargin.reading.labels import KeptLabels, LabelReader
from streammargin.reading.plan import Plan, least_budget, make_plan
from streammargin.reading.prefetch import BlockReader
from streammargin.rows.blocks import Block
from streammargin.rows.labels import RowLabels
from streammargin.solvers.problem import Problem
from streammargin.solvers.roles import EVERY_COLUMN, TRIALS, Axis, K, Shared, Sum, f8, i8, of, state
from streammargin.solvers.state import Visited, labels_for
from streammargin.sources.base import Source
from streammargin.workers import ALONE, Workers

SCORES_AT_ONCE = 1 << 16


def plan_to_score(source: Source, outputs: int, row_bytes: int, budget: int = 0) -> tuple[Plan, int]:
    """The plan of held-out rows for `budget` bytes, or the minimum if that is more; its bytes, with the scores.

    row_bytes: of a row's labels that are read with it.
    """
    least = least_budget(source, row_bytes=row_bytes)
    plan = make_plan(source, max(budget, least), 0, row_bytes=row_bytes)
    labels = 0 if plan.buffers > 1 else row_bytes * source.rows
    return plan, 2 * 8 * plan.block_rows * outputs + labels + (plan.memory_bytes if plan.buffers else 0)


def scored(point: Answer, block: Block, workers: Workers) -> Iterator[tuple[int, np.ndarray]]:
    """(the first row, scores (m, outputs)) of some rows of a block at a time: one in memory may hold all rows."""
    piece = max(1, SCORES_AT_ONCE // point.outputs)
    for low in range(0, block.rows(), piece):
        scores = np.empty((min(piece, block.rows() - low), point.outputs))
        score(point, block, low, scores, workers)
        yield low, scores


RARE = 0.1  # a class predicted for fewer rows, for each row of it, is predicted rarely

CLASS_AXIS = Axis(lambda problem: max(2, problem.per_trial), name="classes")


@state
class Errors(Visited):
    """amount: wrong rows or labels, or the sum of the losses; seen, rows: those predicted to be, and of, each class.

    moments (K, 3): of classes, the number of rows, and the sums of their scores and of the sizes of these.
    """

    amount: Sum[f8] = of(TRIALS)
    seen: Sum[i8] = of(TRIALS, CLASS_AXIS)
    rows: Sum[i8] = of(CLASS_AXIS)
    moments: Sum[f8] = of(K, 3)

    def measure(self, lines: slice, scores: np.ndarray) -> None:
        """Add rows with these scores (m, lines) to the moments."""
        sums = scores.sum(axis=0), np.abs(scores).sum(axis=0)
        self.moments[lines] += np.stack([np.full(scores.shape[1], len(scores)), *sums], axis=1)


@state
class Predicted(Visited):
    """seen, rows: those predicted to be, and of, each class."""

    seen: Sum[i8] = of(CLASS_AXIS)
    rows: Sum[i8] = of(CLASS_AXIS)


class Validator(ABC):
    """Errors of a point on a held-out source, one for each value of C: the smaller the better.

    Blocks are planned for `budget` bytes, or the minimum if that is more.

    `labels`        those of the held-out rows.
    `count`         how many may be wrong, by default all rows.
    `memory_bytes`  bytes of the plan, the scores and the labels.
    `late`          errors are found once, at the end, and not after each certificate.
    """

    late = False

    def __init__(
        self, source: Source, outputs: int, labels: LabelReader, budget: int, count: int | None = None
    ) -> None:  # fmt: skip
        self.source = source
        self.count: int = source.rows if count is None else count
        plan, size = plan_to_score(source, outputs, labels.row_bytes, budget)
        self.memory_bytes: int = labels.held_bytes + size
        self.labels: KeptLabels | LabelReader = labels.all() if plan.resident else labels
        self.reader: BlockReader = BlockReader(source, plan.bounds, plan.buffers, plan.resident, self.labels)

    def __getstate__(self) -> dict[str, Any]:
        """Without the rows: whoever has them adds them up."""
        return {name: value for name, value in vars(self).items() if name not in ("source", "labels", "reader")}

    def add(self, problem: Problem, sums: Errors, point: Point, block: Block, first: int) -> None:
        """Add one block, in any order; first: number of its first row."""
        labels, tasks = sums.labels.cut(first, first + block.rows()), problem.outputs.tasks
        scores = np.empty((block.rows(), problem.trials if tasks else point.outputs))
        if tasks:
            own_scores(point, block, problem.outputs.tasks_of(labels.codes), tasks, scores)
        else:
            score(exact(point), block, 0, scores, problem.workers)
        self._judge(sums, labels, scores)

    @abstractmethod
    def _judge(self, sums: Errors, labels: RowLabels, scores: np.ndarray) -> None:
        """Add rows with these labels and scores (m, outputs) to the sums."""

    def errors(self, sums: Errors) -> np.ndarray:
        """The error (trials,) at each value of C, once all blocks are added."""
        return sums.amount / max(1, self.count)


class ClassValidator(Validator):
    """The share of misclassified rows; positive (K,): the class of sign +1; counted: the rows that count."""

    def __init__(
        self, source: Source, labels: LabelReader, counted: int, positive: np.ndarray, trials: int, budget: int
    ) -> None:
        super().__init__(source, len(positive), labels, budget, counted)
        self.positive: np.ndarray = positive
        self.trials: int = trials

    def _judge(self, sums: Errors, labels: RowLabels, scores: np.ndarray) -> None:
        codes, per_trial = labels.codes, len(self.positive) // self.trials
        sums.rows += np.bincount(codes[codes >= 0], minlength=sums.rows.size)
        sums.measure(slice(None), scores[codes >= 0])
        for trial in range(self.trials):
            mine = slice(trial * per_trial, (trial + 1) * per_trial)
            best = answered(scores[:, mine])
            right = best == (codes == self.positive[trial]) if per_trial == 1 else self.positive[mine][best] == codes
            sums.seen[trial] += np.bincount(best[codes >= 0], minlength=sums.seen.shape[1])
            sums.amount[trial] += np.count_nonzero(~right & (codes >= 0))


class TaskValidator(ClassValidator):
    """The share of misclassified rows of several tasks, whose codes are those of task and class."""

    def _judge(self, sums: Errors, labels: RowLabels, scores: np.ndarray) -> None:
        super()._judge(sums, replace(labels, codes=np.where(labels.codes >= 0, labels.codes % 2, -1)), scores)


class LabelsValidator(Validator):
    """The share of wrong labels, of several of each row that are 0 or 1."""

    def __init__(self, source: Source, labels: LabelReader, trials: int, budget: int) -> None:
        super().__init__(source, trials * labels.outputs, labels, budget, source.rows * labels.outputs)
        self.outputs = labels.outputs

    def _judge(self, sums: Errors, labels: RowLabels, scores: np.ndarray) -> None:
        shaped = scores.reshape(len(scores), -1, self.outputs)
        sums.amount += np.count_nonzero((shaped > 0.0) != (labels.codes == 1)[:, None], axis=(0, 2))


class NumberValidator(Validator):
    """The mean loss on the targets of a regression, summed over the outputs of a row."""

    def __init__(self, source: Source, labels: LabelReader, loss: Any, trials: int, budget: int) -> None:
        super().__init__(source, trials * labels.outputs, labels, budget)
        self.loss = loss

    def _judge(self, sums: Errors, labels: RowLabels, scores: np.ndarray) -> None:
        targets = labels.targets.reshape(len(scores), -1)
        each = targets.shape[1]
        for trial in range(scores.shape[1] // each):
            residuals = scores[:, trial * each : (trial + 1) * each] - targets
            sums.amount[trial] += total_of_residuals(self.loss, residuals)


def _often(seen: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Predictions (classes,) of each class for each row of it, 1 for a class that has no rows but is predicted."""
    return np.where(rows > 0, seen, seen > 0) / np.maximum(rows, 1)


@dataclass
class Predictions:
    """Finds how often each class is predicted for each row of it, at least: 0 if it is predicted for no row.

    Rows: all, or the held-out ones if the others are not in memory.

    `present`  (classes,): rows of each class.
    `path`     its best value of C makes the predictions.
    """

    problem: Problem
    present: np.ndarray
    reader: BlockReader
    validator: Validator | None
    path: RunPath | None = None
    held_out: bool = False

    def __post_init__(self) -> None:
        if self.validator is not None and not (self.problem.resident or self.validator.late):
            self.held_out, self.reader = True, self.validator.reader

    def __getstate__(self) -> dict[str, Any]:
        """What `add` needs: whoever adds rows up has them."""
        return {"present": self.present, "held_out": self.held_out}

    def check(self, predicted: np.ndarray) -> None:
        """ValueError if saved predictions have another number of classes."""
        if (predicted.dtype, predicted.shape) != (np.float64, self.present.shape):
            raise ValueError("its predictions have another number of classes")

    def wanted(self, outcome: Outcome) -> bool:
        """Whether this outcome ends the training, so that its predictions matter."""
        return self.path is None or not self.path.goes_on(outcome)

    def _shown(self, outcome: Outcome) -> Outcome:
        return outcome if self.path is None else self.path.chosen(outcome)

    def known(self, outcome: Outcome, errors: Errors | None) -> np.ndarray | None:
        """How often each class is predicted, if no read is needed, else None; errors: the last held-out ones.

        None is rare if few rows of each class can be mistakes. Else the held-out errors tell.
        """
        shown = self._shown(outcome)
        mistakes, best = shown.most_mistakes(self.problem), shown.best(self.problem)
        if mistakes is not None:
            out = self.present.sum() - self.problem.rows_of(best)  # rows of a share that is left out
            mistakes += out * (1.0 if shown.valid_errors is None else shown.valid_errors[best])
            least = _often(np.maximum(self.present - mistakes, 0.0), self.present)
            if not self._any_rare(least):
                return least
        judged = shown.valid_errors is not None and shown.figures is outcome.figures and shown.kept is None
        if self.held_out and errors is not None and judged:  # they describe these weights
            return _often(errors.seen[best], errors.rows)
        return None

    def enough(self, sums: Predicted) -> bool:
        """Whether no class is rare, whatever the rows that are left."""
        return not self.held_out and not self._any_rare(self.often(sums))

    def often(self, sums: Predicted) -> np.ndarray:
        """How often each class is predicted, by these rows."""
        return _often(sums.seen, sums.rows if self.held_out else self.present)

    def _any_rare(self, often: np.ndarray) -> bool:
        return bool((often[self.present > 0] < RARE).any())

    def point(self, outcome: Outcome) -> Point:
        """The points that predict."""
        return self._shown(outcome).best_point(self.problem)

    def add(self, problem: Problem, sums: Predicted, point: Point, block: Block, first: int) -> None:
        """Count the rows of a block for which each class is predicted, as long as one may be rare."""
        for low, scores in scored(point, block, problem.workers):
            if self.enough(sums):  # a block may hold all rows
                break
            codes = problem.outputs.parts.class_of(sums.labels.cut(first + low, first + low + len(scores)).codes)
            sums.rows += np.bincount(codes[codes >= 0], minlength=sums.rows.size)
            sums.seen += np.bincount(answered(scores)[codes >= 0], minlength=sums.seen.size)


@state
class Midway(Visited):
    """Finds b such that the hyperplanes x.w + b = 0 lie midway between the classes (homotopic paper, eq. (15)).

    Rows are added in chunks, in any order. For the maximum-margin separator (w*, b*), |b - b*| <= max ||x_i|| ||w -
    w*||. If w separates the rows with b = 0, the smallest y (x.w + b) is at least the smallest y x.w.
    lowest, highest (K,): the smallest score of a row with y = +1, and the largest of one with y = -1.
    wrong (trials,): rows whose largest score is that of another class; of one line it means nothing.
    """

    lowest: Sum[f8] = of(K, fill=math.inf, smallest=EVERY_COLUMN)
    highest: Sum[f8] = of(K, fill=-math.inf, largest=EVERY_COLUMN)
    wrong: Sum[i8] = of(TRIALS)

    def add(self, scores: np.ndarray, positive: np.ndarray) -> None:
        """Add rows with the scores (m, K); positive (m, K) bool: whether y = +1."""
        self.wrong += np.count_nonzero(~positive[np.arange(len(scores)), scores.argmax(axis=1)])
        np.minimum(self.lowest, scores.min(axis=0, where=positive, initial=np.inf), out=self.lowest)
        np.maximum(self.highest, scores.max(axis=0, where=~positive, initial=-np.inf), out=self.highest)

    @staticmethod
    def add_block(problem: Problem, sums: Midway, point: Point, block: Block, first: int) -> None:
        """Add the present rows of a block; first: number of its first row."""
        for low, scores in scored(point, block, ALONE):
            rows = slice(first + low, first + low + len(scores))
            present = sums.labels.present(rows)
            sums.add(scores[present], labels_for(sums.labels.of(rows), problem.outputs).own_of_lines()[present])

    def bias(self) -> np.ndarray:
        """b (K,); 0 for a problem that no b separates, or whose rows all have one sign."""
        known = np.isfinite(self.lowest) & np.isfinite(self.highest) & (self.lowest > self.highest)
        return np.where(known, -0.5 * np.where(known, self.lowest, 0.0) - 0.5 * np.where(known, self.highest, 0.0), 0.0)


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
