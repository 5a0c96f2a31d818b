"""The Nystroem map: similarity to a sample of the rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streammargin.errors import UsageError
from streammargin.kernels import FAMILY as KERNELS
from streammargin.kernels import known_kernel
from streammargin.kernels.base import Kernel
from streammargin.kernels.plain import Rbf
from streammargin.kinds import Whole
from streammargin.maps.base import Arrays, Map, MapSums, product, tiles
from streammargin.words import Worded, entry, needed


class OfKernels(Worded[Kernel]):
    """A word of a kernel, as in a saved map, or a kernel."""

    def check(self, what: str, value: object) -> Kernel:
        return known_kernel(value) if isinstance(value, str) else self.family.of(value)


class Nystroem(Map):
    """For a kernel: z(x).z(x') is K(x, x') as far as `columns` rows, drawn at random, can tell (Williams, Seeger 2001).

    With the values K of these rows Z, z(x) is K(x, Z) U S^-1/2 for the eigenvectors U and eigenvalues S of K.
    """

    columns: int = needed(Whole(1, "500"), "of a mapped row: the number of rows that others are compared with")
    kernel: Kernel | str = entry("rbf", OfKernels(KERNELS), "the kernel, as rbf:0.5")

    @property
    def width(self) -> int:
        return self.columns

    @property
    def sample(self) -> int:
        return self.columns

    @property
    def largest_square(self) -> float:
        parts = self.of.parts
        return sum(part.weight for part in parts) if all(isinstance(part, Rbf) for part in parts) else math.inf

    def checked(self) -> Nystroem:
        made = super().checked()
        if made.of.of_numbers:
            raise UsageError("a map takes rows, and `kernel=precomputed` has none")
        return made

    @property
    def of(self) -> Kernel:
        """The kernel."""
        return known_kernel(self.kernel) if isinstance(self.kernel, str) else self.kernel

    def resolved(self, features: int, variance: float) -> Nystroem:
        return self.replace(kernel=self.of.resolved(features, variance))

    def learn(self, seen: MapSums) -> Arrays:
        Z, kernel = seen.sample, self.of
        values = np.concatenate([_values(kernel, tile, Z, _squares(Z))[:rows] for tile, rows in tiles(Z)])
        if not np.isfinite(values).all():
            raise UsageError(
                f"the kernel {kernel} of the map has a value that is not finite; use `scale=std`, or a smaller gamma"
            )
        sizes, vectors = np.linalg.eigh((values + values.T) / 2.0)
        sizes, vectors = sizes[::-1], vectors[:, ::-1]
        # a direction that rounding drowns becomes a column of zeros
        known = sizes > len(sizes) * float(np.finfo(np.float64).eps) * max(float(sizes[0]), 0.0)
        factors = np.divide(1.0, np.sqrt(np.where(known, sizes, 1.0)), out=np.zeros_like(sizes), where=known)
        return {"landmarks": Z, "projection": np.ascontiguousarray(vectors * factors)}

    def rows(self, X: Any, learned: Arrays) -> np.ndarray:
        Z = learned["landmarks"]
        return product(_values(self.of, X, Z, _squares(Z)), learned["projection"])


def _squares(X: Any) -> np.ndarray:
    """||x||^2 (m,) of the rows of an array or a csr_array."""
    return np.asarray((X * X).sum(axis=1)).reshape(-1)


def _values(kernel: Kernel, X: Any, Z: Any, right: np.ndarray) -> np.ndarray:
    """K(x, z) (MAPPED_ROWS, s) of a tile of rows; right (s,): ||z||^2."""
    if not kernel.by_products:
        return kernel.weight * kernel.gram(X, Z)
    return kernel.of_products(product(X, Z.T), _squares(X)[:, None], right[None, :])


MAPS = (Nystroem,)
