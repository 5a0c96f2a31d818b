"""Read labels and sample weights of a source once, for classes, targets and factors of C; centre targets.

From the targets of a regression the constant that predicts them best on its own is subtracted. A penalised constant is
then penalised for its distance from that value, so targets near 100,000 train like those near 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from streammargin.driver.learn.steps import FARTHEST
from streammargin.errors import DataError, UsageError
from streammargin.losses.base import Loss, has
from streammargin.matching import Codes, Matcher
from streammargin.reading.labels import LabelReader, finite_numbers, recoded, truths
from streammargin.sources.base import Slices, Source
from streammargin.sources.labels import census, number_rows, shifted
from streammargin.sources.names import listed
from streammargin.wording import in_list, short
from streammargin.workers import ALONE, Workers

LARGEST_C = 1e200  # of C times the rows: sums of losses, and their squares, must not overflow
LARGEST_NUMBER = 1e50  # of a target
MOST_NUMBERS = 100  # more distinct labels like 0.37, or 1 and 5 without 3, are probably not classes
FEW_ROWS = 50  # nor are this many whole numbers with fewer rows each
OF_AMOUNTS = (
    "for a regression use `loss=squared_error`, absolute_error, epsilon_insensitive, quantile or interpolate; for "
    "classes list the labels in `classes` or write them as text"
)
OTHERWISE = "and for numbers use `loss=squared_error`"  # in messages


@dataclass(frozen=True)
class Target:
    """The classes (original label values).

    `positive`      the class of sign +1 of each problem. A regression has no classes, and its present rows have the
                    code 0.
    `shift`         the constant subtracted from its targets, or (outputs,).
    `counts`        the rows of each class, before weights.
    `outputs`       the names of the columns of labels (n, outputs), else None. Several labels of a row have the classes
                    0, 1.
    `tasks`         (T,): the names of the tasks, else (0,).
    `task_column`   the column with the task of each row, if there is one.
    `group_column`  the column whose equal values the folds keep together.
    """

    classes: np.ndarray
    positive: np.ndarray
    rest: object = None  # the label set against all others, if one was named
    shift: float | np.ndarray = 0.0
    outputs: list[str] | None = None
    counts: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    tasks: np.ndarray = field(default_factory=lambda: np.empty(0))
    task_column: str | None = None
    group_column: str | None = None


def make_target(
    source: Source, positive: object = None, only: Sequence[object] | None = None, workers: Workers = ALONE
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
            f"{OF_AMOUNTS}; for other labels use `y`"
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
        raise DataError(
            f"{source.name}: its labels have {told[0]}, but those of {name} have {told[1]}; give both the same columns"
        )


def check_every(name: str, classes: np.ndarray, rows: np.ndarray) -> None:
    """DataError if a class has no held-out row to learn its probabilities from; rows (classes,): their numbers."""
    if len(lacking := np.flatnonzero(rows == 0)):
        raise DataError(
            f"{name}: no held-out row has the label {short(classes[lacking[0]])}, so `calibrate` cannot learn its "
            "probability; hold out rows of each class, or use `cv=5`"
        )


def encode(source: Source, target: Target, workers: Workers = ALONE, every: bool = False) -> tuple[Slices, int]:
    """(codes (n,) int16 of a held-out source, rows that count); labels that were not trained on count as absent.

    every: each class must have rows.
    """
    if target.outputs is not None:
        return make_labels(source, target.outputs), source.rows
    classes, codes, counts = _census(source, workers)
    found = np.array(Codes(target.classes, target.rest, source.name).of(classes), np.int16)
    if np.all(found < 0):
        listed = ", ".join(map(in_list, classes[:20].tolist()))
        raise DataError(f"{source.name}: none of its labels ({listed}) was trained on; name others with `y`")
    if every:
        check_every(
            source.name, target.classes, np.bincount(found[found >= 0], counts[found >= 0], len(target.classes))
        )
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
    """Facts from the labels of all rows: mass, as in `class_mass`; absent: whether there are absent rows.

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
    class_weight: str | Mapping[object, float] | None, target: Target, mass: np.ndarray, name: str
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


HALVINGS = 40  # bisection steps in the search for a quantile


