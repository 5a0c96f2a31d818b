"""Orders of rows and blocks: seeded, the same on every machine."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

SMALL = 256  # a generator takes longer to make than so many rows to visit, and the next training asks for the same
REMEMBERED = 2048  # 4 MiB of orders


def permutation(size: int, *seed: int) -> np.ndarray:
    """A permutation of range(size), int64, drawn from the seed words (all >= 0)."""
    if size == 1:  # data in memory are one block; a generator would cost 50 us a pass
        return np.zeros(1, np.int64)
    return _remembered(size, *seed).copy() if size <= SMALL else _drawn(size, *seed)


def _drawn(size: int, *seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(size)


_remembered = lru_cache(REMEMBERED)(_drawn)
