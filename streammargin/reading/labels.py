"""The labels of all rows: in memory, or read from their file with each block of rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeGuard

import numpy as np

from streammargin.errors import DataError
from streammargin.matching import number_in
from streammargin.rows.labels import RowLabels
from streammargin.sources.base import Slices, Source
from streammargin.sources.labels import Origin, as_values

LABEL_ROWS = 1 << 16  # rows at a time of all
LEAST_LABEL_ROWS = 1 << 9  # rows at a time of many outputs: each has some calls of NumPy for as many
NO_NUMBERS = np.empty(0)
NO_ROWS = RowLabels(np.empty(0, np.int16), NO_NUMBERS, NO_NUMBERS)
UNKNOWN = -2  # the code of a label that the file did not have before


def pieces_of(outputs: int) -> int:
    """Rows at a time of labels or targets with this many outputs."""
    return max(LEAST_LABEL_ROWS, LABEL_ROWS // outputs)


class LabelReader(ABC):
    """The labels of n rows.

    held_bytes: of what stays in memory; row_bytes: of the labels of one row that is read, 0 if all are in memory;
    outputs: how many codes or targets a row has.
    """

    rows: int
    held_bytes: int
    row_bytes: int
    outputs: int = 1

    @abstractmethod
    def read(self, start: int, stop: int) -> RowLabels:
        """Labels that cover the rows start .. stop: a window on them, or all that are in memory."""

    @abstractmethod
    def all(self) -> KeptLabels:
        """The same in memory."""

    def in_memory(self) -> RowLabels:
        """The labels of all rows, if they are in memory; else of none."""
        return NO_ROWS

    def pieces(self) -> Iterator[RowLabels]:
        """The labels of a bounded number of rows at a time, in order."""
        piece = pieces_of(self.outputs)
        for start in range(0, self.rows, piece):
            stop = min(self.rows, start + piece)
            found = self.read(start, stop)
            yield found if len(found.codes) == stop - start else found.window(start, stop)

    def more_bytes(self) -> int:
        """Bytes that the labels of all rows take, beside those that are held already."""
        return max(0, self.rows * self.row_bytes - self.held_bytes)


class KeptLabels(LabelReader):
    """Labels in memory."""

    def __init__(self, known: RowLabels) -> None:
        self.known: RowLabels = known
        self.rows: int = len(known.codes)
        self.held_bytes: int = known.nbytes
        self.row_bytes: int = 0
        self.outputs: int = max(array.shape[1] if array.ndim > 1 else 1 for array in (known.codes, known.targets))

    def in_memory(self) -> RowLabels:
        return self.known

    def read(self, start: int, stop: int) -> RowLabels:
        return self.known

    def all(self) -> KeptLabels:
        return self


@dataclass(frozen=True)
class SlicedLabels(LabelReader):
    """Labels of which a slice is read at a time, and checked: a file that changed meanwhile is an error.

    `codes`                the codes of classes, or of the tasks of numbers, else (0,) for a regression.
    `targets`              (0,) for classes.
    `weights`, `epsilons`  (0,) if rows have none.
    `outputs`              how many codes or targets a row has.
    `trials`               how many times each of several is told: the number of values of C.
    `shift`                subtracted from the targets: one number, or one for each output or task.
    `weighed`              whether the weights count, beside saying which rows are absent.
    `reading`              bytes that it takes to read them.
    """

    source: Source
    codes: Slices
    targets: Slices
    weights: Slices = field(default_factory=lambda: NO_NUMBERS)
    epsilons: Slices = field(default_factory=lambda: NO_NUMBERS)
    weighed: bool = True
    shift: float | np.ndarray = 0.0
    reading: int = 0
    outputs: int = 1
    trials: int = 1

    @property
    def rows(self) -> int:  # type: ignore[override]
        return self.source.rows

    @property
    def held_bytes(self) -> int:  # type: ignore[override]
        arrays = (self.codes, self.targets, self.weights, self.epsilons)
        return self.reading + sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))

    @property
    def row_bytes(self) -> int:  # type: ignore[override]
        alone = sum(size > 0 for size in (len(self.weights) * self.weighed, len(self.epsilons)))
        lines = self.outputs * self.trials
        targets = lines * (len(self.targets) > 0)
        return 2 * (lines if len(self.codes) else 1) + 8 * (targets + alone)

    def read(self, start: int, stop: int) -> RowLabels:
        size = stop - start
        several = (size, self.outputs) if self.outputs > 1 else (size,)
        codes = np.zeros(several if len(self.codes) else size, np.int16)
        targets = np.empty(several if len(self.targets) else 0)
        weights, epsilons = (
            np.empty(size if len(of) and used else 0)
            for of, used in ((self.weights, self.weighed), (self.epsilons, True))
        )
        piece = pieces_of(self.outputs)
        for low in range(start, stop, piece):
            high = min(stop, low + piece)
            here = slice(low - start, high - start)
            if len(self.codes):
                codes[here] = found = self.codes[low:high]
                if found.min() == UNKNOWN:
                    raise self._changed(low + int(np.argmin(found)) // self.outputs)
            if len(self.targets):
                numbers = self.targets[low:high]
                if not np.isfinite(numbers).all():
                    raise self._changed(low + int(np.argmin(np.isfinite(numbers))) // self.outputs)
                shift = self.shift
                if isinstance(shift, np.ndarray) and len(self.codes):
                    shift = shift[codes[here]]
                np.subtract(numbers, shift, out=targets[here])
            if len(self.weights):
                mass = check_weights(self.weights[low:high], self.source.place, low)
                if self.weighed:
                    weights[here] = mass
                if len(self.targets) and mass.min() == 0.0:
                    codes[here][mass == 0.0], targets[here][mass == 0.0] = -1, 0.0
            if len(self.epsilons):
                epsilons[here] = check_weights(self.epsilons[low:high], self.source.place, low, "epsilon")
        if self.trials > 1 and codes.ndim > 1:
            codes = np.tile(codes, (1, self.trials))
        if self.trials > 1 and targets.ndim > 1:
            targets = np.tile(targets, (1, self.trials))
        return RowLabels(codes, weights, targets, epsilons, start)

    def _changed(self, row: int) -> DataError:
        where, row = self.source.label_place(row)
        return DataError(
            f"{where} was changed during the run: the label of row {row} is new; start again, and do not write "
            "to it meanwhile"
        )

    def all(self) -> KeptLabels:
        found = self.read(0, self.rows)
        codes, weights = self.codes if _has(self.codes) and self.trials == 1 else found.codes, found.weights
        if self.weighed and _has(self.weights):
            weights = self.weights
        return KeptLabels(replace(found, codes=codes, weights=weights))  # no second copy of arrays in memory

    def settled(self) -> LabelReader:
        """The same in memory, if no file holds any of it."""
        given = [of for of in (self.codes, self.targets, self.weights, self.epsilons) if len(of)]
        return self.all() if all(map(_has, given)) else self


@dataclass(frozen=True)
class OfTasks:
    """The codes (n,) int16 of rows of several tasks, task * classes + class, from those of tasks and of classes.

    An absent class makes an absent row; a new label, or a new task, stays UNKNOWN.
    """

    tasks: Slices
    codes: Slices
    classes: int

    def __getitem__(self, rows: slice) -> np.ndarray:
        tasks, codes = self.tasks[rows], self.codes[rows]
        found = tasks * np.int16(self.classes) + codes
        found[codes < 0] = codes[codes < 0]
        found[tasks < 0] = UNKNOWN
        return found

    def __len__(self) -> int:
        return len(self.tasks)


def codes_of_tasks(tasks: Slices, codes: Slices, classes: int) -> Slices:
    """These codes, an array if both are arrays."""
    found = OfTasks(tasks, codes, classes)
    return found[:] if isinstance(tasks, np.ndarray) and isinstance(codes, np.ndarray) else found


def _has(column: Slices) -> TypeGuard[np.ndarray]:
    """Whether a column is in memory."""
    return isinstance(column, np.ndarray) and column.size > 0


def check_weights(weights: np.ndarray, origin: Origin, first: int = 0, noun: str = "sample weight") -> np.ndarray:
    """These numbers, of the rows from `first`. DataError for one that is negative or missing."""
    if not (weights.min(initial=0.0) >= 0.0 and weights.max(initial=0.0) < np.inf):  # min and max are nan if one is
        bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
        where, row = origin(first + int(bad[0]))
        raise DataError(f"{where}: the {noun} of row {row} is {weights[bad[0]]}; {noun}s must be finite and >= 0")
    return weights


def truths(labels: np.ndarray) -> np.ndarray:
    """Labels (m, outputs) that are 0 or 1, booleans too, as codes of int16; UNKNOWN for others."""
    codes = np.full(labels.shape, UNKNOWN, np.int16)
    codes[labels == 0], codes[labels == 1] = 0, 1
    return codes


class Coder:
    """Labels (m,) as codes (m,) int16, by the classes (k,), sorted, and their codes; UNKNOWN for others."""

    def __init__(self, classes: np.ndarray, codes: np.ndarray) -> None:
        self.classes: np.ndarray = classes
        self.codes: np.ndarray = np.append(codes, UNKNOWN).astype(np.int16)
        self._known = dict(zip(classes.tolist(), codes.tolist(), strict=True))

    def __call__(self, labels: np.ndarray) -> np.ndarray:
        if labels.dtype.kind not in "biuf":
            return np.array([self._known.get(label, UNKNOWN) for label in as_values(labels).tolist()], np.int16)
        place = np.searchsorted(self.classes, labels)
        other = self.classes[np.minimum(place, len(self.classes) - 1)] != labels
        return self.codes[np.where(other, -1, place)]


def recoded(source: Source, classes: np.ndarray, codes: np.ndarray, new: np.ndarray) -> Slices:
    """The new codes of the rows; codes (n,): indices of their classes, or (0,) if labels are read again."""
    if source.rereads_labels():
        return source.labels_as(Coder(classes, new))
    for start in range(0, len(codes), LABEL_ROWS):  # in place: no second vector of length n
        codes[start : start + LABEL_ROWS] = new[codes[start : start + LABEL_ROWS]]
    return codes


def finite_numbers(labels: np.ndarray) -> np.ndarray:
    """Labels (m,) as float64, of text by what it spells; NaN for what is no number."""
    if labels.dtype.kind in "biuf":
        return labels.astype(np.float64)
    spelt = [number_in(label) if isinstance(label, str) else None for label in as_values(labels).tolist()]
    return np.array([math.nan if number is None else float(number) for number in spelt])
