"""Row numbers, classes, targets and sample weights of the rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np


class RowNumbers(NamedTuple):
    """The global numbers of a block's rows: those listed (m,) int64 if any, else first, first + 1, ...

    They index labels, weights and duals, so that cached rows from several blocks can be visited like a block.
    """

    first: int
    listed: np.ndarray

    def row(self, i: int) -> int:
        """The global number of row i of the block."""
        return self.listed[i] if self.listed.size > 0 else self.first + i


_NONE = np.empty(0, np.int64)


def numbered_from(first: int) -> RowNumbers:
    """The numbers of consecutive rows."""
    return RowNumbers(first, _NONE)


Rows = np.ndarray | slice  # global numbers of rows


@dataclass(frozen=True)
class RowLabels:
    """Classes, sample weights, targets and epsilons of n consecutive rows: of all, or a window on some of them.

    codes (n,) int16: class and fold of each row, -1 for an absent row, or (n, K) if each line has a label of its own.
    Only `Labels` and `Parts` say what a code is of;
    weights (n,) float64, or (0,) if all are 1;
    targets (n,) or (n, K) float64: of a regression, 0 for absent rows; else (0,).
    epsilons (n,) float64: how far from its target the score of each row may be; (0,) if the loss says it.
    first: the global number of the first row. Methods take global numbers.
    """

    codes: np.ndarray
    weights: np.ndarray
    targets: np.ndarray
    epsilons: np.ndarray = field(default_factory=lambda: np.empty(0))
    first: int = 0

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.weights.nbytes + self.targets.nbytes + self.epsilons.nbytes

    def at(self, rows: Rows) -> Rows:
        """Where these rows are in the arrays."""
        if not self.first:
            return rows
        return slice(rows.start - self.first, rows.stop - self.first) if isinstance(rows, slice) else rows - self.first

    def codes_of(self, line: int) -> np.ndarray:
        """The codes (n,) of this line; those of any line tell which rows are absent."""
        return self.codes if self.codes.ndim == 1 else np.ascontiguousarray(self.codes[:, line])

    def targets_of(self, line: int) -> np.ndarray:
        """The targets (n,) of this line, or (0,)."""
        return self.targets if self.targets.ndim == 1 else np.ascontiguousarray(self.targets[:, line])

    def present(self, rows: Rows) -> np.ndarray:
        """Which of these rows have a code >= 0 and a positive weight (bool)."""
        rows = self.at(rows)
        codes = self.codes if self.codes.ndim == 1 else self.codes[:, 0]
        present = codes[rows] >= 0
        return present & (self.weights[rows] > 0.0) if self.weights.size else present

    def of(self, rows: Rows) -> RowLabels:
        """The labels of these rows, numbered from 0."""
        rows = self.at(rows)
        return RowLabels(*[array[rows] if array.size else array for array in self._arrays()])

    def cut(self, first: int, stop: int) -> RowLabels:
        """The labels of the rows first .. stop, numbered from 0."""
        return self.of(slice(first, stop))

    def window(self, first: int, stop: int) -> RowLabels:
        """The labels of the rows first .. stop, which keep their numbers."""
        return replace(self.cut(first, stop), first=first)

    def joined(self, other: RowLabels) -> RowLabels:
        """The labels of both, these first, numbered from 0."""
        pairs = zip(self._arrays(), other._arrays(), strict=True)
        joined: list[Any] = [np.concatenate(pair) for pair in pairs]
        return RowLabels(*joined)

    def _arrays(self) -> list[Any]:
        return [self.codes, self.weights, self.targets, self.epsilons]


class Parts(NamedTuple):
    """How the code of a row, class + (fold << shift), is read, and the folds that each line is trained without.

    low: the bits of the class. without (K, 2) int64: the first such fold, and the one after the last; (0, 2) if rows
    have no folds, and codes are classes.
    """

    low: int = -1
    shift: int = 0
    without: np.ndarray = np.empty((0, 2), np.int64)

    def class_of(self, codes: np.ndarray) -> np.ndarray:
        """The classes of rows with these codes; below 0 for those of absent rows."""
        return codes if self.low < 0 else np.where(codes < 0, codes, codes & np.int16(self.low))

    def fold_of(self, codes: np.ndarray) -> np.ndarray:
        """The folds of rows with these codes; below 0 for those of absent rows."""
        return codes >> np.int16(self.shift)


class Labels(NamedTuple):
    """Sign, weight and target of each of n consecutive rows in each of the K problems: all that is asked of a code.

    `codes`                        (n,) int16: class and fold of each row, -1 for an absent row.
    `positive`                     (K,) int64: the class with sign +1 in problem k.
    `caps`                         (K, classes) float64: C times the class weight; inf for the hard margin, 0 if the
                                   class is absent.
    `weights`                      (n,) float64, or (0,) if all are 1.
    `targets`                      (n,) float64, or (0,) without a regression.
    `epsilons`                     (n,) float64, or (0,) if the loss says how far from its target a score may be.
    `first`                        the global number of the first row. Methods take global numbers.
    `codes_a_row`, `codes_a_line`  how far to go in `codes`, and in targets, for the next row and the next line. They
                                   are 1 and 0 if rows have one label. If each line has its own they are K and 1, and
                                   codes has K entries for each row.
    `low`, `shift`, `without`      of `Parts`. A row in the folds that a line is trained without is absent in that line.

    Kernels call the methods of one row. Those of all rows, in NumPy, have names that end in `_of`.
    """

    codes: np.ndarray
    positive: np.ndarray
    caps: np.ndarray
    weights: np.ndarray
    targets: np.ndarray
    epsilons: np.ndarray = np.empty(0)
    first: int = 0
    codes_a_row: int = 1
    codes_a_line: int = 0
    targets_a_row: int = 1
    targets_a_line: int = 0
    low: int = -1
    shift: int = 0
    without: np.ndarray = np.empty((0, 2), np.int64)

    def rows_of(self, first: int, rows: int) -> Labels:
        """Classes and weights of so many rows, which are numbered from 0; targets stay those of all rows."""
        some = slice(first - self.first, first - self.first + rows)
        codes = self.codes[self.codes_a_row * some.start : self.codes_a_row * some.stop]
        return self._replace(codes=codes, weights=self.weights[some], first=0)

    def rows(self) -> int:
        """n."""
        return -(-self.codes.size // self.codes_a_row)

    def code(self, row: int) -> int:
        """The class, of several labels that of the first; -1 for an absent row."""
        code = self.codes[(row - self.first) * self.codes_a_row]
        return code & self.low if code >= 0 else -1

    def code_in(self, k: int, row: int) -> int:
        """The class and fold in line k; -1 for an absent row."""
        return self.codes[(row - self.first) * self.codes_a_row + k * self.codes_a_line]  # without a branch

    def left_out(self, k: int, code: int) -> bool:
        """Whether line k is trained without the fold of this code."""
        return self.without.shape[0] > 0 and self.without[k, 0] <= code >> self.shift < self.without[k, 1]

    def weight(self, row: int) -> float:
        """The sample weight; 0 for an absent row."""
        if self.codes[(row - self.first) * self.codes_a_row] < 0:
            return 0.0
        return self.weights[row - self.first] if self.weights.size > 0 else 1.0

    def present(self, k: int, row: int) -> bool:
        """Whether the row has a positive weight, and line k is trained on its fold."""
        return self.weight(row) > 0.0 and not self.left_out(k, self.code_in(k, row))

    def cap(self, k: int, row: int) -> float:
        """C times class weight times sample weight, the largest dual of the hinge; 0 for a row absent in problem k."""
        code = self.code_in(k, row)
        if code < 0 or self.left_out(k, code):
            return 0.0
        weight = self.weights[row - self.first] if self.weights.size > 0 else 1.0
        return self.caps[k, code & self.low] * weight if weight > 0.0 else 0.0

    def own(self, k: int, row: int) -> bool:
        """Whether y = +1 for the row in problem k."""
        return (self.code_in(k, row) & self.low) == self.positive[k]

    def sign(self, k: int, row: int) -> float:
        """y in {-1, 1}; 1 for a regression."""
        return 2.0 * ((self.code_in(k, row) & self.low) == self.positive[k]) - 1.0

    def wrong(self, k: int, row: int, margin: float) -> bool:
        """Whether a row with this margin is misclassified; a score of 0 predicts the sign -1."""
        return margin < 0.0 or (margin == 0.0 and self.own(k, row))

    def target(self, k: int, row: int) -> float:
        """The target of a regression in line k; 0 for classes."""
        if self.targets.size == 0:
            return 0.0
        return self.targets[(row - self.first) * self.targets_a_row + k * self.targets_a_line]

    def epsilon(self, row: int) -> float:
        """How much farther from its target than the loss says a score may be; 0 if rows have no epsilon."""
        return self.epsilons[row - self.first] if self.epsilons.size > 0 else 0.0

    def margin(self, k: int, row: int, score: float) -> float:
        """The argument u of the loss: y score for classes, score - target for a regression."""
        return self.sign(k, row) * score - self.target(k, row)

    def classes_of(self, k: int) -> np.ndarray:
        """The classes (n,) in line k; below 0 for absent rows."""
        return Parts(self.low).class_of(self.codes[k * self.codes_a_line :: self.codes_a_row])

    def own_of(self, k: int) -> np.ndarray:
        """Whether y = +1 (n,) in line k; False for absent rows."""
        return self.classes_of(k) == self.positive[k]

    def own_of_lines(self) -> np.ndarray:
        """The same (n, K) in all lines, of rows with one label."""
        return self.classes_of(0)[:, None] == self.positive

    def signs_of(self, k: int) -> np.ndarray:
        """y in {-1, 1} (n,) in line k; 1 for a regression, -1 for absent rows."""
        return np.where(self.own_of(k), 1.0, -1.0)

    def caps_of(self, k: int) -> np.ndarray:
        """The cap (n,) of each row in line k; 0 for a row that is absent there."""
        found = np.where(self.present_of(k), self.caps[k][np.maximum(self.classes_of(k), 0)], 0.0)
        return np.multiply(found, self.weights, out=found, where=found > 0.0) if self.weights.size else found

    def present_of(self, k: int) -> np.ndarray:
        """Whether each row (n,) has a class, a positive weight, and a fold that line k is trained on."""
        codes = self.codes[k * self.codes_a_line :: self.codes_a_row]
        found: np.ndarray = codes >= 0
        if len(self.without):
            folds = codes >> np.int16(self.shift)
            found &= (folds < self.without[k, 0]) | (self.without[k, 1] <= folds)
        return found & (self.weights > 0.0) if self.weights.size else found

    def confused_of(self, first: int, scores: np.ndarray) -> int:
        """How many rows have their largest score (lines, n), by the lines from `first` on, in another class's line."""
        taken = self.positive[first + np.argmax(scores, axis=0)]
        return int(np.count_nonzero((taken != self.classes_of(0)) & self.present_of(first)))
