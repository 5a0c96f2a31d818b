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

    codes (n,) int16: class of each row, -1 for an absent row, or (n, K) if each line has a label of its own;
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

    def caps_of(self, line: int, caps: np.ndarray) -> np.ndarray:
        """The cap of each row (n,) in this line, given those of the classes (classes,); 0 for an absent row."""
        codes = self.codes_of(line)
        found = np.where(codes >= 0, caps[codes], 0.0)
        if self.weights.size:
            found = np.multiply(found, self.weights, out=np.zeros(found.size), where=self.weights > 0.0)
        return found

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


class Labels(NamedTuple):
    """Sign, weight and target of each of n consecutive rows in each of the K problems.

    codes (n,) int16: class of each row, -1 for an absent row; positive (K,) int64: the class with sign +1 in
    problem k; caps (K, classes) float64: C times the class weight, inf for the hard margin, 0: the class is absent;
    weights (n,) float64, or (0,) if all are 1; targets (n,) float64, or (0,) without a regression;
    epsilons (n,) float64, or (0,) if the loss says how far from its target a score may be.
    first: the global number of the first row. Methods take global numbers.
    codes_a_row, codes_a_line: how far to go in `codes` for the next row and the next line, 1 and 0 if rows have one
    label; if each line has its own, K and 1, and codes has K entries for each row. The same for targets.
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

    def rows(self) -> int:
        """n."""
        return -(-self.codes.size // self.codes_a_row)

    def code(self, row: int) -> int:
        """The class, of several labels that of the first; -1 for an absent row."""
        return self.codes[(row - self.first) * self.codes_a_row]

    def code_in(self, k: int, row: int) -> int:
        """The class in line k; -1 for an absent row."""
        return self.codes[(row - self.first) * self.codes_a_row + k * self.codes_a_line]  # without a branch

    def weight(self, row: int) -> float:
        """The sample weight; 0 for an absent row."""
        if self.code(row) < 0:
            return 0.0
        return self.weights[row - self.first] if self.weights.size > 0 else 1.0

    def cap(self, k: int, row: int) -> float:
        """C times class weight times sample weight, the largest dual of the hinge; 0 for a row absent in problem k."""
        code = self.code_in(k, row)
        if code < 0:
            return 0.0
        weight = self.weights[row - self.first] if self.weights.size > 0 else 1.0
        return self.caps[k, code] * weight if weight > 0.0 else 0.0

    def own(self, k: int, row: int) -> bool:
        """Whether y = +1 for the row in problem k."""
        return self.code_in(k, row) == self.positive[k]

    def sign(self, k: int, row: int) -> float:
        """y in {-1, 1}; 1 for a regression."""
        return 2.0 * (self.code_in(k, row) == self.positive[k]) - 1.0

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