class _Present:
    """Targets and sample weights of the rows present, a piece at a time; figures are those of each output or task.

    tasks: of how many tasks the rows are, whose numbers are their codes; 0 if they are of none.
    """

    def __init__(self, labels: LabelReader, tasks: int = 0) -> None:
        self.labels, self.tasks, self.count = labels, tasks, tasks or labels.outputs

    def pieces(self) -> Iterator[list[tuple[np.ndarray, np.ndarray]]]:
        """(the targets (m,), the weights (m,)) of each output or task, of some rows."""
        for piece in self.labels.pieces():
            if self.tasks:
                order = np.argsort(piece.codes, kind="stable")
                bounds = np.searchsorted(piece.codes[order], np.arange(self.tasks + 1))
                parts = [(0, order[start:stop]) for start, stop in pairwise(bounds)]
            else:
                present = np.flatnonzero(piece.codes == 0)
                parts = [(output, present) for output in range(self.count)]
            yield [
                (piece.targets_of(output)[rows], piece.weights[rows] if piece.weights.size else np.ones(rows.size))
                for output, rows in parts
            ]

    def _summed(self, term: Callable[[int, np.ndarray, np.ndarray], float]) -> np.ndarray:
        """The sum over all pieces of term(output, its targets (m,), the weights (m,))."""
        parts = [[term(output, *each) for output, each in enumerate(piece)] for piece in self.pieces()]
        return np.array([math.fsum(column) for column in zip(*parts, strict=True)])

    def up_to(self, values: np.ndarray) -> np.ndarray:
        """Total weight of the targets <= values."""
        return self._summed(lambda output, numbers, weights: float(weights[numbers <= values[output]].sum()))

    def around(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The largest target <= each value and the smallest target > it; -inf and inf if there is none."""
        below, above = np.full(values.size, -math.inf), np.full(values.size, math.inf)
        for piece in self.pieces():
            for output, ((each, _), value) in enumerate(zip(piece, values.tolist(), strict=True)):
                below[output] = max(below[output], float(each.max(initial=-math.inf, where=each <= value)))
                above[output] = min(above[output], float(each.min(initial=math.inf, where=each > value)))
        return below, above

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest targets."""
        far = np.full(self.count, math.inf)
        return self.around(-far)[1], self.around(far)[0]

    def mean(self) -> np.ndarray:
        """The weighted means; exact if all targets are equal."""
        first = np.full(self.count, math.nan)
        for piece in self.pieces():
            for output in np.flatnonzero(np.isnan(first)).tolist():
                first[output] = piece[output][0][0] if piece[output][0].size else math.nan
            if not np.isnan(first).any():
                break
        total = self._summed(lambda output, numbers, weights: float(weights @ (numbers - first[output])))
        return first + total / self._summed(lambda output, numbers, weights: float(weights.sum()))

    def clipped_mean(self, most: float) -> np.ndarray:
        """The constants for which the weighted errors, clipped to [-most, most], sum to 0."""
        low, high = self.ends()
        for _ in range(2 * HALVINGS):
            middle = 0.5 * low + 0.5 * high
            above = self._pull(middle, most) > 0.0
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return low

    def _pull(self, at: np.ndarray, most: float) -> np.ndarray:
        """The sums of the weighted errors of these constants, clipped to [-most, most]."""
        return self._summed(
            lambda output, numbers, weights: float(weights @ np.clip(numbers - at[output], -most, most))
        )

    def size(self) -> np.ndarray:
        """The weighted means of |target|."""
        total = self._summed(lambda output, numbers, weights: float(weights @ np.abs(numbers)))
        return total / self._summed(lambda output, numbers, weights: float(weights.sum()))

    def quantile(self, level: float) -> np.ndarray:
        """The weighted quantiles at `level`: midway between two targets if both are quantiles."""
        goal = level * self.up_to(np.full(self.count, math.inf))
        least, high = self.ends()
        low, all_above = least, self.up_to(least) > goal
        for _ in range(HALVINGS):  # invariant: up_to(low) <= goal
            middle = 0.5 * low + 0.5 * high
            above = self.up_to(middle) > goal
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        before, after = self.around(low)
        midway = (self.up_to(low) == goal) & (after < math.inf)
        with np.errstate(invalid="ignore"):
            found = np.where(midway, 0.5 * before + 0.5 * after, np.minimum(after, high))
        return np.where(all_above, least, found)


def best_constants(labels: LabelReader, loss: Loss, tasks: int = 0) -> np.ndarray:
    """The constants (outputs,) or (tasks,) that predict the targets best on their own: they are subtracted, as a shift.

    They are the quantiles `loss.level()`, if the loss has a level. Else they are means, of errors clipped at
    `loss.most()` if the loss has that. The saved constants include the shift again.
    """
    present, terms = _Present(labels, tasks), loss.terms()
    level = terms.level() if has(terms, "level") else None
    most = terms.most() if has(terms, "most") else math.inf
    if level is not None:
        return present.quantile(level)
    return present.mean() if math.isinf(most) else present.clipped_mean(most)


def largest_targets(labels: LabelReader) -> np.ndarray:
    """The largest |target| of each output; those of absent rows are 0."""
    found = np.zeros(labels.outputs)
    for piece in labels.pieces():
        found = np.maximum(found, np.abs(piece.targets.reshape(len(piece.codes), -1)).max(axis=0, initial=0.0))
    return found


def check_near(
    labels: LabelReader, shifts: np.ndarray, name: str, outputs: Sequence[str] | None = None, tasks: int = 0
) -> None:  # fmt: skip
    """DataError if a shift is so much larger than the spread of the shifted targets that scores lose it.

    See FARTHEST.
    """
    sizes = _Present(labels, tasks).size()
    for output in np.flatnonzero((sizes > 0.0) & (sizes * FARTHEST < np.abs(shifts))).tolist():
        of = "its labels" if outputs is None else f"its labels {short(outputs[output])}"
        raise DataError(
            f"{name}: {of} are {shifts[output]:.7g} +- {sizes[output]:.2g}, too far from 0 to predict "
            "their differences; subtract their mean from them"
        )
