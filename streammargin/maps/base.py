"""The base class of maps: rows become rows of other columns, for a linear model; rows in tiles of one size."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from streammargin.words import Thing

S = TypeVar("S", bound="Map")
Arrays = dict[str, Any]  # arrays, and csr_arrays
MAPPED_ROWS = 128  # rows that are mapped at a time, always: a BLAS may sum in another order for another number of rows


class MapSums(NamedTuple):
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
        """How many rows, drawn at random, `learn` gets; here 0."""
        return 0

    @property
    def largest_square(self) -> float:
        """About the largest z(x).z(x) of any row; inf, as here, if that is not known."""
        return math.inf

    def resolved(self: S, features: int, variance: float) -> S:
        """The same with numbers in place of words such as `scale`; variance: of present values, weighted."""
        return self

    @abstractmethod
    def learn(self, seen: MapSums) -> Arrays:
        """The arrays by name that `rows` takes; they are stored in the model."""

    @abstractmethod
    def rows(self, X: Any, learned: Arrays) -> np.ndarray:
        """The mapped rows (MAPPED_ROWS, width) of X (MAPPED_ROWS, d) float64, array or csr_array, by NumPy and SciPy.

        A mapped row must not depend on the rows beside it. `product` sees to that, if X @ Y may not.
        """

    def nbytes(self, features: int, row_bytes: float) -> int:
        """About the bytes of what `learn` makes; row_bytes: of a stored row."""
        return int(self.width * (8 * self.width + 2.0 * row_bytes))


def product(X: Any, Y: Any) -> np.ndarray:
    """X (MAPPED_ROWS, d) @ Y (d, m) float64; X an array or a csr_array, Y an array, or sparse like X."""
    if not isinstance(X, np.ndarray):  # SciPy adds up the values of a row in their order
        found = X @ Y
        return np.ascontiguousarray(found.toarray() if hasattr(found, "toarray") else found)
    steady = len(X) == MAPPED_ROWS and is_steady(*Y.shape)
    return np.asarray(X @ Y if steady else np.einsum("ij,jk->ik", X, Y))


@cache
def is_steady(d: int, m: int) -> bool:
    """Whether BLAS gives a row the same bits at each place of a tile: in float32 some do not (OpenBLAS, by sixes)."""
    random = np.random.default_rng(0)
    X, Y, order = (
        random.standard_normal((MAPPED_ROWS, d)),
        random.standard_normal((d, m)),
        random.permutation(MAPPED_ROWS),
    )
    return np.array_equal((X @ Y)[order], X[order] @ Y)


def tiles(X: Any) -> Iterator[tuple[Any, int]]:
    """(tile (MAPPED_ROWS, d) float64, how many rows of X it has) of rows X (m, d), an array or a csr_array, in order.

    The last tile is filled up with rows of zeros.
    """
    for low in range(0, X.shape[0], MAPPED_ROWS):
        part = X[low : low + MAPPED_ROWS].astype(np.float64, copy=False)
        count = part.shape[0]
        if isinstance(part, np.ndarray):
            missing = np.zeros((MAPPED_ROWS - count, part.shape[1]))
            yield np.concatenate([part, missing]) if count < MAPPED_ROWS else np.ascontiguousarray(part), count
        else:
            import scipy.sparse as sp

            indptr = np.append(part.indptr, np.full(MAPPED_ROWS - count, part.indptr[-1], part.indptr.dtype))
            yield sp.csr_array((part.data, part.indices, indptr), (MAPPED_ROWS, part.shape[1])), count
