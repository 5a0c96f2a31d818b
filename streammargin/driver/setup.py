"""Read labels and sample weights of a source once, for classes, targets and factors of C."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streammargin.driver.labels import PIECE, Coder, LabelReader, finite_numbers, truths
from streammargin.errors import DataError, UsageError
from streammargin.matching import Codes, Matcher
from streammargin.sources.base import Slices, Source
from streammargin.sources.labels import census, number_rows, shifted
from streammargin.sources.names import listed
from streammargin.wording import short
from streammargin.workers import ALONE, Workers

LARGEST_C = 1e200  # of C times the rows: sums of losses, and their squares, must not overflow
LARGEST_NUMBER = 1e50  # of a target
MOST_NUMBERS = 100  # more distinct labels like 0.37, or 1 and 5 without 3, are probably not classes
FEW_ROWS = 50  # nor are this many whole numbers with fewer rows each
OTHERWISE = "and for numbers use `loss=squared_error`"  # in messages


@dataclass(frozen=True)
class Target:
    """The classes (original label values).

    positive: the class of sign +1 of each problem. A regression has no classes, and its present rows have the code 0;
    shift: the constant subtracted from its targets, or (outputs,). counts: the rows of each class, before weights.
    outputs: the names of the columns of labels (n, outputs), else None. Several labels of a row have the classes 0, 1.
    tasks (T,): the names of the tasks, else (0,); task_column: where those of the rows stand, if they do.
    """

    classes: np.ndarray
    positive: np.ndarray
    rest: Any = None  # the label set against all others, if one was named
    shift: float | np.ndarray = 0.0
    outputs: list[str] | None = None
    counts: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    tasks: np.ndarray = field(default_factory=lambda: np.empty(0))
    task_column: str | None = None


def make_target(
    source: Source, positive: Any = None, only: Sequence[Any] | None = None, workers: Workers = ALONE
) -> tuple[Target, Slices]:
    """Read the labels once: (the classes, the codes (n,) int16 of the rows, -1 for absent ones).

    `positive` sets one class against the rest, `only` keeps these classes.

    Raises DataError if the rows have fewer than two classes, UsageError if `only` names fewer than two or a
    label does not occur.
    """
    classes, codes, counts = _census(source, workers)
    matcher = Matcher(classes, source.name, UsageError)
    new, kept = np.arange(len(classes), dtype=np.int16), classes
    if only is not None:
        chosen = sorted(set(matcher.find_all(only)))
        if len(chosen) < 2:
            raise UsageError(
                f"`classes` must name at least two labels of {source.name}, not only {short(classes[chosen[0]])}"
            )
        new[:], kept = -1, classes[chosen]
        new[chosen] = np.arange(len(chosen))
    elif positive is None and (what := hardly_classes(classes, source.rows)):
        raise DataError(
            f"{source.name}: its labels are {len(classes)} different {what}, which look like amounts, not classes; "
            "for a regression use `loss=squared_error`, absolute_error, epsilon_insensitive, quantile or interpolate; "
            "for classes list the labels in `classes` or write them as text; for other labels use `y`"
        )
    if positive is not None:
        [one] = Matcher(kept, source.name, UsageError).find_all([positive])
        label = kept[one : one + 1].tolist()[0]  # text of Python has no item()
        new[new >= 0] = new[new >= 0] == one
        if not np.any(new == 0):
            raise DataError(f"{source.name}: every row has the label {short(label)}; training needs two classes")
        target = Target(np.array([f"not {label}", str(label)]), np.array([1]), label, counts=_counts(new, counts))
        return target, recoded(source, classes, codes, new)
    if len(kept) < 2:
        raise DataError(
            f"{source.name}: {f'all {source.rows} rows have' if source.rows > 1 else 'its only row has'} "
            f"the label {short(kept[0])}; training needs two classes"
            " (another dataset of labels can be named with `y`)"
        )
    several = np.array([1]) if len(kept) == 2 else np.arange(len(kept))
    return Target(kept, several, counts=_counts(new, counts)), recoded(source, classes, codes, new)


def _census(source: Source, workers: Workers) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(classes, codes (n,), counts); codes (0,) if the labels are read again."""
    coded = not source.rereads_labels()
    return census(source.labels(), source.rows, source.name, source.label_place, coded=coded, workers=workers)


