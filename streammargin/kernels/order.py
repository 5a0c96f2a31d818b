"""Orders of rows and blocks: seeded, the same on every machine."""

from __future__ import annotations

import numpy as np


def permutation(size: int, *seed: int) -> np.ndarray:
    """A permutation of range(size), int64, drawn from the seed words (all >= 0)."""
    if size == 1:  # data in memory are one block; a generator would cost 50 us a pass
        return np.zeros(1, np.int64)
    return np.random.default_rng(seed).permutation(size)
