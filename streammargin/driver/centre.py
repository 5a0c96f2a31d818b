"""Centre the targets of a regression: subtract the constant that predicts them best on its own.

A penalised constant is then penalised for its distance from that value, so targets near 100,000 train like those near
0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from streammargin.driver.labels import LabelReader
from streammargin.errors import DataError
from streammargin.losses.base import has

HALVINGS = 40  # bisection steps in the search for a quantile
# Largest |mean| of the targets, or of a column, in units of their spread. The saved constant includes the subtracted
# mean, so the scores lose that many digits.
FARTHEST = 4e6


class _Present:
    """Targets and sample weights of the rows present, a piece at a time."""

    def __init__(self, labels: LabelReader) -> None:
        self.labels = labels

    def pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for piece in self.labels.pieces():
            present = piece.codes == 0
            numbers = piece.targets[present]
            yield numbers, piece.weights[present] if piece.weights.size else np.ones(len(numbers))

    def up_to(self, value: float) -> float:
        """Total weight of the targets <= value."""
        return math.fsum(float(weights[numbers <= value].sum()) for numbers, weights in self.pieces())

    def around(self, value: float) -> tuple[float, float]:
        """The largest target <= value and the smallest target > value; -inf and inf where there is none."""
        below, above = -math.inf, math.inf
        for numbers, _ in self.pieces():
            below = max(below, float(numbers.max(initial=-math.inf, where=numbers <= value)))
            above = min(above, float(numbers.min(initial=math.inf, where=numbers > value)))
        return below, above

    def mean(self) -> float:
        """The weighted mean; exact where all targets are equal."""
        first = next(float(numbers[0]) for numbers, _ in self.pieces() if numbers.size)
        parts = [(float(weights @ (numbers - first)), float(weights.sum())) for numbers, weights in self.pieces()]
        total, mass = (math.fsum(column) for column in zip(*parts, strict=True))
        return first + total / mass

    def clipped_mean(self, most: float) -> float:
        """The constant for which the weighted errors, clipped to [-most, most], sum to 0."""
        low, high = self.around(-math.inf)[1], self.around(math.inf)[0]
        for _ in range(2 * HALVINGS):
            middle = 0.5 * low + 0.5 * high
            pull = math.fsum(
                float(weights @ np.clip(numbers - middle, -most, most)) for numbers, weights in self.pieces()
            )
            low, high = (middle, high) if pull > 0.0 else (low, middle)
        return low

    def size(self) -> float:
        """The weighted mean of |target|."""
        parts = [(float(weights @ np.abs(numbers)), float(weights.sum())) for numbers, weights in self.pieces()]
        total, mass = (math.fsum(column) for column in zip(*parts, strict=True))
        return total / mass

    def quantile(self, level: float) -> float:
        """The weighted quantile at `level`: midway between two targets where both are quantiles."""
        goal = level * self.up_to(math.inf)
        low = self.around(-math.inf)[1]
        if self.up_to(low) > goal:
            return low
        high = self.around(math.inf)[0]
        for _ in range(HALVINGS):  # invariant: up_to(low) <= goal
            middle = 0.5 * low + 0.5 * high
            if self.up_to(middle) > goal:
                high = middle
            else:
                low = middle
        before, after = self.around(low)
        return 0.5 * before + 0.5 * after if self.up_to(low) == goal and after < math.inf else min(after, high)


def best_constant(labels: LabelReader, loss: Any) -> float:
    """The constant that predicts the targets best on its own: it is subtracted from them, as their shift.

    That is the quantile `loss.level()`, where the loss has a level. Else it is the mean, of errors clipped at
    `loss.most()` where the loss has that. The saved constant includes the shift again.
    """
    present = _Present(labels)
    level = loss.level() if has(loss, "level") else None
    most = loss.most() if has(loss, "most") else math.inf
    if level is not None:
        return present.quantile(level)
    return present.mean() if math.isinf(most) else present.clipped_mean(most)


def largest_target(labels: LabelReader) -> float:
    """The largest |target|; that of absent rows is 0."""
    return max(float(np.abs(piece.targets).max(initial=0.0)) for piece in labels.pieces())


def check_near(labels: LabelReader, shift: float, name: str) -> None:
    """DataError where the shift is so much larger than the spread of the shifted targets that scores lose it.

    See FARTHEST.
    """
    size = _Present(labels).size()
    if 0.0 < size * FARTHEST < abs(shift):
        raise DataError(
            f"{name}: its labels are {shift:.7g} +- {size:.2g}, too far from 0 for predictions that resolve the "
            "spread; subtract their mean from them"
        )
