"""Folds of a training: the fold of each row, as options say, and the codes that carry it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from streammargin.driver import setup
from streammargin.driver.folds import Dealt, Division, Grouped, OfFolds, Stretches, digests_of
from streammargin.driver.labels import SlicedLabels
from streammargin.driver.setup import Target
from streammargin.driver.tasks import column_of
from streammargin.errors import DataError, UsageError
from streammargin.matching import MAX_CLASSES
from streammargin.options.folds import PAST, Folds, Known, Share
from streammargin.options.steps import parts_of
from streammargin.options.table import Options
from streammargin.rows.blocks import CSRBlock, values_of
from streammargin.sources.base import Slices, Source
from streammargin.sources.checks import check_block
from streammargin.sources.labels import class_values, distinct, shifted
from streammargin.wording import note, short, warn

MANY = 1 << 16  # most groups that are told apart and dealt in turn; of more each is dealt by itself
LARGE = 2.0  # a fold of more rows than so many even ones is told

GRID = np.logspace(-4.0, 2.0, 13)  # values of C times the mean ||x||^2, half decades apart
SAMPLED = 1 << 12  # most rows whose lengths are read for it
PLACES = 8  # stretches of them

Given = Folds | Known | Share


def check_place(source: Source, options: Options, remote: bool) -> None:
    """UsageError for rows that cannot be in folds yet."""
    name = "cv" if options.valid is None else f"valid={options.valid}"
    if remote:
        raise UsageError(f"`{name}` needs all rows in one place, and those of dask are in several; give `valid=DATA`")
    if len(source.outputs() or ()) > 1:
        raise UsageError(f"`{name}` judges one label of a row, and here are several; name one column with `y`")


def grid_of(source: Source, options: Options) -> list[float]:
    """Values of C for rows of this length: from 1e-4 to 1e2, over the mean of ||x||^2 as the solver has it."""
    if options.map is not None or options.kernel is not None:
        mean = 1.0  # of kernels that are 1 for a row and itself
    elif parts_of(options.scale)[0] in ("std", "auto"):
        mean = float(source.features)
    else:
        mean = _mean_square(source)
    mean += options.column([1.0]) ** 2
    costs = [float(f"{C:.3g}") for C in GRID / (mean or 1.0)]
    note(f"`cv` tries {len(costs)} values of C, {costs[0]:g} to {costs[-1]:g}: rows have a mean ||x||^2 of {mean:.3g}")
    return costs


def _mean_square(source: Source) -> float:
    """The mean of ||x||^2 over some rows, from a few places."""
    bounds = source.bounds(1 << 20)
    buffer, total, seen = source.allocate(bounds), 0.0, 0
    for number in np.unique(np.linspace(0, len(bounds) - 2, PLACES).astype(int)).tolist():
        low = int(bounds[number])
        high = min(int(bounds[number + 1]), low + SAMPLED // PLACES)
        block = check_block(source, source.read(low, high, buffer), low)
        values = values_of(block)
        values = values[block.indptr[0] : block.indptr[-1]] if isinstance(block, CSRBlock) else values
        total += float(np.sum(np.square(values, dtype=np.float64)))
        seen += high - low
    return total / max(1, seen)


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
    _check(made, target, labels.source.name, getattr(cv, "by", None))
    if isinstance(cv, Share):
        note(f"{made.rows[0].sum():.0f} of {made.rows.sum():.0f} rows are held out; the model is trained on the others")
    return labels, made


def _folds(labels: SlicedLabels, cv: Given, seed: int, groups: Source | None) -> tuple[Slices, int]:
    """The fold (n,) of each row, and the number of folds."""
    rows = labels.rows
    if isinstance(cv, Known):
        return _known(labels, cv.given)
    if cv.count > rows:
        raise UsageError(f"{labels.source.name} has {rows} rows, too few for {cv.count} folds; give fewer")
    if groups is not None:
        return _grouped(groups, cv.count, seed), cv.count
    if isinstance(cv, Folds) and cv.order is not None:
        past = cv.order == PAST
        return Stretches(rows, cv.count + past, -int(past), cv.count), cv.count
    return Dealt(rows, cv.count, seed), cv.count


def _grouped(column: Source, count: int, seed: int) -> Slices:
    """The folds of rows by the values of a column."""
    known = np.empty(0, np.uint64)
    for values in _values_of(column):
        known = np.union1d(known, digests_of(distinct(values)[0], seed))
        if known.size > MANY:
            known = known[:0]
            break
    deal = Grouped(count, seed, known)
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
    return _split(list(split(np.zeros((labels.rows, 1)), truth)), labels.rows)


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


def _check(made: Division, target: Target, name: str, by: str | None) -> None:
    """DataError for a fold without rows, and for a trial that lacks a class; a warning of a fold that is large."""
    hint = f", or other groups than {by}" if by is not None else ""
    sizes = made.rows[: made.count].sum(axis=1)
    if not sizes.all():
        fold = int(np.argmin(sizes))
        raise DataError(f"{name}: no row of positive weight is in fold {fold}; give fewer folds in `cv`{hint}")
    lacking = np.argwhere(made.trained(made.rows) == 0)
    if len(lacking) and len(target.classes):
        trial, code = lacking[0].tolist()
        raise DataError(
            f"{name}: without fold {trial} no row of the class {short(target.classes[code])} is left to train on; give "
            f"other folds in `cv`{hint}"
        )
    if not len(target.classes) and len(lacking):
        raise DataError(f"{name}: without fold {int(lacking[0, 0])} no row is left; give other folds in `cv`{hint}")
    large = int(np.argmax(sizes))
    if sizes[large] * made.count > LARGE * made.rows.sum():
        part = f"{sizes[large]:.0f} of {made.rows.sum():.0f} rows"
        warn(f"{name}: fold {large} has {part}; a group is that large", "folds")
