"""Held-out errors, and what is predicted at all, streamed."""

from __future__ import annotations

import contextlib

import numpy as np

from streammargin.answers.base import Answer
from streammargin.data.base import Source
from streammargin.driver.plan import least_budget, make_plan
from streammargin.driver.prefetch import BlockReader

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


class Validator:
    """Classification error of an answer of K outputs on a held-out source.

    codes (n,) int16: class of each row, -1: not counted. positive (K,): the class of sign +1. Blocks are
    planned for `budget` bytes, or as few as can be; memory_bytes is what it comes to.
    """

    def __init__(self, source: Source, codes: np.ndarray, positive: np.ndarray, trials: int, budget: int) -> None:
        self.source, self.codes = source, codes
        self.positive, self.trials = positive, trials
        plan = make_plan(source, max(budget, least_budget(source)), 0)
        self.reader = BlockReader(source, plan.bounds, plan.buffers, plan.resident)
        self.seen: np.ndarray | None = None
        scores = 8 * plan.block_rows * len(positive)
        self.memory_bytes = codes.nbytes + 2 * scores + (plan.memory_bytes if plan.buffers else 0)

    def errors(self, answer: Answer) -> np.ndarray:
        """Share of wrong rows for each value of C; which outputs were the largest, or not, is in `seen` afterwards."""
        per_trial = answer.outputs // self.trials
        wrong = np.zeros(self.trials)
        self.seen = np.zeros((self.trials, max(2, per_trial)), bool)
        for start, stop, block in self.reader.stream(np.arange(len(self.reader.bounds) - 1)):
            scores = np.empty((stop - start, answer.outputs))
            answer.score(block, 0, scores)
            codes = self.codes[start:stop]
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
