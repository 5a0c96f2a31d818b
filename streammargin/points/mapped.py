"""A linear point of mapped rows: z(x) . w + b."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from streammargin.maps import fitted_of
from streammargin.maps.fitted import SOME, Fitted
from streammargin.points.base import Point
from streammargin.points.before import Before
from streammargin.points.linear import LinearPoint
from streammargin.rows.blocks import Block, DenseBlock, alone, part


class Mapped:
    """fitted: the map; linear: weights of mapped columns; before: how rows become those of the training."""

    fitted: Fitted
    linear: LinearPoint

    def __init__(self, fitted: Fitted, linear: LinearPoint, before: Before) -> None:
        self.fitted, self.linear, self.before = fitted, linear, before

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> Mapped:
        before = Before(int(arrays["features"]), arrays["centers"], arrays["factors"])
        return cls(fitted_of(arrays), LinearPoint.restored(arrays), before)

    @property
    def outputs(self) -> int:
        return self.linear.outputs

    @property
    def features(self) -> int:
        return self.before.features

    @property
    def zeros(self) -> np.ndarray:
        return self.linear.zeros

    def score(self, block: Block, first: int, scores: np.ndarray) -> None:
        for low in range(0, len(scores), SOME):
            high = min(len(scores), low + SOME)
            rows = self.before.rows(alone(part(block, first + low, first + high)))
            mapped = np.empty((high - low, self.fitted.map.width), self.fitted.dtype)
            self.fitted.fill(rows, mapped)
            self.linear.score(DenseBlock(mapped, 0.0), 0, scores[low:high])

    def length(self, p: float) -> float:
        """||w||_p of output 0, of mapped columns."""
        return self.linear.length(p)

    def copy(self) -> Mapped:
        return self.weighed(self.linear.copy())

    def weighed(self, linear: LinearPoint) -> Mapped:
        """The same map with these weights."""
        return Mapped(self.fitted, linear, self.before)

    def finite(self) -> bool:
        return self.linear.finite()

    def nonzeros(self) -> int:
        return self.linear.nonzeros()

    def chosen(self, outputs: slice) -> Mapped:
        return self.weighed(self.linear.chosen(outputs))

    def with_constants(self, constants: np.ndarray) -> Mapped:
        return self.weighed(self.linear.with_constants(constants))

    def unscaled(self, center: np.ndarray | None, factor: np.ndarray | None, shift: float | np.ndarray) -> Mapped:
        found = self.weighed(self.linear.unscaled(None, None, shift))
        if center is not None and factor is not None:
            found.before = found.before.scaled(center, factor)
        return found

    def for_columns(self, order: np.ndarray, features: int) -> Mapped:
        found = self.weighed(self.linear)
        found.before = found.before._replace(columns=order, features=features)
        return found

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            **self.fitted.arrays(),
            **self.linear.arrays(),
            "features": np.array(self.features),
            "centers": self.before.center,
            "factors": self.before.factor,
        }


def mapped(fitted: Fitted, point: Point, features: int) -> Point:
    """The point for rows of so many columns, given one for mapped rows; while nothing is learned, weights of 0."""
    assert isinstance(point, LinearPoint)
    if not fitted.learned:
        return LinearPoint.of(np.zeros((point.outputs, features)), point.arrays()["intercept"])
    return Mapped(fitted, point, Before(features))


def taken_apart(answer: LinearPoint | Mapped) -> tuple[Mapped | None, np.ndarray, np.ndarray]:
    """The answer itself if it has a map, its weights (K, d) and its constants (K,)."""
    linear = answer.linear if isinstance(answer, Mapped) else answer
    coef, intercept = linear.arrays().values()
    return (answer if isinstance(answer, Mapped) else None), coef, intercept


def put_together(behind: Mapped | None, coef: np.ndarray, intercept: np.ndarray) -> LinearPoint | Mapped:
    """The answer with these weights and constants, behind the map of another, if there is one."""
    linear = LinearPoint.of(coef, intercept)
    return linear if behind is None else behind.weighed(linear)
