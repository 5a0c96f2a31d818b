"""Orders of rows and blocks: seeded, the same on every machine."""

from __future__ import annotations

import numpy as np


def permutation(size: int, *seed: int) -> np.ndarray:
    """A permutation of range(size), int64, drawn from the seed words (all >= 0)."""
    return np.random.default_rng(seed).permutation(size)
