"""Folds of a training: the fold of each row, what each trial is trained without, and the errors of what it was not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from streammargin.compiled.predict import total_of_residuals
from streammargin.driver.learn.validate import SCORES_AT_ONCE, Errors, Validator, scored
from streammargin.errors import DataError, UsageError
from streammargin.matching import MAX_CLASSES
from streammargin.options.folds import PAST, Folds, Known, Share
from streammargin.options.table import Options
from streammargin.points.base import Point, answered, exact
from streammargin.reading.labels import LabelReader, SlicedLabels
from streammargin.reading.tasks import column_of
from streammargin.rows.blocks import Block
from streammargin.rows.labels import Parts, RowLabels
from streammargin.solvers.newton.near_margin import pseudorandom
from streammargin.solvers.problem import Problem, Tried
from streammargin.sources.base import Slices, Source
from streammargin.sources.labels import class_values, distinct, shifted
from streammargin.training import setup
from streammargin.training.setup import Target
from streammargin.wording import counted, short, warn

MOST_DEALT_GROUPS = 1 << 16  # that are told apart and dealt in turn; of more each is dealt by itself
LARGE = 2.0  # a fold of more rows than so many even ones is told

Given = Folds | Known | Share


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
        folds = pseudorandom(cards, self.seed, 0).argsort(axis=1).ravel()
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
class GroupedFolds:
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

    `past`: a trial is trained without the later folds, too. `whole`: the trial of all rows follows. `shift`: of the
    codes. `mass`, `rows` (count + 1, classes): weights and number of the rows of each fold, and last of the rows that
    are never left out.
    """

    count: int
    shift: int
    mass: np.ndarray
    rows: np.ndarray
    past: bool = False
    whole: bool = True
    rule: str = "best"

    @cached_property
    def spans(self) -> np.ndarray:
        """The folds (trials, 2) that each trial is trained without: the first, and the one after the last."""
        first = np.arange(self.count if self.whole else 1)
        left = np.stack([first, np.full(first.size, self.count) if self.past else first + 1], axis=1)
        return np.concatenate([left, [[-1, -1]]]) if self.whole else left

    @property
    def held_out(self) -> np.ndarray:
        """How many rows (classes,) are judged by a training without them."""
        first = self.spans[:, 0]
        counted: np.ndarray = self.rows[first[first >= 0]].sum(axis=0)
        return counted

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
    which is set before the training begins. `sizes` (count,): the rows of each fold.
    """

    late = True

    def __init__(self, labels: LabelReader, problem: Problem, division: Division) -> None:
        assert problem.tried is not None
        self.labels = labels
        self.tried, self.numeric, self.loss = problem.tried, problem.numeric, problem.loss
        self.sizes: np.ndarray = division.rows.sum(axis=1)[: self.tried.folds]
        self.memory_bytes: int = self.bytes_of(problem)

    @staticmethod
    def bytes_of(problem: Problem) -> int:
        """The bytes of scores that are judged at a time."""
        return 3 * 8 * max(SCORES_AT_ONCE, problem.count)

    def __getstate__(self) -> dict[str, object]:
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
                    sums.measure(lines, found)
                    right = best == (own == positive[0]) if each == 1 else positive[best] == own
                    sums.amount[trial] += np.count_nonzero(~right)

    def _judge(self, sums: Errors, labels: RowLabels, scores: np.ndarray) -> None:
        raise AssertionError("rows of folds are judged in pieces")

    def errors(self, sums: Errors) -> np.ndarray:
        amount = sums.amount.reshape(-1, self.tried.values)
        found = amount[: self.tried.folds] / self.sizes[:, None]
        return np.concatenate([found, found.mean(axis=0)[None]] if self.tried.whole else [found]).ravel()


def check_place(source: Source, options: Options) -> None:
    """UsageError for rows that cannot be in folds yet."""
    name = "cv" if options.valid is None else f"valid={options.valid}"
    if len(source.outputs() or ()) > 1:
        raise UsageError(f"`{name}` takes one label a row, and these rows have several; name one column with `y`")


def column_of_groups(stack: ExitStack, cv: Given, data: object, x: str | None, source: Source) -> Source | None:
    """The column by which rows are in groups, as labels; None without one."""
    by = getattr(cv, "by", None)
    return None if by is None else column_of(stack, by, data, x, source, f"groups of `cv`, by={by}")


def in_folds(
    labels: SlicedLabels, target: Target, cv: Given, seed: int, groups: Source | None
) -> tuple[SlicedLabels, Division]:
    """The labels with codes of class and fold, and how they are divided; groups: a column of the rows."""
    classes = max(1, len(target.classes))
    shift = classes.bit_length()  # so that the class bits of an absent row are no class
    folds, count = _folds(labels, cv, seed, groups)
    if (count + 1) << shift > MAX_CLASSES + 1:
        most = ((MAX_CLASSES + 1) >> shift) - 1
        raise UsageError(f"{count} folds of {classes} classes are too many for `cv`; give at most {most}")
    codes: Slices = OfFolds(labels.codes, folds, shift)
    if not labels.source.rereads_labels():
        codes = codes[0 : labels.rows]
    labels = replace(labels, codes=codes)
    mass = setup.survey(labels, (count + 1) << shift, np.empty(0, np.int64)).mass[:, 0]
    mass = mass.reshape(2, count + 1, -1)[:, :, :classes]
    past, rule = getattr(cv, "order", None) == PAST, "best" if isinstance(cv, Share) else cv.rule
    made = Division(count, shift, mass[0], mass[1], past, not isinstance(cv, Share), rule)
    _check(made, target, labels.source.name, groups is not None)
    return labels, made


def _folds(labels: SlicedLabels, cv: Given, seed: int, groups: Source | None) -> tuple[Slices, int]:
    """The fold (n,) of each row, and the number of folds."""
    rows = labels.rows
    if isinstance(cv, Known):
        return _known(labels, cv.given)
    if cv.count > rows:
        raise UsageError(f"{labels.source.name} has {rows} rows, too few for {cv.count} folds; give fewer")
    if groups is not None:
        return _grouped(groups, cv.count, seed, labels.source.name), cv.count
    if isinstance(cv, Folds) and cv.order is not None:
        past = cv.order == PAST
        return Stretches(rows, cv.count + past, -int(past), cv.count), cv.count
    return Dealt(rows, cv.count, seed), cv.count


def _grouped(column: Source, count: int, seed: int, name: str) -> Slices:
    """The folds of rows, which have this name, by the values of a column. DataError for too few values."""
    known = np.empty(0, np.uint64)
    for values in _values_of(column):
        known = np.union1d(known, digests_of(distinct(values)[0], seed))
        if known.size > MOST_DEALT_GROUPS:
            known = known[:0]
            break
    if 0 < known.size < count:
        few = f"{counted(known.size, 'group')}, too few for {count} folds"
        raise DataError(f"{name} has {few}; give fewer in `cv`, or other groups")
    deal = GroupedFolds(count, seed, known)
    if column.rereads_labels():
        return column.labels_as(deal)
    return np.concatenate([deal(values) for values in _values_of(column)])


def _values_of(column: Source) -> Iterator[np.ndarray]:
    """The values of a column, checked, some rows at a time."""
    start = 0
    for raw in column.labels():
        yield class_values(raw, column.name, shifted(column.label_place, start), "group")
        start += len(raw)


def _known(labels: SlicedLabels, given: object) -> tuple[np.ndarray, int]:
    """The folds that are given, by number or as what splits rows."""
    split = getattr(given, "split", None)
    if not callable(split):
        assert isinstance(given, Iterable), "checked"
        listed = given if isinstance(given, np.ndarray) else list(given)
        if len(listed) and not isinstance(listed[0], (tuple, list, np.ndarray)):
            return _numbered(np.asarray(listed), labels.rows)
        return _split(list(listed), labels.rows)
    truth = np.concatenate([piece.targets if len(labels.targets) else piece.codes for piece in labels.pieces()])
    try:
        splits = list(split(np.zeros((labels.rows, 1)), truth))
    except ValueError as error:
        if "groups" not in str(error):
            raise UsageError(f"the splitter of `cv` does not split these rows: {error}") from error
        name = type(given).__name__
        raise UsageError(
            f"{name} splits rows by groups, which are not given here; give cv=list({name}(...).split(X, y, groups)), "
            "or name their column, as `cv=4,by=COLUMN`"
        ) from error
    return _split(splits, labels.rows)


def _numbered(folds: np.ndarray, rows: int) -> tuple[np.ndarray, int]:
    if folds.shape != (rows,) or folds.dtype.kind not in "iu":
        raise UsageError(f"`cv` as an array has the fold of each of the {rows} rows, a whole number from 0, or -1")
    count = int(folds.max(initial=-1)) + 1
    if count < 2 or folds.min() < -1 or count > MAX_CLASSES:
        raise UsageError(f"`cv` has folds from {folds.min()} to {count - 1}; number them from 0, at least two, or -1")
    return np.where(folds < 0, count, folds).astype(np.int16), count


def _split(splits: Sequence[tuple[np.ndarray, np.ndarray]], rows: int) -> tuple[np.ndarray, int]:
    """The folds of pairs (rows to train on, rows to judge)."""
    folds, seen = np.full(rows, len(splits)), np.zeros(rows, np.int64)
    for fold, (train, test) in enumerate(splits):
        folds[test] = fold
        seen[test] += 1
        kept = np.unique(np.arange(rows)[train]).size
        if seen.max() > 1 or kept + np.arange(rows)[test].size != rows:
            raise UsageError(
                "the splits of `cv` are no folds: each row is held out once at most, and trained on in all others; use "
                "GridSearchCV of scikit-learn for other splits"
            )
    return _numbered(np.where(folds == len(splits), -1, folds), rows)


def _check(made: Division, target: Target, name: str, grouped: bool) -> None:
    """DataError for a fold without rows, and for a trial that lacks a class; a warning of a fold that is large."""
    hint = ", or other groups" * grouped
    sizes = made.rows[: made.count].sum(axis=1)
    if not sizes.all():
        fold = int(np.argmin(sizes))
        raise DataError(f"{name}: no row of positive weight is in fold {fold}; give fewer folds in `cv`{hint}")
    lacking = np.argwhere(made.trained(made.rows) == 0)
    if len(lacking) and len(target.classes):
        trial, code = lacking[0].tolist()
        other = " or groups" * grouped
        raise DataError(
            f"{name}: without fold {trial} no row of the class {short(target.classes[code])} is left to train on; "
            f"leave the rows of this class out, or give other folds{other} in `cv`"
        )
    if not len(target.classes) and len(lacking):
        raise DataError(f"{name}: without fold {int(lacking[0, 0])} no row is left; give other folds in `cv`{hint}")
    large = int(np.argmax(sizes))
    if sizes[large] * made.count > LARGE * made.rows.sum():
        part = f"{sizes[large]:.0f} of {made.rows.sum():.0f} rows"
        warn(f"{name}: fold {large} has {part}; a group is that large", "folds")
