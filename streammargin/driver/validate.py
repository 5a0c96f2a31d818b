"""Held-out errors, and the set of predicted classes, summed block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from streammargin.compiled.predict import total_loss
from streammargin.driver.outcome import Outcome
from streammargin.driver.path import Path
from streammargin.driver.plan import Plan, least_budget, make_plan
from streammargin.driver.prefetch import BlockReader
from streammargin.driver.setup import class_mass
from streammargin.points.base import Point, answered
from streammargin.rows.blocks import Block
from streammargin.rows.labels import RowLabels
from streammargin.solvers.problem import Problem
from streammargin.sources.base import Source


def plan_to_score(source: Source, outputs: int, budget: int = 0) -> tuple[Plan, int]:
    """The plan of held-out rows for `budget` bytes, or the minimum where that is more; its bytes, with the scores."""
    plan = make_plan(source, max(budget, least_budget(source)), 0)
    return plan, 2 * 8 * plan.block_rows * outputs + (plan.memory_bytes if plan.buffers else 0)


class Validator(ABC):
    """Errors of a point on a held-out source, one for each value of C: the smaller the better.

    Blocks are planned for `budget` bytes, or the minimum where that is more. memory_bytes: bytes of the plan, the
    scores and the labels (known). sums: the running sums over blocks.
    """

    codes: np.ndarray  # (n,) int16: class of each row, -1: not counted
    targets: np.ndarray = np.empty(0)  # (n,) of numbers
    sums: dict[str, np.ndarray]

    def __init__(self, source: Source, outputs: int, known: int, budget: int) -> None:
        self.source = source
        plan, size = plan_to_score(source, outputs, budget)
        self.reader = BlockReader(source, plan.bounds, plan.buffers, plan.resident)
        self.memory_bytes = known + size

    def begin(self) -> None:
        """Set the sums to 0."""
        for total in self.sums.values():
            total[:] = 0

    def add(self, point: Point, first: int, block: Block) -> None:
        """Add one block, in any order; first: number of its first row."""
        scores = np.empty((block.rows(), point.outputs))
        point.score(block, 0, scores)
        self._judge(slice(first, first + block.rows()), scores)

    @abstractmethod
    def _judge(self, rows: slice, scores: np.ndarray) -> None:
        """Add these rows, with scores (m, outputs), to the sums."""

    @abstractmethod
    def errors(self) -> np.ndarray:
        """The error (trials,) at each value of C, once all blocks are added."""


class ClassValidator(Validator):
    """The share of misclassified rows, `wrong` (trials,); positive (K,): the class of sign +1.

    seen (trials, classes): the classes predicted for at least one row.
    """

    def __init__(self, source: Source, codes: np.ndarray, positive: np.ndarray, trials: int, budget: int) -> None:
        super().__init__(source, len(positive), codes.nbytes, budget)
        self.codes, self.positive, self.trials = codes, positive, trials
        classes = max(2, len(positive) // trials)
        self.sums = {"wrong": np.zeros(trials), "seen": np.zeros((trials, classes), bool)}

    def _judge(self, rows: slice, scores: np.ndarray) -> None:
        codes, per_trial = self.codes[rows], len(self.positive) // self.trials
        for trial in range(self.trials):
            mine = slice(trial * per_trial, (trial + 1) * per_trial)
            best = answered(scores[:, mine])
            right = best == (codes == self.positive[trial]) if per_trial == 1 else self.positive[mine][best] == codes
            self.sums["seen"][trial, best[codes >= 0]] = True
            self.sums["wrong"][trial] += np.count_nonzero(~right & (codes >= 0))

    def errors(self) -> np.ndarray:
        return self.sums["wrong"] / max(1, int(np.count_nonzero(self.codes >= 0)))


class NumberValidator(Validator):
    """The mean loss on the targets (n,) of a regression."""

    def __init__(self, source: Source, targets: np.ndarray, loss: Any, trials: int, budget: int) -> None:
        super().__init__(source, trials, targets.nbytes, budget)
        self.codes, self.targets, self.loss = np.zeros(len(targets), np.int16), targets, loss
        self.sums = {"loss": np.zeros(trials)}

    def _judge(self, rows: slice, scores: np.ndarray) -> None:
        residuals = scores - self.targets[rows, None]
        for k in range(residuals.shape[1]):
            self.sums["loss"][k] += total_loss(self.loss, residuals[:, k : k + 1].copy())

    def errors(self) -> np.ndarray:
        return self.sums["loss"] / len(self.targets)


class Predictions:
    """Finds the classes that are predicted for at least one row.

    Rows: all, or the held-out ones where the others are not in memory. present (classes,): rows of each class. path:
    its best value of C makes the predictions.
    """

    def __init__(
        self,
        problem: Problem,
        labels: RowLabels,
        classes: int,
        rows: BlockReader,
        validator: Validator | None,
        path: Path | None = None,
    ) -> None:
        self.problem, self.validator, self.path = problem, validator, path
        self.present = class_mass(labels.codes, labels.weights, classes, rows=True)
        self.held_out = validator is not None and not problem.resident
        self.reader, self.codes = rows, labels.codes
        if self.held_out and validator is not None:
            self.reader, self.codes = validator.reader, validator.codes

    def check(self, predicted: np.ndarray) -> None:
        """ValueError where saved predictions have another number of classes."""
        if (predicted.dtype, predicted.shape) != (bool, self.present.shape):
            raise ValueError("its predictions have another number of classes")

    def wanted(self, outcome: Outcome) -> bool:
        """Whether this outcome ends the training, so that its predictions matter."""
        return self.path is None or not self.path.goes_on(outcome)

    def _shown(self, outcome: Outcome) -> Outcome:
        return outcome if self.path is None else self.path.chosen(outcome)

    def known(self, outcome: Outcome) -> np.ndarray | None:
        """The predicted classes (classes,) where no read is needed, else None.

        All are predicted where mistakes are fewer than the rows of each class. Else the last held-out errors tell.
        """
        shown = self._shown(outcome)
        mistakes = shown.mistakes(self.problem)
        if mistakes is not None and mistakes < self.present[self.present > 0].min():
            return np.ones(len(self.present), bool)
        judged = shown.valid_errors is not None and shown.figures is outcome.figures and shown.kept is None
        if self.held_out and self.validator is not None and judged:  # they describe these weights
            return self.validator.sums["seen"][shown.best(self.problem)].copy()
        return None

    def add(self, outcome: Outcome, seen: np.ndarray, first: int, block: Block) -> None:
        """Mark in `seen` (classes,) the classes predicted for the rows of a block."""
        point = self._shown(outcome).best_point(self.problem)
        scores = np.empty((block.rows(), point.outputs))
        point.score(block, 0, scores)
        seen[answered(scores)[self.codes[first : first + block.rows()] >= 0]] = True
