"""Numbers are taken from where a constant alone is best, so that their constant need not come from far.

One that is penalised is so about that value: numbers near 100,000 cost no more than those near 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from streammargin.driver.setup import Target
from streammargin.errors import DataError
from streammargin.losses.base import has

PIECE = 1 << 16  # numbers that are looked at together
HALVINGS = 40  # of the range in which a quantile is looked for
# From 0, in units of their spread. What is taken off numbers, or a column, goes back into the constant that is saved,
# and its scores lose as many digits. The objective of the saved weights was off by 1e-9 of it at 1e7 (50 rows).
FARTHEST = 4e6


class _Present:
    """Numbers (n,) and weights (n,), or (0,) for 1, of the rows that are present, a piece at a time."""

    def __init__(self, targets: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        self.targets, self.codes, self.weights = targets, codes, weights

    def pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(self.targets), PIECE):
            rows = slice(start, start + PIECE)
            there = self.codes[rows] == 0
            numbers = self.targets[rows][there]
            yield numbers, self.weights[rows][there] if self.weights.size else np.ones(len(numbers))

    def up_to(self, value: float) -> float:
        """The weight of the numbers that are no larger."""
        return math.fsum(float(weights[numbers <= value].sum()) for numbers, weights in self.pieces())

    def around(self, value: float) -> tuple[float, float]:
        """The largest number up to this value and the smallest beyond; -inf and inf where there is none."""
        below, above = -math.inf, math.inf
        for numbers, _ in self.pieces():
            below = max(below, float(numbers.max(initial=-math.inf, where=numbers <= value)))
            above = min(above, float(numbers.min(initial=math.inf, where=numbers > value)))
        return below, above

    def mean(self) -> float:
        """Exact where all are equal."""
        first = float(self.targets[np.argmax(self.codes == 0)])
        parts = [(float(weights @ (numbers - first)), float(weights.sum())) for numbers, weights in self.pieces()]
        total, mass = (math.fsum(column) for column in zip(*parts, strict=True))
        return first + total / mass

    def clipped_mean(self, most: float) -> float:
        """The constant from which errors, each taken as `most` at most, sum up to 0."""
        low, high = self.around(-math.inf)[1], self.around(math.inf)[0]
        for _ in range(2 * HALVINGS):
            middle = 0.5 * low + 0.5 * high
            pull = math.fsum(
                float(weights @ np.clip(numbers - middle, -most, most)) for numbers, weights in self.pieces()
            )
            low, high = (middle, high) if pull > 0.0 else (low, middle)
        return low

    def size(self) -> float:
        """The mean distance from 0."""
        parts = [(float(weights @ np.abs(numbers)), float(weights.sum())) for numbers, weights in self.pieces()]
        total, mass = (math.fsum(column) for column in zip(*parts, strict=True))
        return total / mass

    def quantile(self, level: float) -> float:
        """The number that more than this share of the weight lies up to; of two, at just so much, their mean."""
        goal = level * self.up_to(math.inf)
        low = self.around(-math.inf)[1]
        if self.up_to(low) > goal:
            return low
        high = self.around(math.inf)[0]
        for _ in range(HALVINGS):  # no more than the goal lies up to `low`
            middle = 0.5 * low + 0.5 * high
            if self.up_to(middle) > goal:
                high = middle
            else:
                low = middle
        before, after = self.around(low)
        return 0.5 * before + 0.5 * after if self.up_to(low) == goal and after < math.inf else min(after, high)


def centred(target: Target, targets: np.ndarray, weights: np.ndarray, loss: Any) -> Target:
    """The constant that is best alone is taken off `targets` (n,), in place, where a loss says which quantile that is.

    Where it does not it is the mean, of errors as far as the loss tells them apart; that of equal numbers is exact.
    The constant takes it up again at the end. weights (n,), or (0,) for 1.
    """
    present = _Present(targets, target.codes, weights)
    level = loss.level() if has(loss, "level") else None
    most = loss.most() if has(loss, "most") else math.inf
    if level is not None:
        shift = present.quantile(level)
    else:
        shift = present.mean() if math.isinf(most) else present.clipped_mean(most)
    np.subtract(targets, shift, out=targets, where=target.codes == 0)
    return replace(target, shift=shift)


def check_near(target: Target, targets: np.ndarray, weights: np.ndarray, name: str) -> None:
    """DataError for numbers, of which the shift was taken, that predictions could not tell apart: see FARTHEST."""
    size = _Present(targets, target.codes, weights).size()
    if 0.0 < size * FARTHEST < abs(target.shift):
        raise DataError(
            f"{name}: its labels are {target.shift:.7g} give or take {size:.2g}, too far from 0 to predict what tells "
            "them apart; subtract their mean from them"
        )