def _counts(new: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The rows of each new class; new: that of each class, -1 for none."""
    return np.bincount(new[new >= 0], counts[new >= 0]).astype(np.int64)


def recoded(source: Source, classes: np.ndarray, codes: np.ndarray, new: np.ndarray) -> Slices:
    """The new codes of the rows; codes (n,): indices of their classes, or (0,) if labels are read again."""
    if source.rereads_labels():
        return source.labels_as(Coder(classes, new))
    for start in range(0, len(codes), PIECE):  # in place: no second vector of length n
        codes[start : start + PIECE] = new[codes[start : start + PIECE]]
    return codes


def make_labels(source: Source, outputs: Sequence[str]) -> Slices:
    """Read the labels once: the codes (n, outputs) int16 of labels 0 and 1. DataError if one is another value."""
    again = source.rereads_labels()
    codes = np.empty((0 if again else source.rows, len(outputs)), np.int16)
    for start, chunk in _numbers_of(source, "labels of several columns are 0 or 1, and these are not numbers"):
        if not np.all((chunk == 0.0) | (chunk == 1.0)):
            row, output = np.argwhere((chunk != 0.0) & (chunk != 1.0))[0].tolist()
            where, place = source.label_place(start + row)
            raise DataError(
                f"{where}: the label {short(outputs[output])} of row {place} is {chunk[row, output]:g}; labels of "
                f"several columns are 0 or 1, {OTHERWISE}"
            )
        if not again:
            codes[start : start + len(chunk)] = chunk
    return source.labels_as(truths) if again else codes


def hardly_classes(classes: np.ndarray, rows: int) -> str | None:
    """The kind of numbers that sorted labels (k,) are if they look like amounts, None if they look like classes.

    More than MOST_NUMBERS numbers look like amounts, unless they are whole, without a gap, and of FEW_ROWS rows each.
    """
    if classes.dtype.kind not in "iuf" or len(classes) <= MOST_NUMBERS:
        return None
    if np.any(classes != np.trunc(classes)):
        return "real numbers"
    gaps = float(classes[-1]) - float(classes[0]) >= len(classes)
    return "whole numbers" if gaps or rows < FEW_ROWS * len(classes) else None


def make_numbers(source: Source) -> Slices:
    """Read the labels once as numbers (n,) float64. Raises DataError for one that is not a finite number."""
    again, outputs = source.rereads_labels(), source.outputs()
    several = (len(outputs),) if outputs is not None and len(outputs) > 1 else ()
    targets = np.empty((0 if again else source.rows, *several))
    why = (
        "this loss needs numbers as labels, but they are not; name numbers with `y`, or use a loss for classes, such "
        "as `loss=hinge`"
    )
    for start, chunk in _numbers_of(source, why):
        if not again:
            targets[start : start + len(chunk)] = chunk
    return source.labels_as(finite_numbers) if again else targets


def _numbers_of(source: Source, why: str) -> Iterator[tuple[int, np.ndarray]]:
    """(first row, labels (m,) or (m, outputs) float64) of all rows. DataError(why) for labels that are no numbers."""
    start, outputs = 0, source.outputs()
    for raw in source.labels():
        chunk = number_rows(raw, f"{source.name}: {why}", shifted(source.label_place, start), outputs)
        if start + len(chunk) > source.rows:
            raise DataError(f"{source.name}: more labels than the {source.rows} rows")
        yield start, chunk
        start += len(chunk)
    if start != source.rows:
        raise DataError(f"{source.name}: {start} labels for {source.rows} rows; X and y must have the same length")


def check_numbers(largest: np.ndarray, name: str, outputs: Sequence[str] | None = None) -> None:
    """DataError if the squares of targets, times a C that `check_caps` allows, over- or underflow.

    largest: of the sizes of each output.
    """
    bad = np.flatnonzero((largest > LARGEST_NUMBER) | ((largest > 0.0) & (largest < 1.0 / LARGEST_NUMBER)))
    if bad.size:
        of = "its labels" if outputs is None else f"its labels {short(outputs[bad[0]])}"
        raise DataError(
            f"{name}: the largest of {of}, {largest[bad[0]]:g}, is too far from 1 to compute with; multiply all of "
            "them by a constant"
        )


def check_outputs(source: Source, target: Target, name: str) -> None:
    """DataError if the labels of a held-out source have other columns than those of `name`, the trained rows."""
    found, wanted = source.outputs(), target.outputs
    if found != wanted and max(len(found or ()), len(wanted or ())) > 1:
        told = [f"the columns {listed(each)}" if each is not None else "one column" for each in (found, wanted)]
        raise DataError(f"{source.name}: its labels have {told[0]}, but those of {name} have {told[1]}")


def encode(source: Source, target: Target, workers: Workers = ALONE) -> tuple[Slices, int]:
    """(codes (n,) int16 of a held-out source, rows that count); labels that were not trained on count as absent."""
    if target.outputs is not None:
        return make_labels(source, target.outputs), source.rows
    classes, codes, counts = _census(source, workers)
    found = np.array(Codes(target.classes, target.rest, source.name).of(classes), np.int16)
    if np.all(found < 0):
        listed = ", ".join(map(short, classes[:20].tolist()))
        raise DataError(f"{source.name}: none of its labels ({listed}) was trained on; name others with `y`")
    return recoded(source, classes, codes, found), int(counts[found >= 0].sum())


def check_caps(costs: Sequence[float], factors: np.ndarray, weights: np.ndarray, rows: int) -> None:
    """UsageError if a finite C, times the weights of a class and a row, over- or underflows.

    Infinite, it would mean a hard margin for the row; 0 would drop the row. factors: of the classes; weights: the
    smallest above 0 and the largest, or (0,) for none; a row of weight 0 is absent.
    """
    finite = [C for C in costs if np.inf > C]
    if not finite:
        return
    most, least = max(finite), min(finite)
    with np.errstate(over="ignore", under="ignore"):
        for each in (factors, weights):
            if each.size:
                most = most * each.max()
                least = least * each.min(initial=np.inf, where=each > 0.0)
    if most > LARGEST_C / rows or least == 0.0:
        C, size = (max(finite), "large") if most > LARGEST_C / rows else (min(finite), "small")
        if LARGEST_C / rows < C:
            raise UsageError(f"C = {C:g} is too large to compute with; use C = inf, the hard margin")
        raise UsageError(
            f"C = {C:g} times the weights of classes and rows is too {size} to compute with; divide the weights by a "
            "constant"
        )


def class_mass(codes: np.ndarray, weights: np.ndarray, classes: int) -> np.ndarray:
    """(2, 1, classes) float64: the total weight of the present rows of each class, and their number.

    For codes (n, outputs) it is (2, outputs, 2).
    """
    if codes.ndim == 2:
        present = codes[:, 0] >= 0
        mass = weights if weights.size else np.ones(len(codes))
        counted = np.stack([present * mass, present & (mass > 0.0)]).astype(np.float64)
        return np.stack([counted @ (codes == one) for one in (0, 1)], axis=2)
    return _mass_of_one(codes, weights, classes)[:, None]


def _mass_of_one(codes: np.ndarray, weights: np.ndarray, classes: int) -> np.ndarray:
    """The same of codes (n,), (2, classes)."""
    if not weights.size:
        count = np.bincount(codes[codes >= 0], minlength=classes).astype(np.float64)
        return np.stack([count, count])
    present = (codes >= 0) & (weights > 0.0)
    return np.stack([np.bincount(codes[present], each, minlength=classes) for each in (weights[present], None)])


@dataclass(frozen=True)
class Survey:
    """Facts from the labels of all rows: mass, as of `class_mass`; absent: whether there are absent rows.

    extremes: the smallest weight above 0 and the largest, or (0,).
    """

    mass: np.ndarray
    extremes: np.ndarray
    absent: bool


def survey(labels: LabelReader, classes: int, counts: np.ndarray) -> Survey:
    """Check the labels of all rows, and sum up their weights.

    counts (classes,): the rows of each class if that is known, and rows have no weights; else (0,).
    """
    mass, least, most, absent = np.zeros((2, 1, classes)), math.inf, 0.0, False
    if counts.size:
        found = np.stack([counts, counts]).astype(np.float64)[:, None]
        return Survey(found, np.empty(0), int(counts.sum()) < labels.rows)
    for piece in labels.pieces():
        mass = mass + class_mass(piece.codes, piece.weights, classes)
        absent = absent or bool(np.any(piece.codes < 0))
        if piece.weights.size:
            most = max(most, float(piece.weights.max()))
            least = min(least, float(piece.weights.min(initial=math.inf, where=piece.weights > 0.0)))
    return Survey(mass, np.array([least, most] if most else []), absent)


def class_factors(
    class_weight: str | Mapping[Any, float] | None, target: Target, mass: np.ndarray, name: str
) -> np.ndarray:
    """Factor of C for each class, (outputs, classes) float64; "balanced" is n / (classes * weight of the class).

    A class whose rows all have weight 0 is absent, and is not counted. mass (outputs, classes): their weights.
    """
    factors = np.ones(mass.shape)
    if class_weight is None:
        return factors
    if isinstance(class_weight, str):
        there = mass > 0.0
        counted = np.count_nonzero(there, axis=1, keepdims=True) * np.where(there, mass, 1.0)
        return np.where(there, mass.sum(axis=1, keepdims=True) / counted, 1.0)
    named = list(target.classes)
    if target.rest is not None:  # the others share one weight, under the name "not LABEL"
        named[1] = target.rest
    factors[:, Matcher(named, name, UsageError).find_all(class_weight)] = list(class_weight.values())
    return factors
