"""The base class of maps: rows of d columns become rows of other columns, on which a linear model is trained."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, TypeVar

import numpy as np

from streammargin.words import Thing

S = TypeVar("S", bound="Map")
Arrays = dict[str, Any]  # arrays, and csr_arrays


class Seen(NamedTuple):
    """The sums that a map learns from, in a read of all rows.

    features: d; sample: (s, d) float64 some rows, an array or a csr_array; seed: of random draws.
    """

    features: int
    sample: Any
    seed: int


class Map(Thing, ABC):
    """A map z(x) of rows. A subclass with `columns`, `learn` and `rows` is one.

    The first line of a subclass's docstring is its help.
    """

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of columns of a mapped row."""

    @property
    def sample(self) -> int:
        """How many rows, drawn at random, `learn` looks at; here 0."""
        return 0

    @property
    def largest_square(self) -> float:
        """About the largest z(x).z(x) of any row; inf, as here, if that is not known."""
        return math.inf

    def resolved(self: S, features: int, variance: float) -> S:
        """The same with numbers in place of words such as `scale`; variance: of present values, weighted."""
        return self

    @abstractmethod
    def learn(self, seen: Seen) -> Arrays:
        """The arrays by name that `rows` takes; they are stored in the model."""

    @abstractmethod
    def rows(self, X: Any, learned: Arrays) -> np.ndarray:
        """The mapped rows (TILE, width) of X (TILE, d) float64, an array or a csr_array, by NumPy and SciPy.

        A mapped row must not depend on the rows beside it. `product` sees to that, if X @ Y may not.
        """

    def nbytes(self, features: int, row_bytes: float) -> int:
        """About the bytes of what `learn` makes; row_bytes: of a stored row."""
        return int(self.width * (8 * self.width + 2.0 * row_bytes))
