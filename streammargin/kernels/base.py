"""The base classes of kernels K(x, z), and their sums."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeVar

import numpy as np

from streammargin.kinds import Number
from streammargin.words import Thing, entry

POSITIVE = Number("a positive finite number", lambda value: 0.0 < value < math.inf)
S = TypeVar("S", bound="Kernel")


class Kernel(Thing, ABC):
    """K(x, z) = weight times the values of `gram`. A subclass with `gram` alone is a kernel.

    The first line of a subclass's docstring is its help.
    definite: whether each matrix of values is known to be positive semidefinite; if not, a training tests it.
    """

    definite: ClassVar[bool] = False
    of_numbers: ClassVar[bool] = False  # the columns of a row are its values against the rows of the training
    weight: float = entry(1.0, POSITIVE, "a factor of all its values", kw_only=True)

    @abstractmethod
    def gram(self, X: Any, Z: Any) -> np.ndarray:
        """The values (m, s) for rows X (m, d) and Z (s, d), without `weight`; both arrays, or both csr_array."""

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernels that it is the sum of: itself."""
        return (self,)

    @property
    def unresolved(self) -> str | None:
        """A word that a field has in place of a number, as `scale`; None if there is none."""
        fields = [(line, getattr(part, line.name)) for part in self.parts for line in part.entries()]
        numbers = (found for line, found in fields if isinstance(line.metadata["kind"], Number))
        return next((found for found in numbers if isinstance(found, str)), None)

    @property
    def by_products(self) -> bool:
        """Whether products and squares of the rows give its values (`OfProducts`)."""
        return False

    def of_products(self, products: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """`weight` times the values, from x.z, ||x||^2 and ||z||^2, arrays that fit each other; may use `products`."""
        raise NotImplementedError(f"{self.name} is not a kernel of products")

    def diagonal(self, X: Any) -> np.ndarray:
        """`weight` K(x, x) (m,) for rows X (m, d), by `gram` of a few rows at a time."""
        some = [self.gram(X[at : at + 32], X[at : at + 32]).diagonal() for at in range(0, X.shape[0], 32)]
        return self.weight * np.concatenate([np.empty(0), *some])

    def resolved(self: S, features: int, variance: float) -> S:
        """The same with numbers in place of words such as `scale`; variance: of present values, weighted."""
        return self

    def blur(self, largest: float, value: float, features: int) -> float:
        """A bound on the rounding error of a value, divided by that of one operation.

        largest: ||x||^2 of any row; value: K(x, x) of any row, `weight` included.
        """
        return value * (features + 16.0)

    def careful_blur(self, largest: float, value: float, features: int) -> float:
        """The same bound, once the values that `doubtful` names are computed anew."""
        return self.blur(largest, value, features)

    def doubtful(
        self, products: np.ndarray, left: np.ndarray, right: np.ndarray, features: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Rows and columns of the values that the rounding of x.z may spoil; `of_differences` gives them anew.

        products (m, s): x.z, with ||x||^2 and ||z||^2 beside it. None if rounding spoils no value.
        """
        return None

    def of_differences(self, squares: np.ndarray) -> np.ndarray:
        """`weight` times the values (m,), from ||x - z||^2, of a kernel with doubtful values."""
        raise NotImplementedError(f"{self.name} is not a kernel of differences")

    def __add__(self, other: Kernel) -> KernelSum:
        return KernelSum(self, other) if isinstance(other, Kernel) else NotImplemented


class OfProducts(Kernel):
    """A kernel of x.z, ||x||^2 and ||z||^2."""

    @abstractmethod
    def value_of(self, products: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The values, without `weight`, from x.z, ||x||^2 and ||z||^2; may be written over `products`."""

    @property
    def by_products(self) -> bool:
        return True

    def of_products(self, products: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        found = self.value_of(products, left, right)
        if self.weight != 1.0:
            found *= products.dtype.type(self.weight)
        return found

    def gram(self, X: Any, Z: Any) -> np.ndarray:
        products, left, right = X @ Z.T, (X * X).sum(axis=1), (Z * Z).sum(axis=1)
        dense = products.toarray() if hasattr(products, "toarray") else products
        return self.value_of(np.asarray(dense, np.float64), left[:, None], right[None, :])


class KernelSum(Kernel):
    """The sum of several kernels, each with its weight; k1__gamma is the gamma of the first, as in scikit-learn."""

    name = "a sum of kernels"
    weight = property(lambda self: 1.0)  # each part has its own

    def __init__(self, first: Kernel, *others: Kernel) -> None:
        self._parts = tuple(part for one in (first, *others) for part in one.parts)

    @classmethod
    def entries(cls) -> list[Any]:
        return []

    @property
    def parts(self) -> tuple[Kernel, ...]:
        return self._parts

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        numbered = enumerate(self._parts, 1)
        return {f"k{at}__{name}": value for at, part in numbered for name, value in part.get_params().items()}

    def replace(self, **fields: Any) -> KernelSum:
        made = {f"k{at}": part.replace() for at, part in enumerate(self._parts, 1)}
        for name, value in fields.items():
            at, _, field = name.partition("__")
            setattr(made[at], field, value)
        return KernelSum(*made.values())

    def __sklearn_clone__(self) -> KernelSum:
        return self.replace()

    @property
    def definite(self) -> bool:  # type: ignore[override]
        return all(part.definite for part in self._parts)

    @property
    def by_products(self) -> bool:
        return all(part.by_products for part in self._parts)

    def gram(self, X: Any, Z: Any) -> np.ndarray:
        found = self._parts[0].weight * self._parts[0].gram(X, Z)
        for part in self._parts[1:]:
            found = found + part.weight * part.gram(X, Z)
        return found

    def of_products(self, products: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        found = self._parts[0].of_products(products.copy(), left, right)
        for part in self._parts[1:]:
            found += part.of_products(products.copy(), left, right)
        return found

    def resolved(self, features: int, variance: float) -> KernelSum:
        return KernelSum(*(part.resolved(features, variance) for part in self._parts))

    def blur(self, largest: float, value: float, features: int) -> float:
        each = sum(part.blur(largest, value, features) for part in self._parts)
        return each + len(self._parts) * value

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._parts == other._parts

    def __str__(self) -> str:
        return "+".join(map(str, self._parts))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self._parts))
