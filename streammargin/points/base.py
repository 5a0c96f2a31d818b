"""The interfaces of an answer, as a model uses it, and of a point, as the driver uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from streammargin.rows.blocks import Block, nbytes
from streammargin.workers import Workers


def score(answer: Answer, block: Block, first: int, scores: np.ndarray, workers: Workers) -> None:
    """Fill scores (m, K) for the rows first .. first + m of the block, on several cores."""
    size = nbytes(block) * len(scores) // max(1, block.rows())
    workers.spans(len(scores), size, lambda low, high: answer.score(block, first + low, scores[low:high]))


class Answer(Protocol):
    """A function from rows of d features to K scores. Its arrays in a model file are lines of `saved/fields.py`."""

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> Answer:
        """The answer with these arrays, by name, once they are checked. Raises ValueError for a word that is none."""

    @property
    def outputs(self) -> int:
        """K, the number of scores per row."""

    @property
    def features(self) -> int:
        """d, the number of columns."""

    def score(self, block: Block, first: int, scores: np.ndarray) -> None:
        """Fill scores (m, K) float64 for the rows first .. first + m of the block."""

    def chosen(self, outputs: slice) -> Answer:
        """The same with these outputs only."""

    def length(self, p: float) -> float:
        """The norm of w by which margins of output 0 are divided; p: the exponent of the penalty."""

    def for_columns(self, order: np.ndarray, features: int) -> Answer:
        """The same for rows with `features` columns: column j becomes order[j]; -1: missing, counts as 0."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Its arrays by name; `restored` is the inverse."""


@runtime_checkable
class Rounded(Protocol):
    """An answer that may predict by float32."""

    def exactly(self) -> Answer:
        """The same, whose scores are by float64 alone."""


def exact(answer: Answer) -> Answer:
    """The same with the scores that figures are made of, which `verify` computes again."""
    return answer.exactly() if isinstance(answer, Rounded) else answer


class Point(Answer, Protocol):
    """An answer in training, for rows as the solver sees them (scaled)."""

    @property
    def zeros(self) -> np.ndarray:
        """Which weights (K, d) are proven to be 0 in every solution."""

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> Point:
        """See Answer."""

    def chosen(self, outputs: slice) -> Point:
        """See Answer."""

    def copy(self) -> Point:
        """A copy with its own arrays; a training reuses its arrays."""

    def finite(self) -> bool:
        """Whether all its numbers are finite."""

    def nonzeros(self) -> int:
        """The number of nonzero weights, without constants."""

    def with_constants(self, constants: np.ndarray) -> Point:
        """The same weights with these constants (K,)."""

    def unscaled(self, center: np.ndarray | None, factor: np.ndarray | None, shift: float | np.ndarray) -> Point:
        """The same for unscaled rows x, given that it is for (x - center) * factor, with `shift` added to the scores.

        shift: one, or one for each output. center, factor (d,): None for no scaling.
        """


class Start(Point, Protocol):
    """A point that a training may begin from."""

    def scaled(self, center: np.ndarray | None, factor: np.ndarray | None, bias: float) -> Start:
        """The inverse of `unscaled` without shift; bias: the value of the constant column, 0 if constants go."""


def answered(scores: np.ndarray) -> np.ndarray:
    """The predicted class (m,) from scores (m, 1) of two classes or (m, K) of K classes."""
    return np.argmax(scores, axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0.0).astype(np.intp)
