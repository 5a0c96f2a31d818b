"""Centre the targets of a regression: subtract the constant that predicts them best on its own.

A penalised constant is then penalised for its distance from that value, so targets near 100,000 train like those near
0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from streammargin.driver.labels import LabelReader
from streammargin.errors import DataError
from streammargin.losses.base import has
from streammargin.wording import short

HALVINGS = 40  # bisection steps in the search for a quantile
# Largest |mean| of the targets, or of a column, in units of their spread. The saved constant includes the subtracted
# mean, so the scores lose that many digits.
FARTHEST = 4e6


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


def best_constants(labels: LabelReader, loss: Any, tasks: int = 0) -> np.ndarray:
    """The constants (outputs,) or (tasks,) that predict the targets best on their own: they are subtracted, as a shift.

    They are the quantiles `loss.level()`, if the loss has a level. Else they are means, of errors clipped at
    `loss.most()` if the loss has that. The saved constants include the shift again.
    """
    present = _Present(labels, tasks)
    level = loss.level() if has(loss, "level") else None
    most = loss.most() if has(loss, "most") else math.inf
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
