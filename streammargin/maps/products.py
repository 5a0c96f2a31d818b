"""Rows in tiles of one size, and products of a tile with a matrix, to the same bits wherever in it a row stands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

TILE = 128  # rows that are mapped at a time, always: a BLAS may sum in another order for another number of rows


def product(X: Any, Y: Any) -> np.ndarray:
    """X (TILE, d) @ Y (d, m) float64; X an array or a csr_array, Y an array, or sparse like X."""
    if not isinstance(X, np.ndarray):  # SciPy adds up the values of a row in their order
        found = X @ Y
        return np.ascontiguousarray(found.toarray() if hasattr(found, "toarray") else found)
    steady = len(X) == TILE and is_steady(*Y.shape)
    return np.asarray(X @ Y if steady else np.einsum("ij,jk->ik", X, Y))


@cache
def is_steady(d: int, m: int) -> bool:
    """Whether BLAS gives a row the same bits at each place of a tile: in float32 some do not (OpenBLAS, by sixes)."""
    random = np.random.default_rng(0)
    X, Y, order = random.standard_normal((TILE, d)), random.standard_normal((d, m)), random.permutation(TILE)
    return np.array_equal((X @ Y)[order], X[order] @ Y)


def tiles(X: Any) -> Iterator[tuple[Any, int]]:
    """(tile (TILE, d) float64, how many rows of X it has) of rows X (m, d), an array or a csr_array, in order.

    The last tile is filled up with rows of zeros.
    """
    for low in range(0, X.shape[0], TILE):
        part = X[low : low + TILE].astype(np.float64, copy=False)
        count = part.shape[0]
        if isinstance(part, np.ndarray):
            missing = np.zeros((TILE - count, part.shape[1]))
            yield np.concatenate([part, missing]) if count < TILE else np.ascontiguousarray(part), count
        else:
            import scipy.sparse as sp

            indptr = np.append(part.indptr, np.full(TILE - count, part.indptr[-1], part.indptr.dtype))
            yield sp.csr_array((part.data, part.indices, indptr), (TILE, part.shape[1])), count
