"""Held-out errors, and what is predicted at all, streamed."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from streammargin.answers.base import Answer
from streammargin.data.base import Source
from streammargin.driver.plan import least_budget, make_plan
from streammargin.driver.prefetch import BlockReader
from streammargin.kernels.predict import total_loss

PIECE = 1 << 12  # rows that are scored together


def predicted(reader: BlockReader, answer: Answer, codes: np.ndarray) -> np.ndarray:
    """Which classes are the answer to any row: (k,) bool for k outputs, (2,) for one.

    codes (n,): the rows that count are those of 0 and above. Ends when every class was seen.
    """
    seen = np.zeros(max(2, answer.outputs), bool)
    with contextlib.closing(reader.stream(np.arange(len(reader.bounds) - 1))) as blocks:  # type: ignore[type-var]
        for start, stop, block in blocks:
            for low in range(0, stop - start, PIECE):
                scores = np.empty((min(PIECE, stop - start - low), answer.outputs))
                answer.score(block, low, scores)
                best = np.argmax(scores, axis=1) if answer.outputs > 1 else (scores[:, 0] > 0.0).astype(np.intp)
                first = start + low
                seen[best[codes[first : first + len(best)] >= 0]] = True
                if seen.all():
                    return seen
    return seen


class Validator(ABC):
    """Errors of an answer on a held-out source, one for each value of C: the smaller the better.

    Blocks are planned for `budget` bytes, or as few as can be; memory_bytes is what it comes to, the scores and the
    `known` bytes of the labels included.
    """

    codes: np.ndarray  # (n,) int16: class of each row, -1: not counted
    targets: np.ndarray = np.empty(0)  # (n,) of numbers

    def __init__(self, source: Source, outputs: int, known: int, budget: int) -> None:
        self.source = source
        plan = make_plan(source, max(budget, least_budget(source)), 0)
        self.reader = BlockReader(source, plan.bounds, plan.buffers, plan.resident)
        self.seen: np.ndarray | None = None  # (trials, k): outputs that were the largest, or not
        scores = 8 * plan.block_rows * outputs
        self.memory_bytes = known + 2 * scores + (plan.memory_bytes if plan.buffers else 0)

    @abstractmethod
    def errors(self, answer: Answer) -> np.ndarray:
        """The error (trials,) of each value of C."""

    def _scored(self, answer: Answer) -> Iterator[tuple[slice, np.ndarray]]:
        """Rows and their scores (m, K), block by block."""
        for start, stop, block in self.reader.stream(np.arange(len(self.reader.bounds) - 1)):
            scores = np.empty((stop - start, answer.outputs))
            answer.score(block, 0, scores)
            yield slice(start, stop), scores


class ClassValidator(Validator):
    """The share of wrong rows. positive (K,): the class of sign +1."""

    def __init__(self, source: Source, codes: np.ndarray, positive: np.ndarray, trials: int, budget: int) -> None:
        super().__init__(source, len(positive), codes.nbytes, budget)
        self.codes, self.positive, self.trials = codes, positive, trials

    def errors(self, answer: Answer) -> np.ndarray:
        per_trial = answer.outputs // self.trials
        wrong = np.zeros(self.trials)
        self.seen = np.zeros((self.trials, max(2, per_trial)), bool)
        for rows, scores in self._scored(answer):
            codes = self.codes[rows]
            for trial in range(self.trials):
                mine = slice(trial * per_trial, (trial + 1) * per_trial)
                if per_trial == 1:
                    best = (scores[:, trial] > 0.0).astype(np.intp)
                    bad = best != (codes == self.positive[trial])
                else:
                    best = np.argmax(scores[:, mine], axis=1)
                    bad = self.positive[mine][best] != codes
                self.seen[trial, best[codes >= 0]] = True
                wrong[trial] += np.count_nonzero(bad & (codes >= 0))
        return wrong / max(1, int(np.count_nonzero(self.codes >= 0)))


class NumberValidator(Validator):
    """The mean loss of numbers (n,)."""

    def __init__(self, source: Source, targets: np.ndarray, loss: Any, trials: int, budget: int) -> None:
        super().__init__(source, trials, targets.nbytes, budget)
        self.codes, self.targets, self.loss = np.zeros(len(targets), np.int16), targets, loss

    def errors(self, answer: Answer) -> np.ndarray:
        total = np.zeros(answer.outputs)
        for rows, scores in self._scored(answer):
            residuals = scores - self.targets[rows, None]
            total += [total_loss(self.loss, residuals[:, k : k + 1].copy()) for k in range(answer.outputs)]
        return total / len(self.targets)
