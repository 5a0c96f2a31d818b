"""Rows in tiles of one size, which are filled up with rows of zeros."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streammargin.maps.products import TILE


def tiles(X: Any) -> Iterator[tuple[Any, int]]:
    """(tile (TILE, d) float64, how many rows of X it has) of rows X (m, d), an array or a csr_array, in order."""
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
