"""Folds of rows: the fold of each row, what each trial is trained without, and the errors of what it was not."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from streammargin.compiled.predict import total_of_residuals
from streammargin.driver.labels import LabelReader
from streammargin.driver.validate import SCORES, Errors, Validator, scored
from streammargin.points.base import Point, answered, exact
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Parts, RowLabels
from streammargin.solvers.newton.near_margin import hashed
from streammargin.solvers.problem import Problem, Tried
from streammargin.sources.base import Slices


@dataclass(frozen=True)
class Dealt:
    """The fold of each of n rows, int16: each `count` rows in turn are dealt to the folds in an order that is drawn.

    So a file that is sorted by class has about the same share of each class in every fold.
    """

    rows: int
    count: int
    seed: int

    def __getitem__(self, rows: slice) -> np.ndarray:
        first, stop = rows.start // self.count, -(-rows.stop // self.count)
        cards = np.arange(first * self.count, stop * self.count, dtype=np.uint64).reshape(-1, self.count)
        folds = hashed(cards, self.seed, 0).argsort(axis=1).ravel()
        return folds[rows.start - first * self.count : rows.stop - first * self.count].astype(np.int16)

    def __len__(self) -> int:
        return self.rows


@dataclass(frozen=True)
class Stretches:
    """The fold of each of n rows: the first of `count` stretches has the fold `first`, later ones those after it.

    last: what stands for a fold below 0.
    """

    rows: int
    count: int
    first: int = 0
    last: int = 0

    def __getitem__(self, rows: slice) -> np.ndarray:
        found = np.arange(rows.start, rows.stop) * self.count // self.rows + self.first
        return np.where(found < 0, self.last, found).astype(np.int16)

    def __len__(self) -> int:
        return self.rows


@dataclass(frozen=True)
class Grouped:
    """The fold of each row, by the value of a column: by the rank of its digest among `known` ones, else by the digest.

    known: digests of all values, sorted, if these are few; then each fold has as many values as another.
    """

    count: int
    seed: int
    known: np.ndarray

    def __call__(self, values: np.ndarray) -> np.ndarray:
        distinct, inverse = np.unique(values.astype(str) if values.dtype.kind == "O" else values, return_inverse=True)
        digests = digests_of(distinct, self.seed)
        ranks = np.searchsorted(self.known, digests) if self.known.size else digests
        return (ranks % np.array(self.count, ranks.dtype)).astype(np.int16)[inverse]


def digests_of(values: np.ndarray, seed: int) -> np.ndarray:
    """A number (m,) uint64 for each value; numbers that are equal have the same one."""
    key = str(seed).encode()[:64]
    told = [float(value) if isinstance(value, (int, float)) else value for value in values.tolist()]
    parts = [hashlib.blake2b(repr(one).encode(), digest_size=8, key=key).digest() for one in told]
    return np.frombuffer(b"".join(parts), np.uint64)


@dataclass(frozen=True)
class OfFolds:
    """The codes (n,) int16 of rows in folds, class + (fold << shift); those of absent rows and new labels stay."""

    codes: Slices
    folds: Slices
    shift: int

    def __getitem__(self, rows: slice) -> np.ndarray:
        folds = self.folds[rows].astype(np.int16) << np.int16(self.shift)
        if not len(self.codes):
            return folds
        codes = self.codes[rows]
        return np.where(codes < 0, codes, codes | folds).astype(np.int16)

    def __len__(self) -> int:
        return len(self.folds)


@dataclass(frozen=True)
class Division:
    """Rows in `count` folds. Each trial is trained without one of them, and judged on it; the last one on all rows.

    past: a trial is trained without the later folds, too. whole: whether the trial of all rows follows. shift: of the
    codes. mass, rows (count + 1, classes): the weights and the number of rows of each fold, and last of rows that are
    never left out. by: the column of groups, for messages.
    """

    count: int
    shift: int
    mass: np.ndarray
    rows: np.ndarray
    past: bool = False
    whole: bool = True
    rule: str = "best"
    by: str = ""

    @cached_property
    def spans(self) -> np.ndarray:
        """The folds (trials, 2) that each trial is trained without: the first, and the one after the last."""
        first = np.arange(self.count if self.whole else 1)
        left = np.stack([first, np.full(first.size, self.count) if self.past else first + 1], axis=1)
        return np.concatenate([left, [[-1, -1]]]) if self.whole else left

    def trained(self, each: np.ndarray) -> np.ndarray:
        """The sums (trials, classes) over the rows of each trial, from those (count + 1, classes) of the folds."""
        return np.stack([each.sum(axis=0) - each[max(low, 0) : max(high, 0)].sum(axis=0) for low, high in self.spans])

    def parts(self, lines: int) -> Parts:
        """How codes are read by so many lines of each trial."""
        return Parts((1 << self.shift) - 1, self.shift, np.repeat(self.spans, lines, axis=0).astype(np.int64))

    def tried(self, values: int) -> Tried:
        """The trials of so many values of C."""
        rows = self.trained(self.rows).sum(axis=1)
        return Tried(values, len(self.spans) - self.whole, self.whole, rows, self.rule)


class FoldValidator(Validator):
    """Errors of each trial on the fold that it was trained without; of a trial of all rows the mean of the folds.

    Rows count once each, whatever their weights. The rows are those of the training, and are read with its reader,
    which is set before the training begins. sizes (count,): the rows of each fold.
    """

    late = True

    def __init__(self, labels: LabelReader, problem: Problem, division: Division) -> None:
        assert problem.tried is not None
        self.labels: Any = labels
        self.tried, self.numeric, self.loss = problem.tried, problem.numeric, problem.loss
        self.sizes: np.ndarray = division.rows.sum(axis=1)[: self.tried.folds]
        self.memory_bytes: int = 3 * 8 * max(SCORES, problem.count)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("labels", "reader")}

    def add(self, problem: Problem, sums: Errors, point: Point, block: Block, first: int) -> None:
        for low, scores in scored(exact(point), block, problem.workers):
            self._add(problem, sums, sums.labels.cut(first + low, first + low + len(scores)), scores)

    def _add(self, problem: Problem, sums: Errors, labels: RowLabels, scores: np.ndarray) -> None:
        parts, present = problem.outputs.parts, labels.present(slice(0, len(scores)))
        folds, classes = parts.fold_of(labels.codes), parts.class_of(labels.codes)
        each, values = problem.per_trial, self.tried.values
        for fold in np.unique(folds[present]).tolist():
            here = np.flatnonzero(present & (folds == fold))
            for trial in range(fold * values, (fold + 1) * values if fold < self.tried.folds else 0):
                lines = slice(trial * each, (trial + 1) * each)
                found = scores[here, lines]
                if self.numeric:
                    sums.amount[trial] += total_of_residuals(self.loss, found - labels.targets[here, None])
                else:
                    positive = problem.outputs.positive[lines]
                    best, own = answered(found), classes[here]
                    right = best == (own == positive[0]) if each == 1 else positive[best] == own
                    sums.amount[trial] += np.count_nonzero(~right)

    def _judge(self, sums: Errors, labels: RowLabels, scores: np.ndarray) -> None:
        raise AssertionError("rows of folds are judged in pieces")

    def errors(self, sums: Errors) -> np.ndarray:
        amount = sums.amount.reshape(-1, self.tried.values)
        found = amount[: self.tried.folds] / self.sizes[:, None]
        return np.concatenate([found, found.mean(axis=0)[None]] if self.tried.whole else [found]).ravel()
