"""The kernels of products: rbf, poly, sigmoid and linear; and values that were computed before."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np

from streammargin.kernels.base import Kernel, OfProducts
from streammargin.kinds import Number, Whole
from streammargin.words import entry

SCALE = "scale"
GAMMA = Number("a positive number", lambda value: 0.0 < value < math.inf, (SCALE,), "GAMMA")
FINITE = Number("a finite number", math.isfinite)
S = TypeVar("S", bound="Scaled")
EPS = float(np.finfo(np.float64).eps)
DOUBT = 1e-8  # an error of gamma ||x - z||^2 above this spoils a value
GONE = 50.0  # exp(-50) is below any rounding


class Scaled(OfProducts):
    """A kernel with a gamma, which is 1 / (d Var(X)) by default, as in scikit-learn."""

    def resolved(self: S, features: int, variance: float) -> S:
        if getattr(self, "gamma") != SCALE:  # noqa: B009  # a field of each subclass
            return self
        return self.replace(gamma=1.0 / (features * variance) if variance > 0.0 else 1.0)


class Rbf(Scaled):
    """exp(-gamma ||x - z||^2): near rows are alike, at the distance that gamma says."""

    definite = True
    gamma: float | str = entry(SCALE, GAMMA, "1 / (2 sigma^2); scale: 1 / (d Var(X))")

    def value_of(self, products: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        gamma = float(self.gamma)
        kind = products.dtype.type
        products *= kind(2.0 * gamma)
        products -= (gamma * left).astype(products.dtype)
        products -= (gamma * right).astype(products.dtype)
        np.minimum(products, kind(0.0), out=products)
        return np.exp(products, out=products)

    def _error(self, largest: Any, features: int) -> Any:
        """A bound on the rounding error of gamma ||x - z||^2 by products, divided by that of one operation."""
        return 4.0 * float(self.gamma) * largest * (features + 4.0)

    def blur(self, largest: float, value: float, features: int) -> float:
        return self.weight * (float(self._error(largest, features)) + 8.0)

    def careful_blur(self, largest: float, value: float, features: int) -> float:
        error = min(float(self._error(largest, features)), DOUBT / EPS + features + 4.0)
        return self.weight * (error + 8.0)

    def doubtful(
        self, products: np.ndarray, left: np.ndarray, right: np.ndarray, features: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        largest = max(float(left.max(initial=0.0)), float(right.max(initial=0.0)))
        if products.dtype != np.float64 or not EPS * self._error(largest, features) > DOUBT:
            return None
        error = EPS * self._error(np.maximum(left, right), features)
        near = float(self.gamma) * (left + right - 2.0 * products) < GONE + error
        rows, columns = np.nonzero(near & (error > DOUBT))
        return rows, columns

    def of_differences(self, squares: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.weight * np.exp(-float(self.gamma) * squares)
        return found


class Poly(Scaled):
    """(gamma x.z + coef0)^degree: products of up to `degree` columns."""

    degree: int = entry(3, Whole(1, "DEGREE"), "of the polynomial")
    gamma: float | str = entry(SCALE, GAMMA, "a factor of x.z; scale: 1 / (d Var(X))")
    coef0: float = entry(0.0, FINITE, "added to gamma x.z")

    @property
    def definite(self) -> bool:  # type: ignore[override]
        return self.coef0 >= 0.0

    def value_of(self, products: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        kind = products.dtype.type
        products *= kind(self.gamma)
        products += kind(self.coef0)
        base, found = products, products.copy()
        for _ in range(self.degree - 1):
            found *= base
        return found

    def blur(self, largest: float, value: float, features: int) -> float:
        size = float(self.gamma) * largest + abs(self.coef0)
        return self.weight * size**self.degree * (self.degree * (features + 8.0) + 4.0)


class Sigmoid(Scaled):
    """tanh(gamma x.z + coef0); often not positive semidefinite, and then nothing is certified."""

    gamma: float | str = entry(SCALE, GAMMA, "a factor of x.z; scale: 1 / (d Var(X))")
    coef0: float = entry(0.0, FINITE, "added to gamma x.z")

    def value_of(self, products: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        kind = products.dtype.type
        products *= kind(self.gamma)
        products += kind(self.coef0)
        return np.tanh(products, out=products)

    def blur(self, largest: float, value: float, features: int) -> float:
        return self.weight * (float(self.gamma) * largest * (features + 8.0) + 8.0)


class Linear(OfProducts):
    """x.z: a linear machine as an expansion over rows; rarely better than a training without `kernel`."""

    definite = True

    def value_of(self, products: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return products

    def blur(self, largest: float, value: float, features: int) -> float:
        return self.weight * largest * (features + 4.0)


class Precomputed(Kernel):
    """The values are the data: X (n, n) of the training rows, and (m, n) of rows to predict against them."""

    of_numbers = True

    def gram(self, X: Any, Z: Any) -> np.ndarray:
        raise NotImplementedError("the values are the columns of X")

    def blur(self, largest: float, value: float, features: int) -> float:
        return 4.0 * value


KERNELS = (Rbf, Poly, Sigmoid, Linear, Precomputed)
