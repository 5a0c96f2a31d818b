"""Random Fourier features: cosines of random directions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streammargin.kernels.plain import GAMMA, SCALE
from streammargin.kinds import Whole
from streammargin.maps.base import Arrays, Map, MapSums, product
from streammargin.words import entry, needed


class Rff(Map):
    """For the kernel rbf: cosines and sines along random directions, which no rows decide (Rahimi, Recht 2007).

    z(x) is sqrt(2 / columns) (cos v.x, sin v.x). Directions v of a group of d are orthogonal (Yu and others 2016).
    """

    columns: int = needed(Whole(2, "500"), "of a mapped row: a cosine and a sine for each direction")
    gamma: float | str = entry(SCALE, GAMMA, "of exp(-gamma ||x - z||^2); scale: 1 / (d Var(X))")

    @property
    def width(self) -> int:
        return self.columns

    @property
    def largest_square(self) -> float:
        return 1.0

    def resolved(self, features: int, variance: float) -> Rff:
        if self.gamma != SCALE:
            return self
        return self.replace(gamma=1.0 / (features * variance) if variance > 0.0 else 1.0)

    def learn(self, seen: MapSums) -> Arrays:
        random, d, wanted = np.random.default_rng(seen.seed), seen.features, -(-self.columns // 2)
        found = np.empty((d, wanted))
        for low in range(0, wanted, d):
            few = min(d, wanted - low)
            directions, _ = np.linalg.qr(random.standard_normal((d, few)))
            found[:, low : low + few] = directions * np.sqrt(random.chisquare(d, few))
        return {"directions": found * (math.sqrt(2.0) * math.sqrt(float(self.gamma)))}

    def rows(self, X: Any, learned: Arrays) -> np.ndarray:
        V = learned["directions"]
        turns = product(X, V)
        found = np.concatenate([np.cos(turns), np.sin(turns[:, : self.columns // 2])], axis=1)
        found *= math.sqrt(2.0 / self.columns)
        return np.asarray(found)

    def nbytes(self, features: int, row_bytes: float) -> int:
        return 3 * 8 * features * (self.columns // 2 + 1)


MAPS = (Rff,)
