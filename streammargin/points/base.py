"""What the driver asks of the point that a training has reached, and a model and its file of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np

from streammargin.rows.blocks import Block


class Answer(Protocol):
    """Scores of rows of d features: K numbers each.

    ARRAYS: names of what a model file keeps of it.
    """

    ARRAYS: ClassVar[tuple[str, ...]]

    @classmethod
    def restored(cls, arrays: Sequence[np.ndarray]) -> Answer:
        """The answer of the arrays in a file, in the order of ARRAYS. Raises ValueError saying why they are none."""

    @property
    def outputs(self) -> int:
        """K, the scores of a row."""

    @property
    def features(self) -> int:
        """d, the columns of the rows that it takes."""

    def score(self, block: Block, first: int, scores: np.ndarray) -> None:
        """Fill scores (m, K) float64 with those of the rows first .. first + m of the block."""

    def length(self, p: float) -> float:
        """The norm of output 0 that a margin is divided by, with the exponent p of the regulariser."""

    def for_columns(self, order: np.ndarray, features: int) -> Answer:
        """The same for rows of so many columns, of which column order[j] is its column j, -1: none, taken as 0."""

    def arrays(self) -> dict[str, np.ndarray]:
        """What `restored` makes it of again, by name."""


class Point(Answer, Protocol):
    """An answer that a training finds, for rows in the scale that it sees them in."""

    @classmethod
    def restored(cls, arrays: Sequence[np.ndarray]) -> Point:
        """As above."""

    def copy(self) -> Point:
        """The same in arrays of its own: those of a training may be written again."""

    def finite(self) -> bool:
        """Whether it is all numbers."""

    def nonzeros(self) -> int:
        """How many weights of it are not 0, constants left out."""

    def chosen(self, outputs: slice) -> Point:
        """These of its outputs."""

    def with_constants(self, constants: np.ndarray) -> Point:
        """The same with the constants (K,) for those that it has."""

    def unscaled(self, center: np.ndarray | None, factor: np.ndarray | None, shift: float) -> Point:
        """The same for rows x of which it was given (x - center) * factor, and with scores larger by `shift`.

        center, factor (d,): None for rows as they are.
        """


def answered(scores: np.ndarray) -> np.ndarray:
    """The number of the class (m,) that each row is given, by its scores (m, 1) of two classes or (m, K) of K."""
    return np.argmax(scores, axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0.0).astype(np.intp)
