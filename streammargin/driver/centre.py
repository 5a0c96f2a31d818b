"""Centre the targets of a regression: subtract the constant that predicts them best on its own.

A penalised constant is then penalised for its distance from that value, so targets near 100,000 train like those near
0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from streammargin.driver.labels import LabelReader
from streammargin.errors import DataError
from streammargin.losses.base import has
from streammargin.wording import one_line

HALVINGS = 40  # bisection steps in the search for a quantile
# Largest |mean| of the targets, or of a column, in units of their spread. The saved constant includes the subtracted
# mean, so the scores lose that many digits.
FARTHEST = 4e6


class _Present:
    """Targets and sample weights of the rows present, a piece at a time; figures are those of each output, (K,)."""

    def __init__(self, labels: LabelReader) -> None:
        self.labels = labels

    def pieces(self) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
        """(the targets (m,) of each output, the weights (m,)) of some rows."""
        for piece in self.labels.pieces():
            present = piece.codes == 0
            numbers = [piece.targets_of(output)[present] for output in range(self.labels.outputs)]
            yield numbers, piece.weights[present] if piece.weights.size else np.ones(len(numbers[0]))

    def _summed(self, term: Callable[[int, np.ndarray, np.ndarray], float]) -> np.ndarray:
        """The sum over all pieces of term(output, its targets (m,), the weights (m,))."""
        parts = [
            [term(output, each, weights) for output, each in enumerate(numbers)] for numbers, weights in self.pieces()
        ]
        return np.array([math.fsum(column) for column in zip(*parts, strict=True)])

    def up_to(self, values: np.ndarray) -> np.ndarray:
        """Total weight of the targets <= values."""
        return self._summed(lambda output, numbers, weights: float(weights[numbers <= values[output]].sum()))

    def around(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The largest target <= each value and the smallest target > it; -inf and inf where there is none."""
        below, above = np.full(values.size, -math.inf), np.full(values.size, math.inf)
        for numbers, _ in self.pieces():
            for output, (each, value) in enumerate(zip(numbers, values.tolist(), strict=True)):
                below[output] = max(below[output], float(each.max(initial=-math.inf, where=each <= value)))
                above[output] = min(above[output], float(each.min(initial=math.inf, where=each > value)))
        return below, above

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest targets."""
        far = np.full(self.labels.outputs, math.inf)
        return self.around(-far)[1], self.around(far)[0]

    def mean(self) -> np.ndarray:
        """The weighted means; exact where all targets are equal."""
        first = np.array(next([float(each[0]) for each in numbers] for numbers, _ in self.pieces() if numbers[0].size))
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
        """The weighted quantiles at `level`: midway between two targets where both are quantiles."""
        goal = level * self.up_to(np.full(self.labels.outputs, math.inf))
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


def best_constants(labels: LabelReader, loss: Any) -> np.ndarray:
    """The constants (outputs,) that predict the targets best on their own: they are subtracted, as their shift.

    They are the quantiles `loss.level()`, where the loss has a level. Else they are means, of errors clipped at
    `loss.most()` where the loss has that. The saved constants include the shift again.
    """
    present = _Present(labels)
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


def check_near(labels: LabelReader, shifts: np.ndarray, name: str, outputs: Sequence[str] | None = None) -> None:
    """DataError where a shift is so much larger than the spread of the shifted targets that scores lose it.

    See FARTHEST.
    """
    sizes = _Present(labels).size()
    for output in np.flatnonzero((sizes > 0.0) & (sizes * FARTHEST < np.abs(shifts))).tolist():
        of = "its labels" if outputs is None else f"its labels {one_line(outputs[output])}"
        raise DataError(
            f"{name}: {of} are {shifts[output]:.7g} +- {sizes[output]:.2g}, too far from 0 for predictions that "
            "resolve the spread; subtract their mean from them"
        )
