"""Losses of ratings, the entries of a matrix: sums of terms max over low <= u <= high of u (x - z) - bend u^2 / 2.

The absolute error has one term with z = value, low = -1, high = 1, and half the squared error one without limits and
with bend = 1. A hinge with levels has one term for each (Pdprox paper, section 5.3). A rating above levels[t] wants
x >= at[t] + 1, another one x <= at[t] - 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from streammargin.errors import UsageError
from streammargin.kinds import Kind, read_number
from streammargin.losses.base import Loss
from streammargin.wording import shown
from streammargin.words import Family, entry


class Kinks(NamedTuple):
    """The numbers of a loss of ratings; levels, at: (terms,), (0,) for one term with z = value."""

    levels: np.ndarray
    at: np.ndarray
    low: float
    high: float
    bend: float

    def of_numbers(self) -> bool:
        return True

    @property
    def terms(self) -> int:
        """How many terms an entry has."""
        return max(1, self.levels.size)

    @property
    def unit(self) -> float:
        """A distance of x that matters, if the values do not tell; 0: they do."""
        return 1.0 if self.levels.size else 0.0

    def rated(self, scores: np.ndarray, top: float) -> np.ndarray:
        """The ratings that these values of x stand for; top: the largest of the training, mostly above the levels."""
        if not self.levels.size:
            return scores
        return np.append(self.levels, max(top, self.levels[-1]))[np.searchsorted(self.at, scores)]


@dataclass(frozen=True)
class Ascending(Kind):
    """Numbers that ascend; at least one."""

    metavar: str = "1,2,3,4"

    def read(self, text: str) -> tuple[float, ...]:
        return tuple(read_number(part) for part in text.split(","))

    def check(self, what: str, value: object) -> tuple[float, ...]:
        given = value if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str) else [value]
        try:
            numbers = tuple(float(one) for one in given)  # type: ignore[arg-type]  # what is none is said below
        except (TypeError, ValueError):
            numbers = ()
        finite = all(math.isfinite(one) for one in numbers)
        if not numbers or not finite or any(b <= a for a, b in pairwise(numbers)):
            raise UsageError(f"{what} must be numbers that ascend, as 1,2,3,4, not {shown(value)}")
        return numbers


class RatingLoss(Loss):
    """A loss of entries of a matrix, of the value x of the matrix there."""

    def terms(self) -> Any:
        return Kinks(np.empty(0), np.empty(0), -1.0, 1.0, 0.0)


class AbsoluteRatingError(RatingLoss):
    """|x - rating|: outliers count little."""

    name = "absolute_error"


class SquaredRatingError(RatingLoss):
    """(x - rating)^2 / 2: fits the mean."""

    name = "squared_error"

    def terms(self) -> Any:
        return Kinks(np.empty(0), np.empty(0), -math.inf, math.inf, 1.0)


class LevelHinge(RatingLoss):
    """The sum over levels of max(0, 1 - x + at) for ratings above the level, of max(0, 1 + x - at) for others.

    Ratings are levels, or one number above the last level. By default they are two numbers, the lower one the level.
    """

    name = "hinge"
    levels: Sequence[float] | None = entry(None, Ascending(), "ratings, but the highest one, ascending")
    at: Sequence[float] | None = entry(
        None, Ascending(), "where the value of the matrix passes each level; by default 0, 3, 6, ..."
    )

    def checked(self) -> LevelHinge:
        made: LevelHinge = super().checked()
        if made.levels is None:
            if made.at is not None and len(made.at) > 1:
                raise UsageError("the field at of hinge has several numbers, so levels must have as many")
            return made.replace(at=made.at or (0.0,))
        if made.at is None:
            made = made.replace(at=tuple(3.0 * k for k in range(len(made.levels))))
        levels, at = len(made.levels or ()), len(made.at or ())
        if at != levels:
            raise UsageError(f"hinge has {levels} levels, but at has {at} numbers")
        return made

    def known(self, ratings: Sequence[float]) -> LevelHinge:
        """The same with levels, given the different ratings of the training, ascending. UsageError if they differ.

        Raises UsageError for ratings that are no levels.
        """
        if self.levels is None:
            if len(ratings) != 2:
                raise UsageError(
                    f"`loss=hinge` separates two ratings, and there are {len(ratings)}: name their levels, as in "
                    "`loss=hinge:levels=1,2,3,4,at=0,3,6,9`"
                )
            return self.replace(levels=tuple(ratings[:1]))
        return self

    def terms(self) -> Any:
        levels, at = (np.array(one or (), np.float64) for one in (self.levels, self.at))
        return Kinks(levels, at[: levels.size], -1.0, 1.0, 0.0)


RATINGS = Family(
    "loss", "losses", RatingLoss, {cls.name: cls for cls in (AbsoluteRatingError, SquaredRatingError, LevelHinge)},
    {"squared": "squared_error", "mse": "squared_error", "mae": "absolute_error", "l1": "absolute_error"},
)  # fmt: skip
