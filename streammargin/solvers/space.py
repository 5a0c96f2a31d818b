"""The spaces that a method of whole vectors moves in: how vectors are mixed there, and how long they are."""

from __future__ import annotations

import math

import numpy as np

from streammargin.compiled import vectors
from streammargin.penalties.mirror_maps import lp_norm


class Space:
    """Weights of columns, with the Euclidean length."""

    def mix(self, share: float, x: np.ndarray, part: float, y: np.ndarray) -> float:
        """x <- share x + part y, in place; returns the new ||x||."""
        return lp_norm(x, 2.0, vectors.mix(share, x, part, y))

    def length(self, x: np.ndarray) -> float:
        """||x||."""
        return lp_norm(x, 2.0, vectors.square(x))

    def towards(self, x: np.ndarray, part: float, y: np.ndarray) -> tuple[float, float]:
        """(x.s, ||s||^2) for the step s = part y - x."""
        along, square = vectors.towards(x, part, y)
        return along, square


class SpaceOfKernel(Space):
    """sum_i c_i phi(x_i) in the space of a kernel: of each row the coefficient c_i and the score (K c)_i, in turn.

    So x.z is the sum of the coefficients of one times the scores of the other; several lines follow each other.
    """

    def mix(self, share: float, x: np.ndarray, part: float, y: np.ndarray) -> float:
        vectors.mix(share, x, part, y)
        return self.length(x)

    def length(self, x: np.ndarray) -> float:
        return math.sqrt(max(0.0, float(np.einsum("i,i", x[0::2], x[1::2]))))

    def towards(self, x: np.ndarray, part: float, y: np.ndarray) -> tuple[float, float]:
        step = part * y - x
        scores = step[1::2]
        return float(np.einsum("i,i", x[0::2], scores)), float(np.einsum("i,i", step[0::2], scores))


EUCLIDEAN, OF_KERNEL = Space(), SpaceOfKernel()
